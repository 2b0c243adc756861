"""From the typed models to structural schemas: no `$ref`, no defaults, bounds and CEL rules as the models have them.

The API server takes a dialect of OpenAPI v3; pydantic writes JSON Schema 2020. What differs is turned here only.
"""

from __future__ import annotations

import copy
import functools
from typing import Any

from pydantic import BaseModel

from trainsweep.api.base import ApiModel, Rule
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.sweepclass import TrainSweepClassSpec, TrainSweepHoldSpec
from trainsweep.api.validate import PRESERVE, VALIDATIONS

Schema = dict[str, Any]

NOT_IN_CLASS = ("objective", "search", "trials", "className", "runKey", "suspend")
REPLACED_WHOLE = ("resources", "source")
"""Maps that a sweep's own words replace instead of merging with the class's."""
PARTIAL_SPEC = "x-trainsweep-partial-spec"


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
        if "patternProperties" in node:
            # Keys cannot be bound in a structural schema: a rule or the operator does that.
            (node["additionalProperties"],) = node.pop("patternProperties").values()
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
        # lists and maps are refused unless they are empty, and the empty ones by name. Null passes here, not in
        # `trainsweep.api.validate`.
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
