"""Exit codes tell the truth, and sweep files that cannot be run say why."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.trainjobs.builders import sweep
from trainjobs.outcome import DriverError, exit_code
from trainjobs.reporting import average
from trainjobs.sweep import parse
from trainsweep.contract.documents import FailureReason, Outcome

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("outcome", "reason", "lost", "code"),
    [
        (Outcome.COMPLETED, "", False, 0),
        (Outcome.GOAL_REACHED, "", False, 0),
        (Outcome.COMPLETED, "", True, 6),
        (Outcome.MAX_FAILED_TRIALS, "", False, 1),
        (Outcome.DEADLINE_EXCEEDED, "DeadlineExceeded", False, 1),
        (Outcome.STOPPED, "Deleted", False, 5),
        (Outcome.STOPPED, "Deleted", True, 5),
        (Outcome.FAILED, FailureReason.FENCED, False, 4),
        (Outcome.FAILED, FailureReason.BAD_ENTRYPOINT, False, 3),
        (Outcome.FAILED, FailureReason.STORAGE_DENIED, False, 3),
        (Outcome.FAILED, FailureReason.STORAGE_UNAVAILABLE, False, 1),
        (Outcome.FAILED, FailureReason.NO_TRIAL_SUCCEEDED, False, 1),
    ],
)
def test_exit_codes(outcome, reason, lost, code):
    assert exit_code(outcome, str(reason), lost=lost) == code


def change(**changes):
    data = json.loads(sweep().file.to_json())
    for path, value in changes.items():
        node = data
        *parents, last = path.split("__")
        for part in parents:
            node = node[part]
        node[last] = value
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    ("text", "reason", "message"),
    [
        (b"", FailureReason.INVALID_SWEEP, "Invalid JSON"),
        (change(contractVersion=99), FailureReason.INCOMPATIBLE, "contract 99"),
        (change(spec__objective={"metric": "loss"}), FailureReason.INVALID_SWEEP, "objective.mode"),
        (change(spec__trials={}), FailureReason.INVALID_SWEEP, "trials.count is required"),
        (
            change(spec__training__workers={"count": 1, "resources": {"cpu": "500m"}}),
            FailureReason.INVALID_SWEEP,
            "workers.resources.cpu: '500m' must be a whole number",
        ),
    ],
)
def test_a_sweep_file_that_cannot_be_run(text, reason, message):
    with pytest.raises(DriverError) as error:
        parse(text)
    assert error.value.reason is reason
    assert message in error.value.message


def test_a_failure_travels_between_processes():
    error = DriverError(FailureReason.BAD_ENTRYPOINT, "no such module")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (again.reason, again.message, str(again)) == (error.reason, error.message, "BadEntrypoint: no such module")


@pytest.mark.parametrize(("cpu", "expected"), [(2, 2), ("2", 2), ("2000m", 2)])
def test_cpus_as_ray_counts_them(cpu, expected):
    found = sweep(training={"entrypoint": "train:f", "workers": {"count": 1, "resources": {"cpu": cpu}}})
    assert (found.cpus, found.gpus) == (expected, 0)


def test_metrics_are_averaged_by_weight():
    found = average([({"acc": 1.0, "tag": "a", "ok": True}, 1), ({"acc": 0.5, "tag": "b", "ok": False}, 3)])
    assert found == {"acc": 0.625, "tag": "a", "ok": True}


def test_ranks_that_report_different_metrics_are_told():
    with pytest.raises(ValueError, match="rank 0 reported acc; rank 1 reported loss"):
        average([({"acc": 1.0}, 1), ({"loss": 1.0}, 1)])


def test_importing_the_package_loads_neither_ray_nor_torch():
    code = "import sys, trainjobs, trainjobs.checkpoint, trainjobs.sweep; print({'ray', 'torch'} & set(sys.modules))"
    environment = {"PYTHONPATH": f"{ROOT / 'operator'}:{ROOT}", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_without_a_sweep_file_the_command_says_what_to_set():
    environment = {"PYTHONPATH": f"{ROOT / 'operator'}:{ROOT}", "PATH": ""}
    done = subprocess.run([sys.executable, "-m", "trainjobs"], env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "TRAINSWEEP_SWEEP_FILE" in done.stderr
