"""The resolved spec, made once for each text: resolving is most of a pass, and of the same words always the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from trainsweep.api.resolve import resolve
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.sweepclass import TrainSweepClassSpec

KEPT = 1024


def resolved(spec: Mapping[str, Any], sweep_class: TrainSweepClassSpec | None) -> TrainSweepSpec:
    """`api.resolve.resolve`, remembered by the texts of spec and class.

    Raises:
        SpecError: as `resolve` does; a refusal is not remembered.
    """
    of_class = sweep_class.model_dump_json(by_alias=True, exclude_defaults=True) if sweep_class is not None else ""
    try:
        text = json.dumps(spec, sort_keys=True)
    except (TypeError, ValueError):
        return resolve(spec, sweep_class)
    return _made(text, of_class)


@lru_cache(maxsize=KEPT)
def _made(spec: str, of_class: str) -> TrainSweepSpec:
    return resolve(json.loads(spec), TrainSweepClassSpec.model_validate_json(of_class) if of_class else None)
