"""What every worker of a trial runs: it finds the user's loop by name and calls it with the trial's configuration."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from trainjobs import session, source
from trainjobs.outcome import DriverError
from trainsweep.contract.documents import FailureReason

BACKEND_ATTRIBUTE = "TRAINSWEEP_BACKEND"
"""A module may say `TRAINSWEEP_BACKEND = "none"`: its loop needs no torch, and no process group is set up."""

DATASETS_ATTRIBUTE = "TRAINSWEEP_DATASETS"
"""A module may say `TRAINSWEEP_DATASETS = make`: `make(config)` returns Ray Data sets by name, sharded over the workers."""


def find_datasets(entrypoint: str) -> Callable[[dict[str, Any]], dict[str, Any]] | None:
    """The function that makes a trial's Ray Data sets, None where the module has none."""
    found = getattr(importlib.import_module(entrypoint.partition(":")[0]), DATASETS_ATTRIBUTE, None)
    if found is not None and not callable(found):
        raise DriverError(
            FailureReason.BAD_ENTRYPOINT,
            f"training.entrypoint {entrypoint}: {DATASETS_ATTRIBUTE} must be a function of the configuration",
        )
    return found


def find_loop(entrypoint: str) -> tuple[Callable[[dict[str, Any]], Any], str]:
    """The loop and its backend, `torch` or `none`.

    Raises:
        DriverError: BadEntrypoint, with the text of the import's own error.
    """
    module_name, _, name = entrypoint.partition(":")
    where = f"training.entrypoint {entrypoint}"
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever the user's module raises at import
        raise DriverError(
            FailureReason.BAD_ENTRYPOINT, f"{where}: importing {module_name} failed: {type(error).__name__}: {error}"
        ) from error
    found = getattr(module, name, None)
    if not callable(found):
        raise DriverError(FailureReason.BAD_ENTRYPOINT, f"{where}: {module_name} has no function {name}")
    backend = getattr(module, BACKEND_ATTRIBUTE, None)
    if backend is None:
        backend = "torch" if importlib.util.find_spec("torch") else "none"
    if backend not in ("torch", "none"):
        raise DriverError(FailureReason.BAD_ENTRYPOINT, f"{where}: {BACKEND_ATTRIBUTE} must be 'torch' or 'none'")
    find_datasets(entrypoint)
    return found, backend


def run_worker(config: dict[str, Any]) -> str:
    """The `train_loop_per_worker` of every trial; returns how the loop ended, for the trial driver."""
    from trainjobs import board

    here = session.Session(
        trial=config["trial"], config_hash=config["configHash"], metric=config["metric"], worst=config["worst"]
    )
    with contextlib.suppress(ValueError):
        here.board = board.find()
    session.begin(here)
    _try_store(config, here)
    source.ensure(config.get("archive"))
    loop, _ = find_loop(config["entrypoint"])
    loop(dict(config["loop"]))
    return board.STOPPED if here.stopped else ""


def _try_store(config: dict[str, Any], here: session.Session) -> None:
    """See `firstuse`; a refusal fails the trial for good, as another try on this node would meet the same."""
    import ray.train

    from trainjobs import board, firstuse

    if "filesystem" not in config or ray.train.get_context().get_local_rank() != 0:
        return
    try:
        firstuse.try_store(config["attempt"], config["filesystem"], config["root"])
    except DriverError as error:
        if error.reason is FailureReason.STORAGE_DENIED and here.board is not None:
            import ray

            ray.get(here.board.note.remote(config["index"], board.FAILED, error.message))
        raise
