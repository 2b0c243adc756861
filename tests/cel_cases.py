"""One table for every CEL rule: refused cases and their accepted neighbours, offline and on a real API server alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Changes = dict[str, Any]
Key = tuple[str, str]
"""Schema path that the rule points at, and its message."""


@dataclass(frozen=True)
class Case:
    """Changes to the sample spec, by path. `path` is where the refusal points, below `spec`."""

    path: str
    refused: tuple[Changes, ...]
    accepted: tuple[Changes, ...]


def rules_of(schema: dict[str, Any], path: str = "") -> Iterator[tuple[Key, dict[str, Any]]]:
    """All rules of a schema with their keys, the root's first."""
    for rule in schema.get("x-kubernetes-validations", []):
        yield ((path + rule.get("fieldPath", "")).removeprefix("."), rule["message"]), rule
    for name, child in schema.get("properties", {}).items():
        yield from rules_of(child, f"{path}.{name}")
    if isinstance(schema.get("items"), dict):
        yield from rules_of(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from rules_of(schema["additionalProperties"], f"{path}{{}}")


FIRST = "search.parameters[0]"
FLOAT, INT = f"{FIRST}.float", f"{FIRST}.int"
ANY = "search.parameters[]"
GRID: Changes = {"search.algorithm": {"grid": {}}, FIRST: {"name": "k", "int": {"min": 1, "max": 2}}, "trials": {}}
GROUP = "cluster.workerGroups"
TWO_NUMBERS = [{"name": "k", "int": {"min": 1, "max": 2}}, {"name": "x", "float": {"min": 0, "max": 1}}]
WORDS = {"name": "w", "categorical": {"values": ["a", "b"]}}
EARLIER = {"runURI": "s3://bucket/p/ns/name/v1-0123456789abcdef"}


def floats(**values: Any) -> Changes:
    """The first parameter as a float range."""
    return {FLOAT: values}


def ints(**values: Any) -> Changes:
    """The first parameter as an integer range."""
    return {FIRST: {"name": "k", "int": values}}


def group(**values: Any) -> Changes:
    """One worker group."""
    return {GROUP: [{"name": "workers", "resources": {"cpu": 1}, **values}]}


ONE_VALUE = "must be less than max: for one fixed value use training.config"
NO_LOG_STEP = "step does not go with log: remove one of them"
STEP = "must not be greater than max - min"
ONE_KIND = "set exactly one of float, int or categorical"
LOG_INT = "must be at least 1 when log is true"
LOG_FLOAT = "must be above 0 when log is true"
ARCHIVE = {"uri": "s3://bucket/code.zip", "sha256": "0" * 64}
CPU = "cpu must be a whole number: Ray counts whole CPUs"
HOLD = "must be at least checkpoints.verify.timeoutSeconds (600 when absent)"
CMAES_KINDS = "cmaes takes numbers only: choose tpe, gp or qmc, or search the categorical parameters in a sweep before"
CMAES_TWO = "cmaes needs at least two parameters: choose tpe or gp"
STOPPING = (
    "set exactly one of asha, hyperband or median, or remove earlyStopping (pbt is not possible: checkpoints belong to "
    "one trial's own Train run, so that no trial can go on from another's)"
)
GRID_KINDS = "a grid needs categorical parameters, ints without log, or floats with a step"

CASES: dict[Key, Case] = {
    ("trials.count", "is required unless the algorithm is grid"): Case(
        "trials.count", ({"trials": {}}, {"trials": {"maxConcurrent": 2}}), (GRID, {"trials": {"count": 1}})
    ),
    ("cleanup.holdSeconds", HOLD): Case(
        "cleanup.holdSeconds",
        ({"cleanup.holdSeconds": 599}, {"cleanup.holdSeconds": 60, "checkpoints.verify.timeoutSeconds": 61}),
        ({"cleanup.holdSeconds": 600}, {"cleanup.holdSeconds": 60, "checkpoints.verify.timeoutSeconds": 60}),
    ),
    ("search.parameters", GRID_KINDS): Case(
        "search.parameters",
        (
            {"search.algorithm": {"grid": {}}},
            {**GRID, FIRST: {"name": "k", "int": {"min": 1, "max": 2, "log": True}}},
        ),
        (GRID, {**GRID, FIRST: {"name": "k", "float": {"min": 0, "max": 1, "step": 0.5}}}),
    ),
    ("search.algorithm", "set exactly one of random, grid, qmc, tpe, cmaes or gp"): Case(
        "search.algorithm",
        ({"search.algorithm": {}}, {"search.algorithm": {"random": {}, "tpe": {}}}),
        (
            *({"search.algorithm": {name: {}}} for name in ("random", "qmc", "tpe", "gp")),
            {"search.algorithm": {"cmaes": {}}, "search.parameters": TWO_NUMBERS},
            GRID,
        ),
    ),
    ("search.parameters", CMAES_KINDS): Case(
        "search.parameters",
        ({"search.algorithm": {"cmaes": {}}, "search.parameters": [*TWO_NUMBERS, WORDS]},),
        (
            {"search.algorithm": {"cmaes": {}}, "search.parameters": TWO_NUMBERS},
            {"search.algorithm": {"gp": {}}, "search.parameters": [*TWO_NUMBERS, WORDS]},
        ),
    ),
    ("search.parameters", CMAES_TWO): Case(
        "search.parameters",
        ({"search.algorithm": {"cmaes": {}}, "search.parameters": TWO_NUMBERS[:1]},),
        (
            {"search.algorithm": {"cmaes": {}}, "search.parameters": TWO_NUMBERS},
            {"search.algorithm": {"tpe": {}}, "search.parameters": TWO_NUMBERS[:1]},
        ),
    ),
    (
        "search.warmStart",
        "only tpe, cmaes and gp learn from earlier trials: choose one of them, or remove warmStart",
    ): Case(
        "search.warmStart",
        (
            *({"search.algorithm": {name: {}}, "search.warmStart": EARLIER} for name in ("random", "qmc")),
            {**GRID, "search.warmStart": EARLIER},
        ),
        (
            *({"search.algorithm": {name: {}}, "search.warmStart": EARLIER} for name in ("tpe", "gp")),
            {"search.algorithm": {"cmaes": {}}, "search.parameters": TWO_NUMBERS, "search.warmStart": EARLIER},
        ),
    ),
    (ANY, ONE_KIND): Case(
        FIRST,
        ({FIRST: {"name": "k"}}, {FIRST: {"name": "k", "int": {"min": 1, "max": 2}, "float": {"min": 1, "max": 2}}}),
        ({FIRST: {"name": "k", "int": {"min": 1, "max": 2}}}, {FIRST: {"name": "k", "float": {"min": 1, "max": 2}}}),
    ),
    (f"{ANY}.float.min", ONE_VALUE): Case(
        f"{FLOAT}.min", (floats(min=1, max=1), floats(min=2, max=1)), (floats(min=1, max=1.0000000000000002),)
    ),
    (f"{ANY}.float.min", LOG_FLOAT): Case(
        f"{FLOAT}.min",
        (floats(min=0, max=1, log=True), floats(min=-1e-3, max=1, log=True)),
        (floats(min=1e-12, max=1, log=True), floats(min=0, max=1), floats(min=-1, max=1, log=False)),
    ),
    (f"{ANY}.float.step", NO_LOG_STEP): Case(
        f"{FLOAT}.step", (floats(min=1, max=2, log=True, step=0.5),), (floats(min=1, max=2, log=False, step=0.5),)
    ),
    (f"{ANY}.float.step", STEP): Case(
        f"{FLOAT}.step", (floats(min=0, max=1, step=1.5),), (floats(min=0, max=1, step=1),)
    ),
    (f"{ANY}.int.min", ONE_VALUE): Case(f"{INT}.min", (ints(min=4, max=4), ints(min=5, max=4)), (ints(min=3, max=4),)),
    (f"{ANY}.int.min", LOG_INT): Case(
        f"{INT}.min", (ints(min=0, max=4, log=True),), (ints(min=1, max=4, log=True), ints(min=-3, max=4))
    ),
    (f"{ANY}.int.step", NO_LOG_STEP): Case(
        f"{INT}.step",
        (ints(min=1, max=9, log=True, step=2),),
        (ints(min=1, max=9, log=True), ints(min=1, max=9, step=2)),
    ),
    (f"{ANY}.int.step", STEP): Case(f"{INT}.step", (ints(min=1, max=9, step=9),), (ints(min=1, max=9, step=8),)),
    ("trials.maxConcurrent", "must not be greater than count"): Case(
        "trials.maxConcurrent",
        ({"trials": {"count": 4, "maxConcurrent": 5}},),
        ({"trials": {"count": 4, "maxConcurrent": 4}},),
    ),
    ("trials.maxFailed", "must not be greater than count"): Case(
        "trials.maxFailed",
        ({"trials": {"count": 4, "maxFailed": 5}},),
        tuple({"trials": {"count": 4, "maxFailed": limit}} for limit in (4, "100%")),
    ),
    ("tracking", "set mlflow, tensorboard or wandb, or remove tracking"): Case(
        "tracking",
        ({"tracking": {}},),
        (
            {"tracking": {"mlflow": {"uri": "http://mlflow:5000"}}},
            {"tracking": {"tensorboard": {}}},
            {"tracking": {"wandb": {"project": "p"}, "tensorboard": {}}},
        ),
    ),
    ("trials.earlyStopping", STOPPING): Case(
        "trials.earlyStopping",
        (
            {"trials.earlyStopping": {}},
            {"trials.earlyStopping": {"asha": {"maxEpochs": 3}, "median": {}}},
            {"trials.earlyStopping": {"asha": {"maxEpochs": 3}, "hyperband": {"maxEpochs": 3}}},
        ),
        (
            {"trials.earlyStopping": {"asha": {"maxEpochs": 3}}},
            {"trials.earlyStopping": {"hyperband": {"maxEpochs": 3}}},
            {"trials.earlyStopping": {"median": {}}},
        ),
    ),
    **{
        (f"trials.earlyStopping.{rule}.graceEpochs", "must not be greater than maxEpochs"): Case(
            f"trials.earlyStopping.{rule}.graceEpochs",
            ({f"trials.earlyStopping.{rule}": {"maxEpochs": 3, "graceEpochs": 4}},),
            ({f"trials.earlyStopping.{rule}": {"maxEpochs": 3, "graceEpochs": 3}},),
        )
        for rule in ("asha", "hyperband")
    },
    ("trials.stop", "set maxEpochs, metricThreshold or plateau, or remove stop"): Case(
        "trials.stop",
        ({"trials.stop": {}},),
        ({"trials.stop.maxEpochs": 3}, {"trials.stop.metricThreshold": 0.5}, {"trials.stop.plateau": {"epochs": 3}}),
    ),
    ("training.source", "set exactly one of configMap or s3, or remove source when the code is in the image"): Case(
        "training.source",
        ({"training.source": {}}, {"training.source": {"configMap": {"name": "code"}, "s3": ARCHIVE}}),
        ({"training.source.configMap": {"name": "code"}}, {"training.source.s3": ARCHIVE}),
    ),
    ("training.workers", "set min and max together, or count alone"): Case(
        "training.workers",
        ({"training.workers": {"min": 1}}, {"training.workers": {"max": 2}}),
        ({"training.workers": {"min": 1, "max": 2}}, {"training.workers": {"count": 2}}),
    ),
    ("training.workers", "set count, or min and max, not both"): Case(
        "training.workers",
        ({"training.workers": {"count": 2, "min": 1, "max": 2}},),
        ({"training.workers": {"min": 2, "max": 2}},),
    ),
    ("training.workers.min", "must not be greater than max"): Case(
        "training.workers.min",
        ({"training.workers": {"min": 3, "max": 2}},),
        ({"training.workers": {"min": 2, "max": 2}},),
    ),
    ("training.workers.resources", CPU): Case(
        "training.workers.resources",
        tuple({"training.workers.resources": {"cpu": cpu}} for cpu in ("500m", "8000m", "0.5", "1.0")),
        tuple({"training.workers.resources": {"cpu": cpu, "memory": "0.5Gi"}} for cpu in (1, "8")),
    ),
    ("training.envFrom[]", "set exactly one of secretRef or configMapRef"): Case(
        "training.envFrom[0]",
        (
            {"training.envFrom": [{"prefix": "A_"}]},
            {"training.envFrom": [{"secretRef": {"name": "a"}, "configMapRef": {"name": "b"}}]},
        ),
        ({"training.envFrom": [{"secretRef": {"name": "a"}}, {"configMapRef": {"name": "b"}}]},),
    ),
    ("cluster.workerGroups[].name", "must not be 'head': Kueue keeps that name for the head"): Case(
        f"{GROUP}[0].name", (group(name="head"),), (group(name="heads"),)
    ),
    ("cluster.workerGroups[].minReplicas", "must not be greater than maxReplicas"): Case(
        f"{GROUP}[0].minReplicas",
        (group(minReplicas=3, maxReplicas=2),),
        (group(minReplicas=2, maxReplicas=2), group(minReplicas=3)),
    ),
    (
        "checkpoints.retention.keepTrials",
        "goes only with require BestTrial: the other policies owe more than it keeps",
    ): Case(
        "checkpoints.retention.keepTrials",
        tuple(
            {"checkpoints": {"require": word, "retention": {"keepTrials": 1}}}
            for word in ("AllSucceeded", "AllReported", "None")
        ),
        (
            {"checkpoints": {"require": "BestTrial", "retention": {"keepTrials": 1}}},
            {"checkpoints": {"retention": {"keepTrials": 1}}},
            {"checkpoints": {"require": "AllReported", "retention": {"perTrial": 1}}},
        ),
    ),
    (
        "checkpoints.export",
        "goes only with checkpoints that are proven: set require to BestTrial, AllSucceeded or AllReported",
    ): Case(
        "checkpoints.export",
        ({"checkpoints": {"require": "None", "export": {"uri": "s3://models/digits"}}},),
        (
            {"checkpoints": {"require": "BestTrial", "export": {"uri": "s3://models/digits"}}},
            {"checkpoints": {"export": {"uri": "s3://models"}}},
            {"checkpoints": {"require": "None"}},
        ),
    ),
    ("failurePolicy.backoff.initialSeconds", "must not be greater than maxSeconds"): Case(
        "failurePolicy.backoff.initialSeconds",
        ({"failurePolicy.backoff": {"initialSeconds": 11, "maxSeconds": 10}},),
        ({"failurePolicy.backoff": {"initialSeconds": 10, "maxSeconds": 10}},),
    ),
    ("deadlines.startupSeconds", "must not be greater than runSeconds"): Case(
        "deadlines.startupSeconds",
        ({"deadlines": {"startupSeconds": 61, "runSeconds": 60}},),
        ({"deadlines": {"startupSeconds": 60, "runSeconds": 60}},),
    ),
    ("deadlines.queuedSeconds", "must not be greater than runSeconds"): Case(
        "deadlines.queuedSeconds",
        ({"deadlines": {"queuedSeconds": 61, "startupSeconds": 60, "runSeconds": 60}},),
        (
            {"deadlines": {"queuedSeconds": 60, "startupSeconds": 60, "runSeconds": 60}},
            {"deadlines": {"queuedSeconds": 61}},
        ),
    ),
    ("deadlines.stallSeconds", "must not be greater than runSeconds"): Case(
        "deadlines.stallSeconds",
        ({"deadlines": {"stallSeconds": 61, "startupSeconds": 60, "runSeconds": 60}},),
        (
            {"deadlines": {"stallSeconds": 60, "startupSeconds": 60, "runSeconds": 60}},
            {"deadlines": {"stallSeconds": 61}},
        ),
    ),
    ("deadlines.trialSeconds", "must not be greater than totalSeconds"): Case(
        "deadlines.trialSeconds",
        ({"deadlines": {"trialSeconds": 61, "totalSeconds": 60}},),
        ({"deadlines": {"trialSeconds": 60, "totalSeconds": 60}}, {"deadlines": {"trialSeconds": 61}}),
    ),
    ("deadlines.runSeconds", "must not be greater than totalSeconds"): Case(
        "deadlines.runSeconds",
        ({"deadlines": {"runSeconds": 61, "totalSeconds": 60}},),
        ({"deadlines": {"runSeconds": 60, "totalSeconds": 60}},),
    ),
    ("cleanup.holdSeconds", "must not be greater than maxHoldSeconds"): Case(
        "cleanup.holdSeconds",
        ({"cleanup": {"holdSeconds": 901, "maxHoldSeconds": 900}},),
        ({"cleanup": {"holdSeconds": 900, "maxHoldSeconds": 900}},),
    ),
}

OLD_SELF: dict[str, tuple[Changes, ...]] = {
    "objective": ({"objective.mode": "Maximize"}, {"objective.goal": 0.5}, {"objective.goal": None}),
    "search": (
        {f"{FLOAT}.max": 0.2},
        {"search.parameters[1].categorical.values": [64, 129]},
        {"search.parameters[1].categorical.values": [64]},
        {"search.parameters[1].categorical.values": [128, 64]},
        {"search.initialPoints": [{"lr": 0.01, "width": 64}]},
        {"search.initialPoints": None},
        {"search.algorithm": {"tpe": {}}},
    ),
    "search.parameters": (
        {
            "search.parameters": [
                {"name": "width", "categorical": {"values": [64, 128]}},
                {"name": "lr", "float": {"min": 1e-5, "max": 0.1, "log": True}},
            ]
        },
    ),
    "trials": ({"trials.count": 5}, {"trials.maxConcurrent": 3}, {"trials.maxConcurrent": None}),
    "failurePolicy.attempts.application": (
        {"failurePolicy.attempts.application": 4},
        {"failurePolicy.attempts.application": None},
        {"failurePolicy": None},
    ),
    "failurePolicy.attempts.infrastructure": ({"failurePolicy.attempts.infrastructure": 2},),
    "failurePolicy.attempts.eviction": ({"failurePolicy.attempts": {"application": 5, "eviction": 9}},),
    "failurePolicy.attempts.startup": ({"failurePolicy.attempts.startup": 0},),
    "runKey": ({"runKey": "b"}, {"runKey": None}),
    "className": ({"className": "b"}, {"className": None}),
    "storage": ({"storage.uri": "s3://other/p"}, {"storage": None}, {"storage.region": "eu-west-1"}),
    "checkpoints": ({"checkpoints.require": "AllReported"}, {"checkpoints": None}),
    "training.entrypoint": ({"training.entrypoint": "my_pkg.train:other"},),
    "training.config": (
        {"training.config.a": 2},
        {"training.config.deep": {"list": [1, 3]}},
        {"training.config.new": 1},
        {"training.config": None},
    ),
}
"""Fixed fields: changes that a stored sweep must refuse, removal and late addition among them."""

STORED: Changes = {
    "objective.goal": 0.05,
    "search.initialPoints": [{"lr": 0.02, "width": 64}],
    "trials.maxConcurrent": 2,
    "runKey": "a",
    "className": "a",
    "storage.uri": "s3://bucket/p",
    "checkpoints.require": "BestTrial",
    "training.config": {"a": 1, "deep": {"list": [1, 2]}},
    "failurePolicy": {"attempts": {"application": 5}},
}
"""What a sweep has on top of the sample where `OLD_SELF` is tried."""

MUTABLE: tuple[Changes, ...] = (
    {"suspend": True},
    {"suspend": False},
    {"deadlines": {"totalSeconds": 100}},
    {"cleanup": {"rayJobTTLSeconds": 5}},
    {"failurePolicy.attempts.application": 7},
    {"failurePolicy.attempts.startup": 2},
    {"failurePolicy.trialRetries": 0},
    {"deadlines": {"notAfter": "2027-01-31T18:00:00Z", "stallSeconds": 60}},
    {"budget": {"gpuHours": 1.5}},
    {"training.image": "registry/fixed"},
    {"training.env": [{"name": "A", "value": "b"}]},
    {"tracking": {"tensorboard": {}}},
    {"cluster.head.resources": {"cpu": 4}},
    {"scheduling.priorityClassName": "high"},
)
"""What may change while a sweep runs."""
