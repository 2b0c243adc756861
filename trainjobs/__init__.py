"""What runs inside the Ray cluster (and on a laptop): the driver of a sweep, its trials, helpers for training loops.

Nothing here knows Kubernetes or the operator: both sides meet in `trainsweep.contract`.

A loop imports `report`, `epochs`, `safe_point`, `stop_requested`, `ResumableSampler` and `device` from here and
`checkpoint` for loading; importing the package itself loads neither Ray nor torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainjobs.device import device as device
    from trainjobs.reporting import epochs as epochs
    from trainjobs.reporting import report as report
    from trainjobs.reporting import safe_point as safe_point
    from trainjobs.sampling import ResumableSampler as ResumableSampler
    from trainjobs.session import stop_requested as stop_requested

__version__ = "0.1.0"

_PUBLIC = {
    "ResumableSampler": "trainjobs.sampling",
    "device": "trainjobs.device",
    "epochs": "trainjobs.reporting",
    "report": "trainjobs.reporting",
    "safe_point": "trainjobs.reporting",
    "stop_requested": "trainjobs.session",
}


def __getattr__(name: str) -> Any:
    """Loads the public helpers on first use."""
    if name in _PUBLIC:
        import importlib

        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'trainjobs' has no attribute {name!r}")
