"""Kubernetes resource quantities as exact decimals, and the few questions that are asked of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal, InvalidOperation

_SUFFIX = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
_QUANTITY = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,2})|([numkKMGTPE]i?))?$")
# As KubeRay and Ray's autoscaler recognise a GPU (kuberay utils.IsGPUResourceKey); MIG only KubeRay sees.
_MIG = re.compile(r"nvidia\.com/mig-\d+g\.\d+gb$")


class QuantityError(ValueError):
    """Text that is no quantity."""


def parse(value: int | str) -> Decimal:
    """The amount in base units (cores, bytes, pieces).

    Raises:
        QuantityError: for text that Kubernetes would refuse too.
    """
    text = str(value)
    found = _QUANTITY.match(text)
    suffix = (found[3] or "") if found else ""
    if found is None or suffix not in _SUFFIX:
        raise QuantityError(
            f"{text[:40]!r} is no quantity: write a number with an optional suffix such as m, k, M, G, Ki, Mi, Gi"
        )
    try:
        return Decimal(found[1] + (found[2] or "")) * _SUFFIX[suffix]
    except InvalidOperation:
        raise QuantityError(f"{text[:40]!r} is no quantity") from None


def is_gpu(name: str) -> bool:
    """Whether a resource name counts as a GPU for KubeRay."""
    return name.endswith("gpu") or _MIG.search(name) is not None


def gpus(resources: Mapping[str, int | str]) -> int:
    """GPUs in a resource list, as KubeRay counts them: names sorted, the first that is not zero."""
    for name in sorted(resources):
        if is_gpu(name) and (amount := parse(resources[name])) > 0:
            return int(amount)
    return 0


def cpus(resources: Mapping[str, int | str]) -> int:
    """CPUs in a resource list as Ray counts them: rounded up."""
    return int(parse(resources.get("cpu", 0)).to_integral_value(ROUND_CEILING))


def text(amount: Decimal | int) -> str:
    """A byte count as a plain quantity, in Mi where that is exact."""
    whole = int(amount)
    return f"{whole // 2**20}Mi" if whole % 2**20 == 0 else str(whole)
