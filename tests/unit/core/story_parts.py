"""What the stories are made of: the list, sweeps that are applied, stopped, completed, or in their second attempt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.unit.core.core_builders import control_of, head, only, spec
from tests.unit.core.told import Told
from trainsweep.contract.documents import Outcome
from trainsweep.core import model

STORIES: dict[str, Callable[[], Told]] = {}
GPU = {"cpu": 1, "memory": "1Gi", "nvidia.com/gpu": 1}


def story(tell: Callable[[], Told]) -> Callable[[], Told]:
    """Puts it into the list."""
    STORIES[tell.__name__] = tell
    return tell


def told(**changes: Any) -> Told:
    """A sweep that is applied."""
    return Told(spec=spec(**changes))


def obey(stage: Told) -> None:
    """The control document arrives on the head pod."""
    plan = stage.decide(5)
    if only(plan, model.PatchControl):
        stage.pods = (head(control=control_of(plan)),)


def second(stage: Told | None = None) -> Told:
    """A second attempt that runs: the first one lost its head."""
    stage = stage or told()
    stage.without_its_first()
    if not stage.whole:
        stage.lines.clear()
    stage.title("the second attempt").running().reporting().decide(5)
    return stage


def completed(stage: Told) -> Told:
    """The receipt is proven, the driver told, and the job succeeds."""
    stage.title("the driver waits with its receipt").waiting().decide(5)
    stage.settling = True
    stage.decide(5)
    stage.settling = False
    stage.looked()
    obey(stage)
    stage.title("the job succeeds").job_is("Complete", "SUCCEEDED").ended(
        "Complete", "SUCCEEDED", outcome=Outcome.COMPLETED
    )
    stage.decide(5)
    return stage


def limited(**deadlines: Any) -> Told:
    return told(deadlines={"startupSeconds": 50, **deadlines})
