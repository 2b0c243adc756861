"""Settings of the operator process, from its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


class SettingsError(ValueError):
    """A setting that cannot be used; the message names the variable."""


@dataclass(frozen=True)
class Settings:
    """All that can be set. Times are in seconds."""

    namespaces: tuple[str, ...] = ()
    """Namespaces that are served; empty means all."""
    workers: int = 8
    """Sweeps that are worked on at the same time."""
    resync: float = 600.0
    """Pause between two full comparisons of what is listed with what is held, jittered by a tenth."""
    orphans: float = 3600.0
    """Pause between two searches for holds without a sweep."""
    metrics_port: int = 9090
    """Port of /metrics, /healthz and /readyz; 0 takes a free one."""
    log_level: str = "INFO"
    startup: float = 60.0
    """How long a missing permission or CRD is waited for before the process ends."""
    look: float = 1800.0
    """Longest second look; one that takes longer is made again."""
    writes_per_second: float = 20.0


def from_environment(environment: Mapping[str, str] = os.environ) -> Settings:
    """Reads `TRAINSWEEP_*`; absent or empty ones have their defaults.

    Raises:
        SettingsError: naming the variable that does not fit.
    """

    def number(name: str, default: float, least: float) -> float:
        text = environment.get(name, "").strip()
        if not text:
            return default
        try:
            value = float(text)
        except ValueError:
            raise SettingsError(f"{name} must be a number, got {text!r}") from None
        if not least <= value <= 1e6:
            raise SettingsError(f"{name} must be between {least:g} and 1000000, got {text}")
        return value

    plain = Settings()
    spaces = environment.get("TRAINSWEEP_WATCH_NAMESPACES", "")
    level = environment.get("TRAINSWEEP_LOG_LEVEL", "").strip().upper() or plain.log_level
    if level not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise SettingsError(f"TRAINSWEEP_LOG_LEVEL must be DEBUG, INFO, WARNING or ERROR, got {level!r}")
    return Settings(
        namespaces=tuple(sorted({n.strip() for n in spaces.split(",") if n.strip()})),
        workers=int(number("TRAINSWEEP_WORKERS", plain.workers, 1)),
        resync=number("TRAINSWEEP_RESYNC_SECONDS", plain.resync, 1),
        orphans=number("TRAINSWEEP_ORPHANS_SECONDS", plain.orphans, 1),
        metrics_port=int(number("TRAINSWEEP_METRICS_PORT", plain.metrics_port, 0)),
        log_level=level,
        startup=number("TRAINSWEEP_STARTUP_SECONDS", plain.startup, 0),
        look=number("TRAINSWEEP_LOOK_SECONDS", plain.look, 1),
        writes_per_second=number("TRAINSWEEP_WRITES_PER_SECOND", plain.writes_per_second, 0.1),
    )
