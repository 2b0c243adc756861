"""`trainsweep lint`: every finding with its line, foreign kinds by name, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from trainsweep.api.sweepclass import TrainSweepClassSpec
from trainsweep.cli.lint import Severity, lint, lint_command

GOOD = """\
apiVersion: trainsweep.io/v1alpha1
kind: TrainSweep
metadata:
  name: digits
spec:
  objective: {metric: val_loss, mode: Minimize}
  search:
    algorithm: {random: {seed: 7}}
    parameters:
    - {name: lr, float: {min: 1e-5, max: 1e-1, log: true}}
    - name: width
      categorical: {values: [64, 128]}
  trials: {count: 4}
  training:
    entrypoint: my_pkg.train:loop
"""


def app() -> typer.Typer:
    made = typer.Typer()
    made.command()(lint_command)
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.yaml"
    path.write_text(GOOD)
    return path


def messages(path: Path, text: str, severity: Severity = Severity.ERROR) -> list[str]:
    path.write_text(text)
    return [str(f).removeprefix(f"{path}:") for f in lint([str(path)]) if f.severity is severity]


def test_a_good_file_has_no_findings(file: Path) -> None:
    assert lint([str(file)]) == []


def test_each_problem_has_its_line_and_path(file: Path) -> None:
    text = GOOD.replace("max: 1e-1", "max: 1e-6").replace("count: 4", "count: 4, maxConcurrent: 5")
    assert messages(file, text) == [
        "10: spec.search.parameters[0].float.min: must be less than max: for one fixed value use training.config",
        "13: spec.trials.maxConcurrent: must not be greater than count",
    ]


def test_C9_a_foreign_file_is_told_what_it_is(file: Path) -> None:
    text = "apiVersion: kubeflow.org/v1beta1\nkind: Experiment\nmetadata: {name: x}\n"
    assert messages(file, text) == ["2: kind Experiment of kubeflow.org, expected TrainSweep of trainsweep.io"]


def test_a_hold_is_not_for_files(file: Path) -> None:
    text = GOOD.replace("kind: TrainSweep", "kind: TrainSweepHold")
    assert messages(file, text) == [
        "2: kind: kind TrainSweepHold of trainsweep.io, expected TrainSweep or TrainSweepClass"
    ]


def test_C9_quoted_numbers_and_words_are_told(file: Path) -> None:
    text = GOOD.replace("min: 1e-5", 'min: "0.01"').replace("mode: Minimize", "mode: minimize")
    found = messages(file, text)
    assert found[0] == '6: spec.objective.mode: must be one of Minimize, Maximize; got "minimize"'
    assert found[1] == '10: spec.search.parameters[0].float.min: must be a number, got "0.01": remove the quotes'


@pytest.mark.parametrize(
    ("metadata", "path", "words"),
    [
        ("name: " + "a" * 37, "metadata.name", "36 characters"),
        ("name: a.b", "metadata.name", "a-z"),
        ("name: 7up", "metadata.name", "start with a letter"),
        ("name: 7", "metadata.name", "must be a string"),
        ("labels: {}", "metadata.name", "is required"),
        ("generateName: " + "a" * 32, "metadata.generateName", "36 characters"),
        ("generateName: -a", "metadata.generateName", "start with a letter"),
    ],
)
def test_E7_the_name_rules_speak_before_create(file: Path, metadata: str, path: str, words: str) -> None:
    (found,) = messages(file, GOOD.replace("name: digits", metadata))
    assert f"{path}: " in found
    assert words in found


def test_E7_a_generated_name_of_31_characters_fits(file: Path) -> None:
    assert messages(file, GOOD.replace("name: digits", "generateName: " + "a" * 31)) == []


def test_E8_a_stray_key_at_the_top_is_an_error(file: Path) -> None:
    (found,) = messages(file, GOOD + "x-gpu: {a: 1}\n")
    assert found.startswith('16: x-gpu: unknown field "x-gpu"')


def test_E5_mixed_kinds_and_words_read_as_booleans_are_warned_about(file: Path) -> None:
    def warned(values: str) -> str:
        (found,) = messages(file, GOOD.replace("[64, 128]", values), Severity.WARNING)
        return found

    assert '"auto" (string)' in warned("[on, off, auto]")
    assert "true (boolean)" in warned("[on, off, auto]")
    assert "false (boolean)" in warned("[NO, SE, DK]")
    assert "quote them" in warned("[yes, no]")
    assert messages(file, GOOD.replace("[64, 128]", "['yes', 'no']"), Severity.WARNING) == []


def test_B2_gloo_does_not_know_exclusion(file: Path) -> None:
    env = '    env: [{name: NCCL_SOCKET_IFNAME, value: "^lo"}, {name: GLOO_SOCKET_IFNAME, value: "^lo"}]\n'
    (found,) = messages(file, GOOD + env, Severity.WARNING)
    assert "spec.training.env[1].value" in found


def test_C10_asha_without_company_or_rungs_is_warned_about(file: Path) -> None:
    trials = "{count: 4, earlyStopping: {asha: {maxEpochs: 9, graceEpochs: 5}}, stop: {maxEpochs: 5}}"
    found = messages(file, GOOD.replace("{count: 4}", trials), Severity.WARNING)
    assert len(found) == 2
    assert "compared" in found[0]
    assert "no rung is reached" in found[1]


def test_what_cannot_work_is_refused_with_the_reason(file: Path) -> None:
    pbt = GOOD.replace("{count: 4}", "{count: 4, earlyStopping: {pbt: {interval: 3}}}")
    (found,) = messages(file, pbt)
    assert "no trial can go on from another's checkpoint: use asha, hyperband or median" in found
    (found,) = messages(file, GOOD.replace("- name: width\n", "- name: width\n      when: {lr: 1}\n"))
    assert "no conditional parameters" in found
    quoted = GOOD.replace("{count: 4}", '{count: 4, maxFailed: "20"}')
    (found,) = messages(file, quoted)
    assert "spec.trials.maxFailed" in found
    assert '"20" does not fit the pattern' in found
    assert messages(file, GOOD.replace("{count: 4}", '{count: 4, maxFailed: "20%"}')) == []


CLASS = """\
---
apiVersion: trainsweep.io/v1alpha1
kind: TrainSweepClass
metadata: {name: gpu}
spec:
  defaults: {cleanup: {holdSeconds: 60}}
