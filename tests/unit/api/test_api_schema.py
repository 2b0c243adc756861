"""The generated CRDs: structural, bounded, described, small, without defaults in spec."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from trainsweep.api import generate
from trainsweep.api.crd import all_crds

CRDS = {crd["spec"]["names"]["kind"]: crd for crd in all_crds()}
FORBIDDEN = ("$ref", "definitions", "patternProperties", "uniqueItems", "oneOf", "allOf", "nullable", "title")


def root(kind: str) -> dict[str, Any]:
    return CRDS[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}" if path else name)
    if "items" in node:
        yield from nodes(node["items"], f"{path}[]")
    if isinstance(node.get("additionalProperties"), dict):
        yield from nodes(node["additionalProperties"], f"{path}{{}}")


ALL = [(kind, path, node) for kind in CRDS for path, node in nodes(root(kind)) if path]


def test_generated_files_are_up_to_date() -> None:
    stale = [str(p) for p, text in generate.files().items() if (generate.ROOT / p).read_text("utf-8") != text]
    assert stale == [], "run `make generate`"


def test_check_tells_drift_by_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert generate.main(["--check"]) == 0
    real = generate.files()
    first = next(iter(real))
    monkeypatch.setattr(generate, "files", lambda: {**real, first: real[first] + "x"})
    assert generate.main(["--check"]) == 1
    assert f"{first} is out of date" in capsys.readouterr().err


@pytest.mark.parametrize("kind", sorted(CRDS))
def test_a_crd_is_under_100_kb_as_yaml_and_as_json(kind: str) -> None:
    path = generate.ROOT / "manifests/crd" / f"trainsweep.io_{CRDS[kind]['spec']['names']['plural']}.yaml"
    assert path.stat().st_size < 100_000
    assert len(yaml.safe_load(path.read_text())["spec"]["versions"]) == 1


def test_every_string_list_and_map_is_bounded() -> None:
    loose = []
    for kind, path, node in ALL:
        what, free = node.get("type"), node.get("x-kubernetes-preserve-unknown-fields")
        if (what == "string" or node.get("x-kubernetes-int-or-string")) and not {"maxLength", "enum"} & set(node):
            loose.append(f"{kind} {path} maxLength")
        if what == "array" and "maxItems" not in node:
            loose.append(f"{kind} {path} maxItems")
        if what == "object" and (free or "additionalProperties" in node) and "maxProperties" not in node:
            loose.append(f"{kind} {path} maxProperties")
        if what is None and not node.get("x-kubernetes-int-or-string"):
            assert {"maxLength", "maxItems", "maxProperties"} <= set(node), f"{kind} {path}"
    assert loose == []


def test_every_integer_of_a_spec_has_both_ends() -> None:
    open_ended = [
        f"{kind} {path}"
        for kind, path, node in ALL
        if path.startswith("spec") and node.get("type") == "integer" and not {"minimum", "maximum"} <= set(node)
    ]
    assert open_ended == []


def test_every_field_is_described() -> None:
    bare = [
        f"{kind} {path}"
        for kind, path, node in ALL
        if not path.endswith(("]", "}")) and not path.startswith("metadata") and not node.get("description")
    ]
    assert bare == []


def test_nothing_in_spec_has_a_schema_default() -> None:
    # A default in the schema would change a run's name, and show as a difference in every GitOps tool.
    assert [f"{kind} {path}" for kind, path, node in ALL if "default" in node] == ["TrainSweep status"]
    assert root("TrainSweep")["properties"]["status"]["default"] == {"observedGeneration": -1}


def test_the_schema_is_structural() -> None:
    for kind, path, node in ALL:
        assert not [word for word in FORBIDDEN if word in node], f"{kind} {path}"
        assert node.get("exclusiveMinimum", True) is True, f"{kind} {path}"
        untyped = node.get("x-kubernetes-preserve-unknown-fields") or node.get("x-kubernetes-int-or-string")
        assert "type" in node or untyped, f"{kind} {path}"


def test_lists_say_how_they_merge() -> None:
    silent = [
        f"{kind} {path}"
        for kind, path, node in ALL
        if node.get("type") == "array"
        and node["items"].get("type") == "object"
        and "x-kubernetes-list-type" not in node
    ]
    assert silent == []
    for kind, path, node in ALL:
        for key in node.get("x-kubernetes-list-map-keys", []):
            assert key in node["items"]["required"], f"{kind} {path}"


def test_a_class_has_the_defaults_of_a_spec_but_what_makes_a_sweep() -> None:
    defaults = root("TrainSweepClass")["properties"]["spec"]["properties"]["defaults"]
    spec = root("TrainSweep")["properties"]["spec"]
    left_out = {"objective", "search", "trials", "className", "runKey", "suspend"}
    assert set(defaults["properties"]) == set(spec["properties"]) - left_out
    required = [p for p, n in nodes(defaults) if n.get("required") and "[]" not in p and "source" not in p]
    assert required == []


def test_rules_tell_what_to_change_and_point_at_a_field() -> None:
    for kind, path, node in ALL:
        for rule in node.get("x-kubernetes-validations", []):
            assert len(rule["message"]) > 10, f"{kind} {path}"
            assert rule["reason"].startswith("FieldValue")
            here = node
            for part in rule.get("fieldPath", "").split(".")[1:]:
                here = here["properties"][part]


def test_columns_look_conditions_up_by_type() -> None:
    columns = CRDS["TrainSweep"]["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [c["name"] for c in columns] == ["State", "Trials", "Best", "Verified", "Attempt", "Pending", "Age"]
    assert columns[0]["jsonPath"] == '.status.conditions[?(@.type=="Succeeded")].reason'
    assert columns[3]["jsonPath"] == '.status.conditions[?(@.type=="CheckpointsVerified")].status'
    assert [c["name"] for c in columns if c.get("priority")] == ["Pending"]


def test_names() -> None:
    names = {kind: crd["spec"]["names"]["shortNames"] for kind, crd in CRDS.items()}
    assert names == {"TrainSweep": ["tsw"], "TrainSweepClass": ["tswc"], "TrainSweepHold": ["tswh"]}
    assert {crd["spec"]["scope"] for kind, crd in CRDS.items() if kind == "TrainSweepClass"} == {"Cluster"}
    assert all(crd["spec"]["names"]["categories"] == ["sweeps"] for crd in CRDS.values())


def test_the_chart_keeps_crds_and_holds_the_same_schema() -> None:
    for path, text in generate.files().items():
        if path.parts[0] != "charts":
            continue
        assert "helm.sh/resource-policy: keep" in text
        plain = "\n".join(line for line in text.splitlines() if not line.startswith("{{"))
        crd = yaml.safe_load(plain)
        assert crd["metadata"].pop("annotations")["argocd.argoproj.io/sync-options"] == "Prune=false,Delete=false"
        assert crd == yaml.safe_load((generate.ROOT / "manifests/crd" / path.name).read_text())
