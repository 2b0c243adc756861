"""`TrainSweep.status`: bounded, without per-trial data; numbers that users chose or measured are strings here."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from trainsweep.api.base import ApiModel, FreeForm, free_form, schema

Time = Annotated[str, Field(max_length=32, json_schema_extra=schema(format="date-time"))]
Short = Annotated[str, Field(max_length=256)]
Message = Annotated[str, Field(max_length=2048)]
Count = Annotated[int, Field(ge=0)]


class StatusModel(ApiModel):
    """Base of status models: a field of a newer version must not break an older operator."""

    model_config = ConfigDict(**{**ApiModel.model_config, "extra": "ignore"})


class ConditionStatus(StatusModel):
    """A condition, shaped as metav1.Condition."""

    type: str = Field(max_length=316, description="Type of the condition.")
    status: Literal["True", "False", "Unknown"] = Field(description="True, False or Unknown.")
    observed_generation: int | None = Field(default=None, ge=0, description="Generation of the spec that it speaks of.")
    last_transition_time: Time = Field(description="When its status last changed.")
    reason: str = Field(min_length=1, max_length=1024, description="Reason, one word in CamelCase.")
    message: str = Field(default="", max_length=2048, description="What it means and what to do next.")


class AttemptStatus(StatusModel):
    """One attempt: a RayJob, and how it ended."""

    number: int = Field(ge=1, le=999, description="Number of the attempt, from 1.")
    ray_job: Short = Field(description="Name of its RayJob.")
    ray_job_uid: str = Field(default="", alias="rayJobUID", max_length=64, description="Its uid, once it was seen.")
    started_at: Time | None = Field(default=None, description="When it was recorded, before its RayJob was created.")
    ready_at: Time | None = Field(default=None, description="When its head was first ready.")
    placed_at: Time | None = Field(default=None, description="When its head and a first worker ran.")
    first_report_at: Time | None = Field(default=None, description="When its first trial reported.")
    ended_at: Time | None = Field(default=None, description="When its end was seen.")
    settled_at: Time | None = Field(default=None, description="When its settlement was taken.")
    end_class: str = Field(
        default="",
        max_length=32,
        description="Class of its end: Success, Application, Infrastructure, Eviction, Startup, Deadline, Budget, "
        "Suspended or Unknown.",
    )
    reason: Short = Field(default="", description="Reason of its end.")
    message: Message = Field(default="", description="What happened.")
    stop_reason: Short = Field(default="", description="Why it was asked to stop, if it was.")
    stop_at: Time | None = Field(default=None, description="When it was asked to stop.")
    released_at: Time | None = Field(default=None, description="When its cluster was released.")
    gone_at: Time | None = Field(default=None, description="When its last pod was gone.")
    spec_digest: str = Field(default="", max_length=64, description="Digest of the RayJob that was rendered for it.")
    gpu_seconds_before: Count = Field(default=0, description="GPU-seconds that earlier attempts had used.")
    cpu_seconds_before: Count = Field(default=0, description="CPU-seconds that earlier attempts had used.")


class RetryStatus(StatusModel):
    """Attempts used up by one class of end."""

    used: Count = Field(default=0, description="Attempts booked to this class.")
    limit: Count = Field(default=0, description="Its limit.")


class RetriesStatus(StatusModel):
    """Attempts used up, by class."""

    application: RetryStatus = Field(default_factory=RetryStatus, description="The training or the driver failed.")
    infrastructure: RetryStatus = Field(
        default_factory=RetryStatus, description="A node, the head or the store was lost."
    )
    eviction: RetryStatus = Field(default_factory=RetryStatus, description="The cluster was taken.")
    startup: RetryStatus = Field(default_factory=RetryStatus, description="The cluster did not start in time.")


class TrialsStatus(StatusModel):
    """Trials by state."""

    expected: Count = Field(default=0, description="Trials that the spec asks for.")
    succeeded: Count = Field(default=0, description="Ended by themselves.")
    early_stopped: Count = Field(default=0, description="Ended by early stopping.")
    failed: Count = Field(default=0, description="Failed for good.")
    running: Count = Field(default=0, description="Running now.")
    pending: Count = Field(default=0, description="Not started yet.")
    summary: Short = Field(default="", description="Finished and expected trials, such as 12/40.")


class BestStatus(StatusModel):
    """The best committed report."""

    trial: Short = Field(description="Trial.")
    value: Short = Field(description="Value of the objective.")
    step: Count = Field(default=0, description="Epoch of the report.")
    parameters: dict[str, Annotated[str, Field(max_length=256)]] = Field(
        default_factory=dict, max_length=64, description="Its parameters, as text."
    )
    checkpoint_uri: str = Field(
        default="", alias="checkpointURI", max_length=2048, description="Where its checkpoint lies."
    )


class CheckpointsStatus(StatusModel):
    """What was owed and what was proven."""

    source: Literal["", "Receipt", "Inventory"] = Field(default="", description="Where the owed set comes from.")
    required: Count = Field(default=0, description="Owed checkpoints.")
    verified: Count = Field(default=0, description="Proven ones.")
    missing: list[Message] = Field(
        default_factory=list, max_length=16, description="Files that are missing or wrong, the first 16."
    )
    bytes: Count = Field(default=0, description="Bytes of the proven checkpoints.")
    files: Count = Field(default=0, description="Files of the proven checkpoints.")
    receipt_uri: str = Field(default="", alias="receiptURI", max_length=2048, description="The driver's receipt.")
    receipt_digest: str = Field(default="", max_length=64, description="SHA-256 of the receipt.")
    outcome: str = Field(
        default="", max_length=32, description="How the training ended as the receipt says, such as Completed."
    )
    verified_at: Time | None = Field(default=None, description="When the owed set was proven.")
    export_uri: str = Field(
        default="",
        alias="exportURI",
        max_length=2048,
        description="Where the copy of the best checkpoint lies, once it is proven too.",
    )


class PendingStatus(StatusModel):
    """Why it waits: the lowest layer that is not satisfied."""

    layer: Short = Field(description="Layer, such as Placement or Image.")
    reason: Short = Field(description="Reason, one word.")
    message: Message = Field(description="The layer's own words and what to do.")
    since: Time | None = Field(default=None, description="Since when.")


class ProgressStatus(StatusModel):
    """The driver's last heartbeat that was read."""

    phase: Short = Field(default="", description="What the driver does.")
    heartbeat_at: Time | None = Field(default=None, description="When it was written.")
    eta_seconds: Count | None = Field(default=None, description="Estimated seconds to the end of the last trial.")
    message: Message = Field(default="", description="The driver's words.")


