"""`TrainSweep.spec` as one typed model.

Defaults stand here as Python defaults and are never written into the stored object: see `trainsweep.api.resolve`.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from trainsweep.api.base import ApiModel, Rule, Seconds
from trainsweep.api.search import Objective, Search, Trials
from trainsweep.api.tracking import Tracking
from trainsweep.api.workload import Cluster, Depth, Require, Scheduling, Training

# CEL at the root of the spec may compare with oldSelf only where both sides have the field: has() parity is added here.


def immutable(path: str, advice: str) -> Rule:
    """A rule that holds a field of the spec fixed, also against its removal or a late addition."""
    parts = path.split(".")
    new, old = f"self.{path}", f"oldSelf.{path}"
    guards_new = " && ".join(f"has(self.{'.'.join(parts[: i + 1])})" for i in range(len(parts)))
    guards_old = " && ".join(f"has(oldSelf.{'.'.join(parts[: i + 1])})" for i in range(len(parts)))
    return Rule(
        f"(({guards_new}) == ({guards_old})) && (!({guards_new}) || {new} == {old})",
        f"is immutable: {advice}",
        f".{path}",
        "FieldValueForbidden",
    )


def _only_up(name: str, default: int) -> Rule:
    """A rule that lets the attempts of a class of end grow and never shrink: those used up stay used up."""

    def read(root: str) -> str:
        parts = ("failurePolicy", "attempts", name)
        guards = " && ".join(f"has({root}.{'.'.join(parts[: i + 1])})" for i in range(len(parts)))
        return f"({guards} ? {root}.{'.'.join(parts)} : {default})"

    return Rule(
        f"{read('self')} >= {read('oldSelf')}",
        "may only be raised: create the sweep again with fewer attempts",
        f".failurePolicy.attempts.{name}",
        "FieldValueForbidden",
    )


class Storage(ApiModel):
    """Where checkpoints and results go."""

    uri: str = Field(
        default="",
        max_length=512,
        pattern=r"^(s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^/?#\s]+)*/?)?$",
        description="s3://bucket/prefix; the run lies below it under namespace/name/run. Absent: the class's.",
    )
    region: str = Field(default="", max_length=32, pattern=r"^[a-z0-9-]*$", description="Region of the bucket.")
    service_account_name: str = Field(
        default="",
        max_length=253,
        pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$",
        description="ServiceAccount of the Ray pods, with an identity that can write below the prefix.",
    )
    endpoint_url: str = Field(
        default="",
        alias="endpointURL",
        max_length=256,
        pattern=r"^(https?://[^\s/?#@]+)?/?$",
        description="Endpoint of an S3-compatible store. Only one that the class allows.",
    )


class Verify(ApiModel):
    """The second look at the owed checkpoints."""

    depth: Depth = Field(default=Depth.CHECKSUMS, description="Listing, Sizes or Checksums.")
    timeout_seconds: int = Field(default=600, ge=10, le=86400, description="How long the driver waits for the verdict.")
    on_missing: Literal["Fail", "Warn"] = Field(
        default="Fail",
        description="What happens when an owed checkpoint stays missing: the sweep fails, or succeeds with a warning.",
    )


class Retention(ApiModel):
    """Which checkpoints are kept."""

    per_trial: int = Field(
        default=2, ge=1, le=1000, description="Checkpoints kept of a trial: the best ones, and always the newest."
    )
    keep_trials: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Trials whose checkpoints are kept after verification. Only with require BestTrial.",
    )


class Export(ApiModel):
    """A copy of the best proven checkpoint for those who use the model."""

    uri: str = Field(
        max_length=512,
        pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^/?#\s]+)*/?$",
        description="s3://bucket/prefix; the copy lies below it under namespace/name/run. In the region and at the "
        "endpoint of storage, below a prefix that the class allows.",
    )


class Checkpoints(ApiModel):
    """What is owed, how it is proven and what is kept."""

    require: Require = Field(
        default=Require.BEST_TRIAL,
        description="Which checkpoints must be proven: None, BestTrial, AllSucceeded or AllReported.",
    )
    verify: Verify = Field(default_factory=Verify, description="The second look.")
    retention: Retention = Field(default_factory=Retention, description="Which checkpoints are kept.")
    export: Export | None = Field(
        default=None,
        description="Where the driver copies the best proven checkpoint, with its manifest; the copy is verified too. "
        "Absent: nowhere.",
    )

    rules: ClassVar = (
        Rule(
            "!has(self.retention) || !has(self.retention.keepTrials) || !has(self.require) || "
            "self.require == 'BestTrial'",
            "goes only with require BestTrial: the other policies owe more than it keeps",
            ".retention.keepTrials",
        ),
        Rule(
            "!has(self.export) || !has(self.require) || self.require != 'None'",
            "goes only with checkpoints that are proven: set require to BestTrial, AllSucceeded or AllReported",
            ".export",
        ),
    )


class Attempts(ApiModel):
    """How many further RayJobs each class of end may cost. 0 means none."""

    application: int = Field(default=1, ge=0, le=100, description="After the training or the driver failed.")
    infrastructure: int = Field(default=3, ge=0, le=100, description="After a node, the head or the store was lost.")
    eviction: int = Field(default=10, ge=0, le=100, description="After Kueue, a drain or a person took the cluster.")
    startup: int = Field(default=1, ge=0, le=100, description="After a cluster did not start in time.")


class Backoff(ApiModel):
    """Pause before a further attempt; it doubles each time."""

    initial_seconds: int = Field(default=10, ge=0, le=3600, description="Pause before the second attempt.")
    max_seconds: int = Field(default=600, ge=0, le=86400, description="Longest pause.")

    rules: ClassVar = (
        Rule(
            "!has(self.initialSeconds) || !has(self.maxSeconds) || self.initialSeconds <= self.maxSeconds",
            "must not be greater than maxSeconds",
            ".initialSeconds",
        ),
    )


class FailurePolicy(ApiModel):
    """Retries at every level: all finite, 0 means 0. They multiply: `trainsweep plan` prints the worst case."""

    trial_retries: int = Field(
        default=2, ge=0, le=100, description="Further tries of a trial inside the cluster (Tune)."
    )
    worker_restarts: int = Field(
        default=3, ge=0, le=100, description="Restarts of a trial's workers (Train), also after a lost spot node."
    )
    attempts: Attempts = Field(
        default_factory=Attempts, description="Further RayJobs, by class of end. May be raised while running."
    )
    backoff: Backoff = Field(default_factory=Backoff, description="Pause before a further attempt.")


TIME_PATTERN = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(Z|[+-]\d{2}:\d{2})$"


class Deadlines(ApiModel):
    """Limits in time, in seconds. May be changed while running, up and down: a running driver is told."""

    queued_seconds: int | None = Field(
        default=None,
        ge=10,
        le=31_536_000,
        description="From an attempt's RayJob until its head and a first worker run: the wait for Kueue and for nodes. "
        "Absent: startupSeconds covers the wait too.",
    )
    startup_seconds: int = Field(
        default=7200,
        ge=10,
        le=31_536_000,
        description="Until an attempt's first trial reports: from its RayJob or, with queuedSeconds, from the end of "
        "that wait.",
    )
    stall_seconds: int | None = Field(
        default=None,
        ge=60,
        le=31_536_000,
        description="How long no trial may report, or no heartbeat may come, once one has reported. Longer than your "
        "longest epoch and than a node takes to come.",
    )
    trial_seconds: int | None = Field(
        default=None,
        ge=10,
        le=31_536_000,
        description="One trial, over all its tries and attempts; it ends with its next report, or after "
        "cleanup.stopGraceSeconds, and keeps its best.",
    )
    run_seconds: int | None = Field(default=None, ge=10, le=31_536_000, description="One attempt, from its RayJob.")
    total_seconds: int | None = Field(
        default=None,
        ge=10,
        le=31_536_000,
        description="The whole sweep, from its first launch, over all attempts and suspensions.",
    )
    not_after: str | None = Field(
        default=None,
        max_length=25,
        pattern=TIME_PATTERN,
        description="Date and time, such as 2027-01-31T18:00:00Z, by which the sweep must have ended, started or not: "
        "the end of a capacity reservation.",
    )

    rules: ClassVar = (
        Rule(
            "!has(self.queuedSeconds) || !has(self.runSeconds) || self.queuedSeconds <= self.runSeconds",
            "must not be greater than runSeconds",
            ".queuedSeconds",
        ),
        Rule(
            "!has(self.stallSeconds) || !has(self.runSeconds) || self.stallSeconds <= self.runSeconds",
            "must not be greater than runSeconds",
            ".stallSeconds",
        ),
        Rule(
            "!has(self.trialSeconds) || !has(self.totalSeconds) || self.trialSeconds <= self.totalSeconds",
            "must not be greater than totalSeconds",
            ".trialSeconds",
        ),
        Rule(
            "!has(self.startupSeconds) || !has(self.runSeconds) || self.startupSeconds <= self.runSeconds",
            "must not be greater than runSeconds",
            ".startupSeconds",
        ),
        Rule(
            "!has(self.runSeconds) || !has(self.totalSeconds) || self.runSeconds <= self.totalSeconds",
            "must not be greater than totalSeconds",
            ".runSeconds",
        ),
    )


class Budget(ApiModel):
    """What all attempts together may use, counted from when a pod runs on a node until it has ended."""

    gpu_hours: float | None = Field(
        default=None, ge=0.01, le=10_000_000, description="GPU-hours, idle ones included. May be changed while running."
    )
    cpu_hours: float | None = Field(
        default=None,
        ge=0.01,
        le=100_000_000,
        description="CPU-hours of all pods, the head included: for sweeps without GPUs. May be changed while running.",
    )


class Cleanup(ApiModel):
    """How long things are kept and how long an end may take."""

    ray_job_ttl_seconds: Seconds = Field(
        default=86400,
        alias="rayJobTTLSeconds",
        description="How long the RayJob object is kept after its cluster is gone.",
    )
    hold_seconds: int = Field(
        default=900,
        ge=10,
        le=86400,
        description="How long a finished cluster stays for a late second look; at least verify.timeoutSeconds.",
    )
    max_hold_seconds: int = Field(
        default=3600, ge=10, le=604_800, description="How long that may be extended while the store cannot be read."
    )
    deletion_grace_seconds: int = Field(
        default=600, ge=0, le=86400, description="How long a deletion waits for the settlement of a running attempt."
    )
    stop_grace_seconds: int = Field(
        default=30, ge=0, le=3600, description="How long loops may go on to their next report once a stop is asked for."
    )

    rules: ClassVar = (
        Rule(
            "!has(self.holdSeconds) || !has(self.maxHoldSeconds) || self.holdSeconds <= self.maxHoldSeconds",
            "must not be greater than maxHoldSeconds",
            ".holdSeconds",
        ),
    )


class TrainSweepSpec(ApiModel):
    """A sweep: what is searched, what runs, where, and what must be proven before its cluster goes."""

    class_name: str = Field(
        default="",
        max_length=63,
        pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$",
        description="TrainSweepClass with defaults and ceilings; absent: the class marked default, if there is one.",
    )
    run_key: str = Field(
        default="",
        max_length=63,
        pattern=r"^[A-Za-z0-9_.-]*$",
        description="Any other string starts a new run of the same sweep.",
    )
    suspend: bool = Field(
        default=False,
        description="Stops the running attempt gracefully, settles it and releases its cluster; false again: the next "
        "attempt goes on, without a retry. Leave it out of files in Git, or the sync undoes what a person did.",
    )
    objective: Objective = Field(description="What is optimised.")
    search: Search = Field(description="The search space and how it is searched.")
    trials: Trials = Field(default_factory=Trials, description="How many trials, and when one ends.")
    training: Training = Field(description="What one trial runs.")
    cluster: Cluster = Field(default_factory=Cluster, description="The Ray cluster of an attempt; absent: derived.")
    scheduling: Scheduling = Field(default_factory=Scheduling, description="How the pods are queued and protected.")
    storage: Storage = Field(
        default_factory=Storage, description="Where checkpoints and results go; absent: as the class says."
    )
    checkpoints: Checkpoints = Field(
        default_factory=Checkpoints, description="What is owed, how it is proven, what is kept."
    )
    failure_policy: FailurePolicy = Field(default_factory=FailurePolicy, description="Retries, finite by default.")
    deadlines: Deadlines = Field(default_factory=Deadlines, description="Limits in time.")
    budget: Budget = Field(default_factory=Budget, description="Limits in use.")
    tracking: Tracking | None = Field(
        default=None, description="Trackers that follow the trials besides the run's own report."
    )
    cleanup: Cleanup = Field(default_factory=Cleanup, description="How long things are kept.")

    rules: ClassVar = (
        Rule(
            "has(self.search.algorithm.grid) || (has(self.trials) && has(self.trials.count))",
            "is required unless the algorithm is grid",
            ".trials.count",
            "FieldValueRequired",
        ),
        Rule(
            "!has(self.cleanup) || !has(self.cleanup.holdSeconds) || self.cleanup.holdSeconds >= "
            "(has(self.checkpoints) && has(self.checkpoints.verify) && has(self.checkpoints.verify.timeoutSeconds) ? "
            "self.checkpoints.verify.timeoutSeconds : 600)",
            "must be at least checkpoints.verify.timeoutSeconds (600 when absent)",
            ".cleanup.holdSeconds",
        ),
        *(
            _only_up(name, default)
            for name, default in (("application", 1), ("infrastructure", 3), ("eviction", 10), ("startup", 1))
        ),
        immutable("objective", "set another spec.runKey in a new sweep, or create the sweep under another name"),
        immutable("search", "create a sweep under another name for another search space"),
        Rule(
            # Lists of type map are equal in any order; the order of parameters is the order of a grid's points.
            "self.search.parameters.map(p, p.name) == oldSelf.search.parameters.map(p, p.name)",
            "is immutable: put the parameters back into their order",
            ".search.parameters",
            "FieldValueForbidden",
        ),
        immutable("trials", "create a sweep under another name; the number of trials and their concurrency are fixed"),
        immutable("runKey", "delete the sweep and create it again with the new runKey"),
        immutable("className", "delete the sweep and create it again with the other class"),
        immutable("storage", "delete the sweep and create it again with the other storage"),
        immutable("checkpoints", "delete the sweep and create it again"),
        immutable("training.entrypoint", "create a sweep under another name; training.image may be changed"),
        immutable("training.config", "create a sweep under another name; training.image may be changed"),
    )
