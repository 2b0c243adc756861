"""What a plain YAML scalar means to kubectl: YAML 1.1 as sigs.k8s.io/yaml reads it, and the JSON it makes of it.

PyYAML's own resolver reads `1e-5` as a string, `12:30:00` as 45000 and dates as dates; kubectl does none of that.
"""

from __future__ import annotations

import base64
import binascii
import math
import re

Scalar = str | int | float | bool | None

_TRUE = {"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"}
_FALSE = {"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"}
_NULL = {"", "~", "null", "Null", "NULL"}
_NOT_FINITE = {sign + word for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")} | {".nan", ".NaN", ".NAN"}

_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_DOT_FLOAT = re.compile(r"\.[0-9]+([eE][-+]?[0-9]+)?")
_INT = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")

_TAG = "tag:yaml.org,2002:"
_INT64_MIN, _UINT64_MAX = -(2**63), 2**64 - 1


class ScalarError(ValueError):
    """A scalar that kubectl would refuse too; the message says what to write."""


def _integer(text: str) -> int | None:
    match = _INT.fullmatch(text)
    if match is None:
        return None
    sign, digits = match.groups()
    lower = digits.lower()
    if lower.startswith("0x"):
        value = int(lower[2:], 16)
    elif lower.startswith("0b"):
        value = int(lower[2:], 2)
    elif lower.startswith("0") and len(lower) > 1:
        value = int(lower.removeprefix("0o"), 8)
    else:
        value = int(lower)
    value = -value if sign == "-" else value
    # An unsigned value with a sign is none to Go; beyond 64 bits the text is tried as a float.
    top = _UINT64_MAX if not sign else 2**63 - 1
    return value if _INT64_MIN <= value <= top else None


def _json_number(value: float) -> int | float:
    """The number after Go's JSON encoding: whole ones below 1e21 are written without a fraction."""
    if value.is_integer() and abs(value) < 1e21:
        return int(value)
    return value


def plain(text: str) -> Scalar:
    """The value of a plain (unquoted, untagged) scalar.

    Raises:
        ScalarError: for NaN and the infinities, which JSON cannot say.
    """
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text in _NOT_FINITE:
        raise ScalarError(f"{text} is no finite number: write a number")
    first = text[0]
    if first == "." and _DOT_FLOAT.fullmatch(text):
        return _finite(text)
    if first in "+-0123456789":
        digits = text.replace("_", "")
        whole = _integer(digits)
        if whole is not None:
            return whole
        if _FLOAT.fullmatch(digits):
            return _finite(digits, text)
    return text


def _finite(digits: str, text: str | None = None) -> Scalar:
    value = float(digits)
    # Too large for a double: Go's parser reports it, and the text stays a string.
    if math.isinf(value):
        return digits if text is None else text
    return _json_number(value)


def underflows(text: str) -> bool:
    """Whether a plain scalar is a number that is not zero and yet reads as zero, such as 1e-400."""
    digits = text.replace("_", "")
    if not _FLOAT.fullmatch(digits) or float(digits) != 0.0:
        return False
    return any(c in "123456789" for c in re.split("[eE]", digits)[0])


def tagged(tag: str, text: str) -> Scalar:
    """The value of a scalar with an explicit tag.

    Raises:
        ScalarError: where the text does not fit the tag, or the tag is none of YAML's own.
    """
    short = tag.removeprefix(_TAG)
    if short == "str" or tag == "!":
        return text
    if short == "binary":
        try:
            return base64.b64decode(text, validate=False).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError) as error:
            raise ScalarError(f"!!binary holds no base64 of a text: {error}") from None
    if short == "timestamp":
        return text
    value = plain(text)
    fits = {
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, (int, float)) and not isinstance(value, bool),
        "bool": isinstance(value, bool),
        "null": value is None,
    }
    if short not in fits:
        raise ScalarError(f"the tag {tag} is not known here: remove it")
    if not fits[short]:
        raise ScalarError(f"{text!r} is not of the type !!{short}")
    return value


def key_text(value: Scalar) -> str:
    """A map key as JSON has it: always a string.

    Raises:
        ScalarError: for null, which is no key.
    """
    if value is None:
        raise ScalarError("null is no key: quote it")
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)