class UsageStatus(StatusModel):
    """What the pods of all attempts have used."""

    gpu_seconds: Count = Field(default=0, description="GPU-seconds, from when a pod ran on a node until it ended.")
    cpu_seconds: Count = Field(default=0, description="CPU-seconds; a pod's requests are rounded up to whole CPUs.")
    gpus: Count = Field(default=0, description="GPUs held when it was last counted.")
    cpus: Count = Field(default=0, description="CPUs held when it was last counted.")
    counted_until: Time | None = Field(default=None, description="Until when it is counted.")


class DeadlinesStatus(StatusModel):
    """Deadlines as absolute times."""

    queued: Time | None = Field(default=None, description="Head and a first worker of the running attempt due.")
    startup: Time | None = Field(default=None, description="First report of the running attempt due.")
    stall: Time | None = Field(default=None, description="Next report or heartbeat of the running attempt due.")
    run: Time | None = Field(default=None, description="End of the running attempt.")
    total: Time | None = Field(default=None, description="End of the sweep.")
    not_after: Time | None = Field(default=None, description="End of the sweep, as spec.deadlines.notAfter says.")
    hold: Time | None = Field(default=None, description="End of the hold for a late second look.")
    deletion: Time | None = Field(default=None, description="End of the grace of a deletion.")
    retry: Time | None = Field(default=None, description="Next attempt not before.")


