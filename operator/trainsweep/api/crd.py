"""From the typed models to structural schemas and whole CRDs: no `$ref`, no defaults in spec, bounded, with rules.

The API server takes a dialect of OpenAPI v3; pydantic writes JSON Schema 2020. What differs is turned here only.
"""

from __future__ import annotations

import copy
import functools
from typing import Any

from pydantic import BaseModel

from trainsweep.api import API_VERSION, GROUP, VERSION
from trainsweep.api.base import ApiModel, Rule
from trainsweep.api.resolve import NOT_IN_CLASS, REPLACED_WHOLE
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.status import TrainSweepStatus
from trainsweep.api.sweepclass import TrainSweepClassSpec, TrainSweepHoldSpec

Schema = dict[str, Any]

PARTIAL_SPEC = "x-trainsweep-partial-spec"
PRESERVE = "x-kubernetes-preserve-unknown-fields"
VALIDATIONS = "x-kubernetes-validations"

# The length rule: KubeRay takes RayJob names of 47 characters, ours end in `-<hash5>-a<n>` with n up to 999.
NAME_RULES = (
    Rule(
        "self.metadata.name.size() <= 36",
        "metadata.name may have at most 36 characters: RayJobs are named after it, and KubeRay takes 47 characters",
    ),
    Rule(
        "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "metadata.name must start with a letter and hold only a-z, 0-9 and '-', as KubeRay wants it",
    ),
)


def rule_node(rule: Rule) -> Schema:
    """A rule as the CRD has it."""
    node = {"rule": rule.rule, "message": rule.message, "reason": rule.reason}
    if rule.field_path:
        node["fieldPath"] = rule.field_path
    return node


def _models(model: type[BaseModel]) -> dict[str, type[ApiModel]]:
    """All models that hang below this one, by the name that pydantic gives their definition."""
    found: dict[str, type[ApiModel]] = {}

    def visit(annotation: Any) -> None:
        if isinstance(annotation, type) and issubclass(annotation, ApiModel):
            if annotation.__name__ not in found:
                found[annotation.__name__] = annotation
                for field in annotation.model_fields.values():
                    visit(field.annotation)
            return
        for part in getattr(annotation, "__args__", ()):
            visit(part)

    visit(model)
    return found


def structural(model: type[ApiModel]) -> Schema:
    """The structural schema of a model."""
    raw = model.model_json_schema(by_alias=True, mode="validation")
    definitions: dict[str, Schema] = raw.pop("$defs", {})
    models = _models(model)

    def turn(node: Schema, name: str | None = None) -> Schema:
        node = dict(node)
        if "$ref" in node:
            name = node.pop("$ref").rsplit("/", 1)[1]
            node = {**definitions[name], **node}
            return turn(node, name)
        options = node.pop("anyOf", None)
        if options is not None:
            node = _turn_union(node, [o for o in options if o.get("type") != "null"], turn)
            if node.pop("done", False):
                return _finish(node)
        if "properties" in node:
            node["properties"] = {key: turn(value) for key, value in node["properties"].items()}
        if isinstance(node.get("items"), dict):
            node["items"] = turn(node["items"])
        if isinstance(node.get("additionalProperties"), dict):
            node["additionalProperties"] = turn(node["additionalProperties"])
        rules = [rule_node(r) for r in models[name].rules] if name in models else []
        if rules:
            node[VALIDATIONS] = [*node.get(VALIDATIONS, []), *rules]
        return _finish(node)

    return turn(raw, model.__name__)


def _turn_union(node: Schema, options: list[Schema], turn: Any) -> Schema:
    """`X | None` is X; a quantity is int-or-string; a scalar of any type cannot be typed in a structural schema."""
    if len(options) == 1:
        return {**turn(options[0]), **node, "done": True}
    if node.get("x-kubernetes-int-or-string"):
        return {**node, "anyOf": options, "done": True}
    if {o.get("type") for o in options} == {"boolean", "integer", "number", "string"}:
        longest = max(o.get("maxLength", 0) for o in options)
        # Without `type` these bounds still bind a value of the type that they speak of: strings stay short,
        # lists and maps are refused unless they are empty, and the empty ones and null are refused by name.
        untyped = {PRESERVE: True, "maxLength": longest, "maxItems": 0, "maxProperties": 0}
        return {**node, **untyped, "not": {"enum": [[], {}]}, "done": True}
    raise TypeError(f"a union that a structural schema cannot say: {options}")


def _finish(node: Schema) -> Schema:
    for key in ("title", "default", "propertyNames", "const"):
        node.pop(key, None)
    if isinstance(node.get("additionalProperties"), bool):
        del node["additionalProperties"]
    for word, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if word in node and not isinstance(node[word], bool):
            node[plain], node[word] = node[word], True
    if node.get("type") == "integer":
        node["format"] = "int64"
    for key in ("required", "properties"):
        if not node.get(key, True):
            del node[key]
    order = ["description", "type", "format", "enum", "pattern"]
    tail = ["required", "properties", "items", "additionalProperties", VALIDATIONS]
    keys = [k for k in order if k in node] + [k for k in node if k not in order + tail] + [k for k in tail if k in node]
    return {k: node[k] for k in keys}


def partial(spec: Schema) -> Schema:
    """The spec's schema for a class's defaults: nothing required, no rule over several fields of the root."""
    node: Schema = copy.deepcopy(spec)
    node.pop(VALIDATIONS, None)
    for name in NOT_IN_CLASS:
        node["properties"].pop(name)

    def relax(schema: Schema) -> None:
        # Lists and unions are replaced whole when a sweep names them, so what is inside must be whole already.
        schema.pop("required", None)
        for name, child in schema.get("properties", {}).items():
            if name not in REPLACED_WHOLE:
                relax(child)

    relax(node)
    return node


def _class_schema() -> Schema:
    node = structural(TrainSweepClassSpec)
    for name, child in node["properties"].items():
        if child.pop(PARTIAL_SPEC, False):
            whole = partial(structural(TrainSweepSpec))
            node["properties"][name] = {
                "description": child["description"],
                **{k: v for k, v in whole.items() if k != "description"},
            }
    return node


@functools.cache
def spec_schema(kind: str = "TrainSweep") -> Schema:
    """The schema of `.spec` of a kind of ours; do not change what you get."""
    if kind == "TrainSweep":
        return structural(TrainSweepSpec)
    return _class_schema() if kind == "TrainSweepClass" else structural(TrainSweepHoldSpec)


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
                "categories": ["trainsweep"],
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
            about="Internal: an owner that keeps a RayJob through a foreground delete; the operator makes and deletes it.",
            columns=[],
        ),
    ]
