"""plan, render and what they say about a file, through the command line."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tests.unit.render.render_builders import BASE, GPU_TRAINING
from trainsweep.api.resolve import merge
from trainsweep.cli.main import app
from trainsweep.contract.canonical import run_name

CLASS = {
    "apiVersion": "trainsweep.io/v1alpha1",
    "kind": "TrainSweepClass",
    "metadata": {"name": "gpu"},
    "spec": {"storage": {"allowedPrefixes": ["s3://bucket"]}, "limits": {"gpus": 3}},
}


def invoke(*arguments, stdin=None):
    return CliRunner().invoke(app, list(arguments), input=stdin)


@pytest.fixture
def write(tmp_path):
    def one(*documents, name="sweep.yaml"):
        file = tmp_path / name
        file.write_text(yaml.safe_dump_all(documents, sort_keys=False))
        return str(file)

    return one


def sweep(**changes):
    return {
        "apiVersion": "trainsweep.io/v1alpha1",
        "kind": "TrainSweep",
        "metadata": {"name": "digits", "namespace": "team"},
        "spec": merge(BASE, changes),
    }


def test_plan_for_scripts_uses_the_class_in_the_file(write):
    found = invoke("plan", write(sweep(**GPU_TRAINING), CLASS), "-o", "json")
    assert found.exit_code == 0, found.output
    out = json.loads(found.stdout)
    assert (out["sweep"], out["maxGPUs"], out["maxConcurrent"]) == ("team/digits", 3, 1)
    assert out["run"] == run_name(merge(BASE, GPU_TRAINING))
    assert out["worstCase"]["worker_starts"] == 3 * 4 * 16
    assert out["problems"] == []


def test_plan_takes_a_class_of_another_file(write):
    file = write(sweep(**GPU_TRAINING))
    assert json.loads(invoke("plan", file, "-o", "json").stdout)["maxGPUs"] == 4
    other = write(CLASS, name="class.yaml")
    assert json.loads(invoke("plan", file, "--class", other, "-o", "json").stdout)["maxGPUs"] == 3


def test_plan_reads_standard_input():
    found = invoke("plan", "-", "-o", "json", stdin=yaml.safe_dump(sweep()))
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["trials"] == 4


def test_checks_between_fields_are_made_for_standard_input_too():
    text = yaml.safe_dump(sweep(training={"env": [{"name": "RAY_ADDRESS", "value": "x"}]}))
    found = invoke("plan", "-", stdin=text)
    assert found.exit_code == 1
    assert "RAY_ADDRESS is reserved" in found.stderr


def test_plan_says_what_it_derived_and_that_no_class_is_known(write):
    found = invoke("plan", write(sweep(**GPU_TRAINING)))
    assert found.exit_code == 0
    assert "0 to 4 pod(s) of cpu 4, memory 16Gi, nvidia.com/gpu 1, 1 worker(s) each" in found.stdout
    assert "no TrainSweepClass in the file" in found.stdout
    assert "no bound: set budget.gpuHours or deadlines.totalSeconds" in found.stdout


def test_a_refusal_has_its_line_and_code_1(write):
    group = {"name": "small", "resources": {"cpu": 1, "memory": "1Gi"}}
    file = write(sweep(**merge(GPU_TRAINING, {"cluster": {"workerGroups": [group]}})))
    found = invoke("plan", file)
    assert found.exit_code == 1
    line = next(i for i, text in enumerate(Path(file).read_text().splitlines(), 1) if "- name: small" in text) + 1
    assert f"{file}:{line}: spec.cluster.workerGroups[0].resources: a pod of group small" in found.stderr


@pytest.mark.parametrize("command", ["plan", "render"])
def test_what_the_class_does_not_allow_is_refused(write, command):
    file = write(sweep(storage={"uri": "s3://other/x"}), CLASS)
    found = invoke(command, file)
    assert found.exit_code == 1
    assert "spec.storage.uri: s3://other/x lies below no prefix" in found.stderr


@pytest.mark.parametrize("command", ["plan", "render"])
def test_an_escape_is_refused_without_a_class_too(write, command):
    template = {"spec": {"volumes": [{"name": "h", "hostPath": {"path": "/"}}]}}
    found = invoke(command, write(sweep(cluster={"head": {"podTemplate": template}})))
    assert found.exit_code == 1
    assert "volumes[0].hostPath: is not allowed here" in found.stderr


def test_render_prints_what_the_operator_would_make(write):
    found = invoke("render", write(sweep(), CLASS), "--attempt", "7")
    assert found.exit_code == 0, found.output
    rayjob = yaml.safe_load(found.stdout)
    assert rayjob["kind"] == "RayJob"
    assert rayjob["metadata"]["name"].endswith("-a7")
    assert json.loads(invoke("render", write(sweep(), CLASS), "-o", "json").stdout)["kind"] == "RayJob"


def test_render_without_a_class_names_stand_ins(write):
    body = sweep()
    del body["spec"]["storage"]
    body["spec"]["training"] = {k: v for k, v in body["spec"]["training"].items() if k != "image"}
    found = invoke("render", write(body))
    assert found.exit_code == 0, found.output
    assert "image: image-of-the-class" in found.stdout
    assert "s3://bucket-of-the-class/team/digits" in found.stdout


def test_render_for_an_older_kuberay(write):
    text = invoke("render", write(sweep(), CLASS), "--kuberay", "1.5.0").stdout
    assert "authOptions" not in text
    assert invoke("render", write(sweep(), CLASS), "--kuberay", "new").exit_code == 2


def test_a_foreign_file_gets_a_sentence_and_no_stack_trace(write):  # C9
    file = write({"apiVersion": "kubeflow.org/v1beta1", "kind": "Experiment", "metadata": {"name": "x"}, "spec": {}})
    for command in ("plan", "render"):
        found = invoke(command, file)
        assert found.exit_code == 1
        assert "kind Experiment of kubeflow.org, expected TrainSweep" in found.stderr
        assert "Traceback" not in found.output


def test_two_sweeps_need_a_name(write):  # E7
    other = sweep()
    other["metadata"] = {"name": "other"}
    file = write(sweep(), other)
    assert invoke("plan", file).exit_code == 1
    assert json.loads(invoke("plan", file, "--name", "other", "-o", "json").stdout)["sweep"] == "default/other"


@pytest.mark.parametrize(
    "arguments", [["plan", "f", "-o", "xml"], ["render", "f", "-o", "text"], ["plan"], ["nonsense"]]
)
def test_wrong_usage_is_code_2(arguments):
    assert invoke(*arguments).exit_code == 2


def test_run_without_local_says_what_to_do(write):
    found = invoke("run", write(sweep()))
    assert found.exit_code == 2
    assert "kubectl apply" in found.stderr
