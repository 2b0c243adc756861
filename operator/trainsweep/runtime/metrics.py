"""What the operator tells Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """All metrics, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.before: Callable[[], None] | None = None
        """Called before each exposition, to set what is only known as a whole."""
        ProcessCollector(registry=self.registry)
        self.reconciles = Counter(
            "trainsweep_reconcile_total", "Passes over a sweep, by outcome.", ["outcome"], registry=self.registry
        )
        self.reconcile_seconds = Histogram(
            "trainsweep_reconcile_seconds", "Duration of a pass.", buckets=_SECONDS, registry=self.registry
        )
        self.queue_wait_seconds = Histogram(
            "trainsweep_queue_wait_seconds", "How long a ready sweep waited.", buckets=_SECONDS, registry=self.registry
        )
        self.api_calls = Counter(
            "trainsweep_api_calls_total", "API calls.", ["verb", "resource", "outcome"], registry=self.registry
        )
        self.actions = Counter(
            "trainsweep_actions_total", "Actions carried out.", ["action", "outcome"], registry=self.registry
        )
        self.looks = Counter(
            "trainsweep_verifications_total",
            "Second looks, by source and proof.",
            ["source", "proof"],
            registry=self.registry,
        )
        self.look_seconds = Histogram(
            "trainsweep_verification_seconds",
            "Duration of a second look.",
            buckets=(0.1, 0.5, 1, 5, 15, 30, 60, 300, 900, 1800),
            registry=self.registry,
        )
        self.look_bytes = Counter(
            "trainsweep_verification_bytes_total", "Bytes read to compute checksums.", registry=self.registry
        )
        self.sweeps = Gauge(
            "trainsweep_sweeps", "Sweeps by state and class, as last seen.", ["state", "class"], registry=self.registry
        )
        self.pending = Gauge(
            "trainsweep_pending_sweeps",
            "Sweeps that wait, by the lowest layer that is not satisfied.",
            ["layer"],
            registry=self.registry,
        )
        self.pending_seconds = Counter(
            "trainsweep_pending_seconds_total",
            "Seconds that sweeps waited, by layer.",
            ["layer"],
            registry=self.registry,
        )
        self.gpu_seconds = Counter(
            "trainsweep_gpu_seconds_total",
            "GPU-seconds that sweeps used, as their statuses count them.",
            ["namespace", "class"],
            registry=self.registry,
        )
        self.attempts = Counter(
            "trainsweep_attempts_ended_total",
            "Attempts that ended, by class of end.",
            ["class", "end"],
            registry=self.registry,
        )
        self.finished = Counter(
            "trainsweep_sweeps_finished_total",
            "Sweeps that ended, by reason.",
            ["class", "reason"],
            registry=self.registry,
        )
        self.budget_used = Gauge(
            "trainsweep_budget_used_ratio",
            "Used share of the GPU-hours that a live sweep may use, where something bounds them.",
            ["namespace", "sweep"],
            registry=self.registry,
        )
        self.orphans = Counter(
            "trainsweep_orphans_removed_total", "Holds removed without a sweep.", registry=self.registry
        )

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """A gauge that is computed when it is asked for."""
        Gauge(name, text, registry=self.registry).set_function(value)

    def api_call(self, verb: str, resource: str, outcome: str) -> None:
        """One API call."""
        self.api_calls.labels(verb, resource, outcome).inc()

    def text(self) -> bytes:
        """The exposition."""
        if self.before is not None:
            self.before()
        return generate_latest(self.registry)
