"""The CustomResourceDefinitions as whole objects: names, printer columns, schemas from `trainsweep.api.schema`."""

from __future__ import annotations

from trainsweep.api import API_VERSION, GROUP, VERSION
from trainsweep.api.base import Rule
from trainsweep.api.schema import Schema, rule_node, spec_schema, structural
from trainsweep.api.status import TrainSweepStatus
from trainsweep.api.validate import VALIDATIONS

# The length rule: KubeRay takes RayJob names of 47 characters, ours end in `-<hash5>-a<n>` with n up to 999.
NAME_RULES = (
    Rule(
        "self.metadata.name.size() <= 36",
        "may have at most 36 characters: RayJobs are named after it, and KubeRay takes 47 characters",
        ".metadata.name",
    ),
    Rule(
        "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "must start with a letter and hold only a-z, 0-9 and '-', as KubeRay wants it",
        ".metadata.name",
    ),
)


def _condition(kind: str, part: str) -> str:
    return f'.status.conditions[?(@.type=="{kind}")].{part}'


SWEEP_COLUMNS: list[Schema] = [
    {
        "name": "State",
        "type": "string",
        "jsonPath": _condition("Succeeded", "reason"),
        "description": "What it does or how it ended.",
    },
    {
        "name": "Trials",
        "type": "string",
        "jsonPath": ".status.trials.summary",
        "description": "Finished and expected trials.",
    },
    {"name": "Best", "type": "string", "jsonPath": ".status.best.value", "description": "Best value of the objective."},
    {
        "name": "Verified",
        "type": "string",
        "jsonPath": _condition("CheckpointsVerified", "status"),
        "description": "Whether the owed checkpoints are proven to be in the store.",
    },
    {
        "name": "Attempt",
        "type": "integer",
        "jsonPath": ".status.attempt",
        "description": "Number of the newest RayJob.",
    },
    {
        "name": "Pending",
        "type": "string",
        "jsonPath": ".status.pending.reason",
        "priority": 1,
        "description": "Why it waits.",
    },
]
CLASS_COLUMNS: list[Schema] = [
    {
        "name": "Default",
        "type": "string",
        "jsonPath": r".metadata.annotations.trainsweep\.io/is-default-class",
        "description": "Whether sweeps without className get this class.",
    },
]
AGE = {
    "name": "Age",
    "type": "date",
    "jsonPath": ".metadata.creationTimestamp",
    "description": "Time since it was created.",
}

API_VERSION_TEXT = f"Version of the API: {API_VERSION}."
KIND_TEXT = "Kind of the object: {kind}."


def crd(kind: str, plural: str, *, scope: str, short: str, about: str, columns: list[Schema]) -> Schema:
    """A whole CustomResourceDefinition."""
    root: Schema = {
        "description": about,
        "type": "object",
        "properties": {
            "apiVersion": {"description": API_VERSION_TEXT, "type": "string", "maxLength": 64},
            "kind": {"description": KIND_TEXT.format(kind=kind), "type": "string", "maxLength": 64},
            "metadata": {"type": "object"},
            "spec": spec_schema(kind),
        },
    }
    version: Schema = {"name": VERSION, "served": True, "storage": True, "additionalPrinterColumns": [*columns, AGE]}
    if kind != "TrainSweepHold":
        root["required"] = ["spec"]
    if kind == "TrainSweep":
        # -1 until the operator has looked: without it a fresh object reads as done to every kstatus reader.
        root["properties"]["status"] = {**structural(TrainSweepStatus), "default": {"observedGeneration": -1}}
        # Named here only so that the rules can point at it.
        root["properties"]["metadata"]["properties"] = {"name": {"type": "string", "maxLength": 253}}
        root[VALIDATIONS] = [rule_node(rule) for rule in NAME_RULES]
        version["subresources"] = {"status": {}}
    version["schema"] = {"openAPIV3Schema": root}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short],
                # Not "trainsweep": kubectl would expand `get trainsweep NAME` to every kind of the category.
                "categories": ["sweeps"],
            },
            "scope": scope,
            "versions": [version],
        },
    }


def all_crds() -> list[Schema]:
    """The CRDs of the project."""
    return [
        crd(
            "TrainSweep",
            "trainsweeps",
            scope="Namespaced",
            short="tsw",
            about="A sweep of distributed training, whose cluster goes only once the owed checkpoints are proven.",
            columns=SWEEP_COLUMNS,
        ),
        crd(
            "TrainSweepClass",
            "trainsweepclasses",
            scope="Cluster",
            short="tswc",
            about="Defaults, ceilings and permissions that a platform team sets for sweeps.",
            columns=CLASS_COLUMNS,
        ),
        crd(
            "TrainSweepHold",
            "trainsweepholds",
            scope="Namespaced",
            short="tswh",
            about="Internal: it keeps a RayJob through a foreground delete; the operator makes and deletes it.",
            columns=[],
        ),
    ]
