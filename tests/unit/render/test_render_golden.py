"""The rendered RayJob of each scenario, as a file: a change of what runs in a cluster must be seen in a diff.

`TRAINSWEEP_UPDATE_GOLDEN=1 pytest tests/unit/render/test_render_golden.py` writes them anew.
"""

import os
from pathlib import Path

import pytest
import yaml

from tests.unit.render.render_builders import GPU_TRAINING, klass, raw, render_input
from trainsweep.api.resolve import merge
from trainsweep.contract.documents import Limits
from trainsweep.render.admission import check_class
from trainsweep.render.kuberay import KubeRay
from trainsweep.render.rayjob import check, render

GOLDEN = Path(__file__).parent / "golden"

SCENARIOS = {
    "cpu-minimal": lambda: render_input(raw(), klass()),
    "gpu": lambda: render_input(
        raw(**merge(GPU_TRAINING, {"training": {"source": {"configMap": {"name": "digits-code"}}}})),
        klass(),
        limits=Limits(deadline_at=1_800_000_000.0),
        active_deadline_seconds=7200,
    ),
    "class-cut": lambda: render_input(
        raw(**GPU_TRAINING),
        klass(
            limits={"gpus": 3},
            storage={"credentialsSecret": "s3", "endpoints": ["http://10.0.0.1:7070"]},
            defaults={"storage": {"endpointURL": "http://10.0.0.1:7070", "serviceAccountName": "trainer"}},
            podOverlay={
                "head": {
                    "spec": {
                        "volumes": [{"name": "venv", "hostPath": {"path": "/opt/venv"}}],
                        "containers": [
                            {
                                "name": "ray-head",
                                "imagePullPolicy": "Never",
                                "env": [{"name": "PATH", "value": "/opt/venv/bin:/bin"}],
                                "volumeMounts": [{"name": "venv", "mountPath": "/opt/venv", "readOnly": True}],
                            }
                        ],
                    }
                },
                "worker": {"spec": {"runtimeClassName": "nvidia"}},
            },
        ),
    ),
    "kueue": lambda: render_input(
        raw(scheduling={"queueName": "team-queue", "priorityClassName": "batch"}), klass(), attempt=12
    ),
    "kuberay-1.5.0": lambda: render_input(raw(), klass(), kuberay=KubeRay.of_version((1, 5, 0))),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_rendered_as_checked_in(name):
    inp = SCENARIOS[name]()
    rayjob = render(inp)
    text = yaml.safe_dump(rayjob, sort_keys=False, width=110)
    file = GOLDEN / f"{name}.yaml"
    if os.environ.get("TRAINSWEEP_UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text(), f"{file} differs: look at it, then TRAINSWEEP_UPDATE_GOLDEN=1"


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_rendered_passes_our_own_checks(name):
    inp = SCENARIOS[name]()
    assert check(render(inp), kueue=bool(inp.spec.scheduling.queue_name)) == []
    assert check_class(inp.spec, {}, inp.sweep_class, "team") == []
