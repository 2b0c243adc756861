"""What docs/howto/search.md tells people to write is accepted, and its messages are the driver's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.unit.api.api_samples import changed
from trainsweep.api.algorithms import Algorithm
from trainsweep.api.checks import MAX_GP_TRIALS, check_spec
from trainsweep.api.resolve import resolve
from trainsweep.api.stopping import EarlyStopping

PAGE = (Path(__file__).resolve().parents[3] / "docs/howto/search.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
def test_D5_its_fragments_are_accepted(text):
    assert check_spec(resolve(changed(yaml.safe_load(text)), None)) == []


def test_every_algorithm_and_every_rule_is_on_the_page():
    for name in Algorithm.model_fields:
        assert f"| `{name}` |" in PAGE
    for name in EarlyStopping.model_fields:
        assert f"| `{name}: {{" in PAGE


def test_its_limits_are_those_of_the_code():
    from trainjobs import proposals, warmstart

    limits = proposals.REPLAY_LIMIT
    assert f"{limits['tpe']:,} recorded trials (tpe), {limits['cmaes']:,} (cmaes) or {limits['gp']} (gp)" in PAGE
    assert f"more than {MAX_GP_TRIALS} are refused" in PAGE
    assert f"the {warmstart.LIMIT} best, gp {warmstart.MAX_OBSERVATIONS['gp']}" in PAGE


def test_its_messages_are_the_driver_s():
    pytest.importorskip("ray.tune")  # an extra; CI has it and fails on a skip
    from trainjobs.trial import ReportError, check_report

    told = re.findall(r"`(reported: .*?)`", PAGE)
    reports = [{"Loss": 1.0, "epoch": 1}, {"loss": float("nan")}, {"loss": "0.3"}, {"loss": "a Tensor of shape (2,)"}]
    for report, message in zip(reports, told, strict=True):
        with pytest.raises(ReportError) as error:
            check_report(report, "loss", False, 1)
        assert str(error.value) == message