"""


def test_the_class_beside_the_sweep_counts(file: Path) -> None:
    (found,) = messages(file, GOOD + CLASS)
    assert "spec.cleanup.holdSeconds" in found
    assert "from the class's defaults" in found


def test_a_class_is_checked_itself(file: Path) -> None:
    (found,) = messages(file, CLASS.replace("holdSeconds: 60", "holdSecs: 60"))
    assert found.startswith('6: spec.defaults.cleanup.holdSecs: unknown field "spec.defaults.cleanup.holdSecs"')
    (found,) = messages(file, CLASS.replace("{name: gpu}", "{}"))
    assert found == "4: metadata.name: is required"


def test_a_given_class_is_used(file: Path) -> None:
    assert (
        lint([str(file)], TrainSweepClassSpec(defaults={"training": {"image": "a b"}}))[0].path == "spec.training.image"
    )


def test_several_files_and_one_that_is_missing(file: Path, tmp_path: Path) -> None:
    found = lint([str(file), str(tmp_path / "none.yaml")])
    assert [str(f) for f in found] == [f"{tmp_path / 'none.yaml'}: cannot be read: No such file or directory"]


class TestCommand:
    def test_a_good_file_ends_with_0(self, file: Path) -> None:
        result = CliRunner().invoke(app(), [str(file)])
        assert result.exit_code == 0
        assert "fine" in result.output

    def test_an_error_ends_with_1_and_a_warning_with_0(self, file: Path) -> None:
        file.write_text(GOOD.replace("[64, 128]", "[64, a]"))
        result = CliRunner().invoke(app(), [str(file)])
        assert result.exit_code == 0
        assert f"{file}:12: warning: spec.search.parameters[1]" in result.output
        file.write_text(GOOD.replace("count: 4", "count: 0"))
        assert CliRunner().invoke(app(), [str(file)]).exit_code == 1

    def test_json(self, file: Path) -> None:
        file.write_text(GOOD.replace("count: 4", "count: 0"))
        result = CliRunner().invoke(app(), ["-o", "json", str(file)])
        assert result.exit_code == 1
        assert json.loads(result.output) == [
            {
                "file": str(file),
                "line": 13,
                "path": "spec.trials.count",
                "message": "must be at least 1, got 0",
                "severity": "error",
            }
        ]

    def test_another_output_is_wrong_usage(self, file: Path) -> None:
        assert CliRunner().invoke(app(), ["-o", "xml", str(file)]).exit_code == 2
