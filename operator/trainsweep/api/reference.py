"""The reference page of the API, written from the same schemas as the CRDs."""

from __future__ import annotations

from typing import Any

from trainsweep.api import API_VERSION
from trainsweep.api.crd import all_crds
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.sweepclass import TrainSweepClassSpec
from trainsweep.api.validate import VALIDATIONS

INTRO = f"""<!-- Generated from operator/trainsweep/api by `make generate`; change the models, not this file. -->
# API reference: `{API_VERSION}`

Defaults are filled in when a sweep is launched and never written to `spec`. Numbers are plain numbers: a quoted number
is refused. What the API server refuses, `trainsweep lint` refuses too, with the line of the file.
"""


def _type(node: dict[str, Any]) -> str:
    if "enum" in node:
        return " \\| ".join(f"`{word}`" if word else '`""`' for word in node["enum"])
    if node.get("x-kubernetes-int-or-string"):
        return "quantity"
    kind = node.get("type", "scalar")
    if kind == "array":
        return f"list of {_type(node['items'])}"
    if kind == "object" and "additionalProperties" in node:
        return f"map of {_type(node['additionalProperties'])}"
    return "free-form object" if node.get("x-kubernetes-preserve-unknown-fields") and kind == "object" else str(kind)


def _bounds(node: dict[str, Any]) -> str:
    parts = []
    low, high = node.get("minimum"), node.get("maximum")
    if low is not None:
        parts.append(f"{'>' if node.get('exclusiveMinimum') else '>='} {low}")
    if high is not None:
        parts.append(f"<= {high}")
    for word, text in (
        ("minLength", "at least {} characters"),
        ("maxLength", "at most {} characters"),
        ("minItems", "at least {} entries"),
        ("maxItems", "at most {} entries"),
        ("maxProperties", "at most {} keys"),
    ):
        if node.get(word):
            parts.append(text.format(node[word]))
    if "pattern" in node:
        parts.append("`" + node["pattern"].replace("|", "\\|") + "`")
    return ", ".join(parts)


def _default(defaults: Any, path: list[str]) -> str:
    node = defaults
    for part in path:
        if not isinstance(node, dict) or part not in node:
            return ""
        node = node[part]
    if node is None or isinstance(node, (dict, list)) or node == "":
        return ""
    return f"`{str(node).lower() if isinstance(node, bool) else node}`"


def _defaults(model: Any) -> Any:
    """The Python defaults of all fields that are not required, as the API spells them."""
    out: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        alias = field.alias or name
        nested = _model_of(field.annotation)
        if nested is not None:
            out[alias] = _defaults(nested)
        elif not field.is_required() and field.default_factory is None:
            out[alias] = field.default
    return out


def _model_of(annotation: Any) -> Any:
    if hasattr(annotation, "model_fields"):
        return annotation
    for part in getattr(annotation, "__args__", ()):
        found = _model_of(part)
        if found is not None:
            return found
    return None


def _walk(node: dict[str, Any], path: str, defaults: Any, plain: list[str], rows: list[str], rules: list[str]) -> None:
    for rule in node.get(VALIDATIONS, []):
        rules.append(f"- `{path}{rule.get('fieldPath', '')}`: {rule['message']}")
    required = node.get("required", [])
    for name, child in node.get("properties", {}).items():
        here, words = f"{path}.{name}", [*plain, name]
        about = child.get("description", "").replace("|", "\\|").replace("\n", " ")
        must = "yes" if name in required else ""
        rows.append(
            f"| `{here}` | {_type(child)} | {must} | {_default(defaults, words)} | {about} | {_bounds(child)} |"
        )
        _walk(child, here, defaults, words, rows, rules)
    if isinstance(node.get("items"), dict):
        _walk(node["items"], f"{path}[]", defaults, plain, rows, rules)


def reference() -> str:
    """The page as Markdown."""
    parts = [INTRO]
    models: dict[str, Any] = {"TrainSweep": TrainSweepSpec, "TrainSweepClass": TrainSweepClassSpec}
    for crd in all_crds():
        kind = crd["spec"]["names"]["kind"]
        root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        names = crd["spec"]["names"]
        parts.append(
            f"\n## {kind}\n\n{root['description']}\n"
            f"Short name `{names['shortNames'][0]}`, {crd['spec']['scope'].lower()}.\n"
        )
        for part in ("spec", "status"):
            node = root["properties"].get(part)
            if node is None or not node.get("properties"):
                continue
            rows: list[str] = []
            rules: list[str] = []
            defaults = _defaults(models[kind]) if part == "spec" else {}
            _walk(node, part, defaults, [], rows, rules)
            parts.append(
                f"\n### {kind} {part}\n\n"
                "| field | type | required | default | what | bounds |\n|---|---|---|---|---|---|"
            )
            parts.append("\n".join(rows))
            rules = [f"- `metadata.name`: {r['message']}" for r in root.get(VALIDATIONS, []) if part == "spec"] + rules
            if rules:
                parts.append(f"\nRules of {kind} {part}:\n\n" + "\n".join(rules))
    return "\n".join(parts) + "\n"
