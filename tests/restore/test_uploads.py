"""B3: upload functions of the user's own that do what they should not, in a real trial."""

import pytest

from tests.local.harness import ROOT, Run, example

pytestmark = [pytest.mark.ray, pytest.mark.timeout(3600)]


def test_b3_an_upload_of_the_user_s_own_that_is_wrong_is_named_and_never_verified(tmp_path, cluster):
    spec = example("tiny")
    spec["training"]["entrypoint"] = "odd:train_loop"
    kinds = ["returns-none", "elsewhere", "short"]
    spec["search"]["parameters"] = [{"name": "how", "categorical": {"values": kinds}}]
    spec["failurePolicy"] = {"trialRetries": 0, "workerRestarts": 0}
    run = Run(tmp_path, spec, ROOT / "tests" / "local" / "loops", name="odd")
    try:
        run.start(cluster=cluster)
        end = run.end()
        errors = {t["parameters"]["how"]: t["error"] for t in run.trials() if t["state"] == "Failed"}
        assert "must return a `ray.train.Checkpoint`" in errors["returns-none"]
        assert errors["elsewhere"]
        # The third was committed one file short: found in the driver's own look, nothing could mend it, never verified.
        assert (end["outcome"], end["reason"], end["verified"]) == ("Failed", "CheckpointsLost", False), run.text()[
            -3000:
        ]
        assert "b.bin (Absent)" in end["message"]
    finally:
        run.kill()
