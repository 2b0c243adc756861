from __future__ import annotations

import asyncio
import itertools

import aiohttp
import pytest

from trainsweep.runtime import probes
from trainsweep.runtime.metrics import Metrics
from trainsweep.runtime.operator import EndlessBackoff, kopf_settings
from trainsweep.runtime.settings import Settings, SettingsError, from_environment


def test_settings_have_defaults_and_name_what_does_not_fit() -> None:
    assert from_environment({}) == Settings()
    found = from_environment(
        {
            "TRAINSWEEP_WATCH_NAMESPACES": " b, a,,b ",
            "TRAINSWEEP_WORKERS": "3",
            "TRAINSWEEP_RESYNC_SECONDS": "5",
            "TRAINSWEEP_LOG_LEVEL": "debug",
            "TRAINSWEEP_METRICS_PORT": "",
        }
    )
    assert (found.namespaces, found.workers, found.resync, found.log_level) == (("a", "b"), 3, 5.0, "DEBUG")
    for name, value in (
        ("TRAINSWEEP_WORKERS", "0"),
        ("TRAINSWEEP_WORKERS", "many"),
        ("TRAINSWEEP_RESYNC_SECONDS", "nan"),
        ("TRAINSWEEP_LOG_LEVEL", "LOUD"),
    ):
        with pytest.raises(SettingsError, match=name):
            from_environment({name: value})


def test_kopf_outlives_outages_and_writes_nothing() -> None:
    pauses = EndlessBackoff()
    assert list(itertools.islice(pauses, 12))[-3:] == [30, 30, 30]
    assert next(iter(pauses)) == 1, "each request iterates anew"
    settings = kopf_settings()
    assert (settings.scanning.disabled, settings.posting.enabled, settings.queueing.worker_limit) == (True, False, None)
    assert settings.persistence.diffbase_storage.fetch(body=None) is None


async def test_probes_tell_what_is_wrong_and_metrics_are_exposed() -> None:
    wrong = {"alive": "", "ready": "not yet"}
    metrics = Metrics()
    metrics.api_call("GET", "pods", "ok")
    states = {"Running": 2.0}
    metrics.before = lambda: [metrics.sweeps.labels(state, "gpu").set(n) for state, n in states.items()]
    metrics.gauge("trainsweep_queue_depth", "x", lambda: 4.0)
    app = probes.application(metrics, lambda: wrong["alive"], lambda: wrong["ready"])
    runner, port = await probes.serve(app, 0)

    async def get(path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
            return answer.status, await answer.text()

    try:
        assert await get("/healthz") == (200, "ok")
        assert await get("/readyz") == (503, "not yet")
        wrong["ready"] = ""
        wrong["alive"] = "stuck"
        assert await get("/readyz") == (200, "ok")
        assert await get("/healthz") == (503, "stuck")
        status, text = await get("/metrics")
        assert status == 200
        assert 'trainsweep_sweeps{class="gpu",state="Running"} 2.0' in text
        assert 'trainsweep_api_calls_total{outcome="ok",resource="pods",verb="GET"} 1.0' in text
        assert "trainsweep_queue_depth 4.0" in text
        states["Running"] = 1.0
        _, text = await get("/metrics")
        assert 'trainsweep_sweeps{class="gpu",state="Running"} 1.0' in text
    finally:
        await runner.cleanup()
        await asyncio.sleep(0)
