"""A small evaluator of IAM policies: the operators that ours use, deny before allow, nothing unless allowed."""

from __future__ import annotations

import re
from typing import Any

Request = dict[str, str]
"""Context keys of a request; a key that is absent is absent."""


def listed(value: Any) -> list[Any]:
    """One or many, as a list."""
    return value if isinstance(value, list) else [value]


def _filled(pattern: str, context: Request) -> str | None:
    """A pattern with its policy variables filled in; None where one is not in the request."""
    missing = False

    def fill(found: re.Match[str]) -> str:
        nonlocal missing
        missing = missing or found[1] not in context
        return context.get(found[1], "")

    text = re.sub(r"\$\{([^}]+)\}", fill, pattern)
    return None if missing else text


def like(pattern: str, value: str, context: Request) -> bool:
    """`*` and `?`, after policy variables."""
    filled = _filled(pattern, context)
    if filled is None:
        return False
    regex = "".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in filled)
    return re.fullmatch(regex, value, re.DOTALL) is not None


def _holds(operator: str, key: str, wanted: Any, context: Request) -> bool:
    if operator == "Null":
        return (key not in context) == (str(wanted).lower() == "true")
    if key not in context:
        return False
    match operator:
        case "StringEquals" | "Bool":
            return context[key] in [str(one) for one in listed(wanted)]
        case "StringLike" | "ArnEquals" | "ArnLike":
            return any(like(one, context[key], context) for one in listed(wanted))
    raise AssertionError(f"the evaluator does not know {operator}")


def allows(policies: list[dict[str, Any]], action: str, resource: str, context: Request | None = None) -> bool:
    """Whether these policies together allow a request."""
    context = context or {}
    allowed = False
    for statement in [one for policy in policies for one in policy["Statement"]]:
        if not any(like(one, action, context) for one in listed(statement["Action"])):
            continue
        if "Resource" in statement and not any(like(one, resource, context) for one in listed(statement["Resource"])):
            continue
        conditions = statement.get("Condition", {})
        if not all(_holds(o, k, v, context) for o, pairs in conditions.items() for k, v in pairs.items()):
            continue
        if statement["Effect"] == "Deny":
            return False
        allowed = True
    return allowed