class LineStatus(StatusModel):
    """The place in the line for the GPUs of the class."""

    ticket: Count = Field(default=0, description="Number drawn; lower ones are served first.")
    gpus: Count = Field(default=0, description="GPUs that it asks for, or holds.")
    holds: bool = Field(default=False, description="Whether it holds them.")


class GrantStatus(StatusModel):
    """What of its class a run needs to be proven and released, for when the class is gone. No attempt starts from it."""

    allowed_prefixes: list[Annotated[str, Field(min_length=1, max_length=512)]] = Field(
        default_factory=list, max_length=2, description="The class's prefixes below which the run and its export lie."
    )
    endpoint: str = Field(default="", max_length=512, description="The endpoint in use, as the class allowed it.")
    verifier_role_arn: str = Field(
        default="", alias="verifierRoleARN", max_length=612, description="Role that the operator assumes to read."
    )
    total_seconds: Count | None = Field(default=None, description="The class's ceiling on deadlines.totalSeconds.")
    gpu_hours: Short = Field(default="", description="The class's ceiling on GPU-hours.")
    defaults: FreeForm = free_form("The class's defaults that say what is owed and how an attempt is ended.", 8)


class ResolvedStatus(StatusModel):
    """The class as it was at the first launch."""

    class_name: Short = Field(default="", description="Name of the class.")
    class_uid: Short = Field(default="", description="Its uid.")
    class_generation: Count = Field(default=0, description="Its generation.")
    storage_uri: str = Field(default="", alias="storageURI", max_length=2048, description="The run's prefix.")
    max_replicas: Count = Field(default=0, description="Worker pods at most, over all groups.")
    granted: GrantStatus | None = Field(
        default=None, description="What the class gives to the run, as last seen; read only where the class is gone."
    )
    notes: list[Short] = Field(
        default_factory=list, max_length=16, description="What a ceiling cut, and what was derived."
    )


class TrainSweepStatus(StatusModel):
    """Observed state."""

    observed_generation: int = Field(
        default=-1, ge=-1, description="Generation of the spec that this status speaks of."
    )
    conditions: list[ConditionStatus] = Field(
        default_factory=list,
        max_length=16,
        description="Finished, Succeeded, Ready, Admitted, ClusterReady, TrialsFinished, CheckpointsVerified, Released "
        "and others.",
        json_schema_extra=schema(**{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
    )
    run: str = Field(default="", max_length=32, description="Name of the run, frozen at the first launch.")
    run_uri: str = Field(default="", alias="runURI", max_length=2048, description="Where the run lies.")
    started_at: Time | None = Field(default=None, description="First launch.")
    finished_at: Time | None = Field(default=None, description="When it became terminal.")
    attempt: Count = Field(default=0, description="Number of the newest attempt.")
    attempts: list[AttemptStatus] = Field(
        default_factory=list,
        max_length=20,
        description="The newest attempts.",
        json_schema_extra=schema(**{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["number"]}),
    )
    retries: RetriesStatus = Field(default_factory=RetriesStatus, description="Attempts used up, by class.")
    trials: TrialsStatus = Field(default_factory=TrialsStatus, description="Trials by state.")
    best: BestStatus | None = Field(default=None, description="The best committed report.")
    checkpoints: CheckpointsStatus = Field(default_factory=CheckpointsStatus, description="What was owed and proven.")
    line: LineStatus | None = Field(default=None, description="Its place in the line of its class.")
    pending: PendingStatus | None = Field(default=None, description="Why it waits.")
    progress: ProgressStatus = Field(default_factory=ProgressStatus, description="The driver's last heartbeat.")
    usage: UsageStatus = Field(default_factory=UsageStatus, description="What all attempts have used.")
    deadlines: DeadlinesStatus = Field(default_factory=DeadlinesStatus, description="Deadlines as absolute times.")
    resolved: ResolvedStatus = Field(
        default_factory=ResolvedStatus, description="What was resolved at the first launch."
    )
