"""What a local driver is given: env by Kubernetes' rule, and the training source from where the user keeps it."""

import pytest
import yaml

from tests.unit.render.render_builders import BASE
from trainsweep.api.resolve import merge
from trainsweep.api.workload import EnvVar
from trainsweep.cli.environment import expand, process_environment, source, variables
from trainsweep.cli.inputs import read_input


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("$(A)/x", "1/x"),
        ("$$(A)", "$(A)"),
        ("$(HOME)/x", "$(HOME)/x"),
        ("$A ${A} `id` $(id", "$A ${A} `id` $(id"),
        ("$$$(A)", "$1"),
        ("a && b; $(rm -rf /)", "a && b; $(rm -rf /)"),
    ],
)
def test_expansion_is_that_of_kubernetes(written, read):  # A1
    assert expand(written, {"A": "1"}) == read


def test_only_variables_that_stand_before_are_known():
    found, _ = variables(
        [EnvVar(name="B", value="$(A)"), EnvVar(name="A", value="1"), EnvVar(name="C", value="$(A)")], {}
    )
    assert found == {"B": "$(A)", "A": "1", "C": "1"}


def test_a_value_from_the_cluster_is_said():
    secret = EnvVar.model_validate({"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}})
    assert variables([secret], {})[1] == [
        "training.env TOKEN comes from the cluster: export it in this shell if needed"
    ]
    assert variables([secret], {"TOKEN": "x"})[1] == []


def sweep(**training):
    return {
        "apiVersion": "trainsweep.io/v1alpha1",
        "kind": "TrainSweep",
        "metadata": {"name": "digits"},
        "spec": merge(BASE, {"training": training}),
    }


def write(folder, *documents):
    file = folder / "sweep.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    return read_input(str(file))


CODE = {"source": {"configMap": {"name": "code"}}}


def test_source_from_a_configmap_in_the_same_file(tmp_path):
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "code"},
        "data": {"train.py": "x = 1\n"},
    }
    paths, notes = source(write(tmp_path, config_map, sweep(**CODE)), tmp_path / "made")
    assert paths == [str(tmp_path / "made"), str(tmp_path)]
    assert (tmp_path / "made" / "train.py").read_text() == "x = 1\n"
    assert notes == []


def test_source_from_the_kustomization_beside_it(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "loop.py").write_text("y = 2\n")
    generator = {"configMapGenerator": [{"name": "code", "files": ["train.py=src/loop.py"]}]}
    (tmp_path / "kustomization.yaml").write_text(
        yaml.safe_dump({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", **generator})
    )
    source(write(tmp_path, sweep(**CODE)), tmp_path / "made")
    assert (tmp_path / "made" / "train.py").read_text() == "y = 2\n"


def test_source_that_is_nowhere_falls_back_to_the_folder_and_says_so(tmp_path):
    paths, (note,) = source(write(tmp_path, sweep(**CODE)), tmp_path / "made")
    assert paths == [str(tmp_path)]
    assert "ConfigMap code is neither in the file" in note


def test_a_key_that_would_leave_the_folder_is_refused(tmp_path):
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}, "data": {"../x.py": ""}}
    with pytest.raises(ValueError, match="no file name"):
        source(write(tmp_path, config_map, sweep(**CODE)), tmp_path / "made")
    assert not (tmp_path / "x.py").exists()


def test_the_drivers_path_starts_with_the_source(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/around")
    env, _ = process_environment(write(tmp_path, sweep(env=[{"name": "PYTHONPATH", "value": "/mine"}])), tmp_path / "f")
    parts = env["PYTHONPATH"].split(":")
    assert (parts[0], parts[1], parts[-1]) == (str(tmp_path), "/mine", "/around")
    assert env["AWS_REGION"] == "eu-west-1"
