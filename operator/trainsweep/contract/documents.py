"""The documents of the contract, as typed models: sweep file, control, progress, start marker, receipt and end.

Everything that comes from storage is hostile until it passed one of these models: bounded strings and lists, finite
numbers, keys that cannot leave the run's prefix.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from trainsweep.contract import CONTRACT_VERSION
from trainsweep.contract.layout import relative_key


class Document(BaseModel):
    """Base of all documents: camelCase on the wire, unknown fields ignored (a newer writer may add some)."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")

    def to_json(self) -> bytes:
        """UTF-8 JSON without absent fields."""
        return self.model_dump_json(by_alias=True, exclude_none=True).encode()


Key = Annotated[str, AfterValidator(relative_key)]
"""A key relative to the run's prefix."""
Name = Annotated[str, Field(min_length=1, max_length=63)]
TrialId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
Text = Annotated[str, Field(max_length=1024)]
Number = Annotated[float, Field(allow_inf_nan=False)]
AttemptId = Annotated[str, Field(pattern=r"^\d{1,3}-[0-9a-f]{8}$")]
Parameter = bool | int | float | Annotated[str, Field(max_length=1024)] | None
Parameters = Annotated[dict[str, Parameter], Field(max_length=64)]


class Outcome(StrEnum):
    """How the driver says that an attempt ended. `Completed` and `GoalReached` can become success."""

    COMPLETED = "Completed"
    GOAL_REACHED = "GoalReached"
    MAX_FAILED_TRIALS = "MaxFailedTrials"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    BUDGET_EXCEEDED = "BudgetExceeded"
    STOPPED = "Stopped"  # asked to stop: deletion, suspension, SIGTERM; the sweep can go on from here
    FAILED = "Failed"  # the driver could not do its work; `reason` says why


class FailureReason(StrEnum):
    """Why a driver failed. The operator maps each to a class of end and to whether a retry can help."""

    BAD_ENTRYPOINT = "BadEntrypoint"  # permanent
    STORAGE_DENIED = "StorageDenied"  # permanent
    STORAGE_UNAVAILABLE = "StorageUnavailable"
    INVALID_SWEEP = "InvalidSweep"  # permanent
    INCOMPATIBLE = "Incompatible"  # permanent: contract or Ray version
    FENCED = "Fenced"  # a newer attempt has started
    NO_TRIAL_SUCCEEDED = "NoTrialSucceeded"
    CHECKPOINTS_LOST = "CheckpointsLost"
    INTERNAL = "InternalError"


class SweepRef(Document):
    """Which sweep, under which run."""

    namespace: Name
    name: Name
    uid: Annotated[str, Field(min_length=1, max_length=64)]
    run: Annotated[str, Field(pattern=r"^v1-[0-9a-f]{16}$")]


class StoreRef(Document):
    """Where the run's prefix lies and how to reach it. Credentials come from the environment, never from here."""

    uri: Annotated[str, Field(max_length=1024)]
    """Normal form of the run's prefix, `s3://bucket/...` or `file:///...`."""
    region: str | None = None
    endpoint_url: str | None = Field(default=None, alias="endpointURL")


class Limits(Document):
    """Limits that the driver keeps itself, before the operator does. Absent: there is none."""

    deadline_at: Number | None = None
    """Unix seconds at which the driver must have ended well by itself."""
    stall_seconds: Annotated[int, Field(ge=1)] | None = None
    """How long no trial may report."""
    trial_seconds: Annotated[int, Field(ge=1)] | None = None
    """How long one trial may hold its workers, over all attempts."""
    gpu_seconds: Annotated[int, Field(ge=0)] | None = None
    """GPU-seconds that were left to the sweep when this attempt began."""
    cpu_seconds: Annotated[int, Field(ge=0)] | None = None


class SweepFile(Document):
    """`sweep.json`: all that a driver needs to know; rendered into an annotation of the head pod (cluster) or a file (laptop).

    `spec` is the resolved spec (class defaults and inline defaults filled in) as `trainsweep.api.spec.TrainSweepSpec`.
    """

    contract_version: int = CONTRACT_VERSION
    sweep: SweepRef
    attempt: Annotated[int, Field(ge=1, le=999)]
    attempt_id: AttemptId
    store: StoreRef
    spec: dict[str, Any]
    deadline_at: float | None = None
    """As `limits.deadline_at`; for drivers that know no `limits`."""
    limits: Limits = Limits()
    """Limits as they are at the start; the control document may replace them."""
    export_uri: Annotated[str, Field(max_length=1024)] | None = None
    """Where the best proven checkpoint is copied: `<export.uri>/<namespace>/<name>/<run>`, reached as `store` is."""
    trial_resource: str | None = "trial_slot"
    """Ray resource that trial drivers hold on the head; None on a laptop (they then take no CPU)."""


class StopRequest(Document):
    """Why and how fast to stop. A stop belongs to one attempt: a stale one never reaches the next driver."""

    reason: Annotated[str, Field(max_length=64)]
    grace_seconds: Annotated[int, Field(ge=0, le=86400)] = 30


class MissingFile(Document):
    """One owed file that the second look did not find as the receipt says."""

    trial: TrialId
    checkpoint: Key
    file: Key
    problem: Literal["Absent", "WrongSize", "WrongChecksum"]


class Verdict(Document):
    """The operator's answer to one receipt, bound to it by its digest."""

    receipt_digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    result: Literal["Persisted", "Missing"]
    missing: Annotated[list[MissingFile], Field(max_length=16)] = []


class Control(Document):
    """The annotation `trainsweep.io/control` on the head pod, seen by the driver as a file."""

    contract_version: int = CONTRACT_VERSION
    attempt_id: AttemptId
    stop: StopRequest | None = None
    verdict: Verdict | None = None
    limits: Limits | None = None
    """Replace those of the sweep file as a whole; absent: an operator that does not say."""


class Phase(StrEnum):
    """What the driver is doing."""

    STARTING = "Starting"
    RUNNING = "Running"
    STOPPING = "Stopping"
    SETTLING = "Settling"
    WAITING_FOR_VERDICT = "WaitingForVerdict"
    EXPORTING = "Exporting"
    MENDING = "Mending"
    ENDED = "Ended"


class TrialCounts(Document):
    """Trials by state. `expected` comes from the spec, never from what Tune happened to start."""

    expected: Annotated[int, Field(ge=0, le=100_000)] = 0
    succeeded: Annotated[int, Field(ge=0)] = 0
    early_stopped: Annotated[int, Field(ge=0)] = 0
    failed: Annotated[int, Field(ge=0)] = 0
    running: Annotated[int, Field(ge=0)] = 0
    pending: Annotated[int, Field(ge=0)] = 0


class Best(Document):
    """The best committed report so far."""

    trial: TrialId
    value: Number
    step: Annotated[int, Field(ge=0)]
    """The reported, 1-based `epoch`."""
    parameters: Parameters = {}
    checkpoint: Key | None = None


MAX_RUNNING = 16


class RunningTrial(Document):
    """A trial that runs now, as far as it has reported."""

    trial: TrialId
    step: Annotated[int, Field(ge=0)] = 0
    value: Number | None = None


class Progress(Document):
    """`progress.json`, at most 4 KiB, rewritten with every heartbeat."""

    contract_version: int = CONTRACT_VERSION
    attempt_id: AttemptId
    phase: Phase
    heartbeat_at: Number
    """Unix seconds, by the driver's clock."""
    first_report_at: Number | None = None
    """Unix seconds of the first report of any trial in this attempt: ends the startup deadline."""
    last_step_at: Number | None = None
    """Unix seconds of the last report or start of any trial: what a stall is counted from."""
    trials: TrialCounts
    best: Best | None = None
    running: Annotated[list[RunningTrial], Field(max_length=MAX_RUNNING)] = []
    """Trials that run now, in the order of their indices; of very many only the first."""
    eta_seconds: Number | None = None
    message: Text = ""
    receipt_digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Digest of the receipt that waits for a verdict."""


class Start(Document):
    """`attempts/<id>/start.json`, write-once: the fence, and a record of what this attempt ran with."""

    contract_version: int = CONTRACT_VERSION
    attempt_id: AttemptId
    attempt: Annotated[int, Field(ge=1, le=999)]
    sweep_uid: str
    started_at: Number
    versions: dict[str, str] = {}
    image: str = ""


class Checksum(Document):
    """A checksum as stores say it: base64 of the big-endian digest of the whole object.

    Any algorithm: one that a reader does not know is no fault of the document, it is compared where a store keeps it too.
    """

    algorithm: Annotated[str, Field(pattern=r"^[A-Z0-9]{2,16}$")]
    value: Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]{6,96}={0,2}$")]


class FileEntry(Document):
    """One file of a checkpoint: name relative to the checkpoint's directory, size in bytes, checksums over its bytes."""

    path: Key
    size: Annotated[int, Field(ge=0, le=5 * 2**40)]
    checksums: Annotated[list[Checksum], Field(max_length=12)] = []


class Manifest(Document):
    """`trainsweep-manifest.json` of one rank or of the whole checkpoint: written beside the files before they are uploaded."""

    contract_version: int = CONTRACT_VERSION
    config_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{10}$")]
    step: Annotated[int, Field(ge=0)]
    world_size: Annotated[int, Field(ge=1, le=100_000)] = 1
    files: Annotated[list[FileEntry], Field(max_length=10_000)]


class Owed(Document):
    """One owed checkpoint with every file that must be in the store."""

    trial: TrialId
    step: Annotated[int, Field(ge=0)]
    value: Number | None = None
    checkpoint: Key
    """Key of the checkpoint's directory."""
    files: Annotated[list[FileEntry], Field(min_length=1, max_length=10_000)]


class Receipt(Document):
    """`attempts/<id>/receipt.json` and, as pointer to the newest, `receipt.json`.

    A receipt is bound to its sweep and attempt; the operator derives the owed set anew and compares.
    """

    contract_version: int = CONTRACT_VERSION
    sweep: SweepRef
    attempt_id: AttemptId
    sequence: Annotated[int, Field(ge=1, le=999)] = 1
    """Grows with each receipt of an attempt: a mended one supersedes."""
    outcome: Outcome
    reason: Annotated[str, Field(max_length=64)] = ""
    message: Text = ""
    written_at: Number
    metric: Annotated[str, Field(max_length=256)]
    mode: Literal["Minimize", "Maximize"]
    trials: TrialCounts
    best: Best | None = None
    owed: Annotated[list[Owed], Field(max_length=10_000)] = []


class End(Document):
    """`attempts/<id>/end.json`: the driver's last word, written after the verdict or where there was nothing to settle."""

    contract_version: int = CONTRACT_VERSION
    attempt_id: AttemptId
    outcome: Outcome
    reason: Annotated[str, Field(max_length=64)] = ""
    message: Text = ""
    ended_at: Number
    verified: bool = False
    exit_code: int = 0


class ExportRecord(Document):
    """`attempts/<id>/export.json`, write-once, and `export.json` beside the copy, which is written after all its files."""

    contract_version: int = CONTRACT_VERSION
    attempt_id: AttemptId
    state: Literal["Copied", "Failed"]
    message: Text = ""
    source_uri: Annotated[str, Field(max_length=2048)]
    """The run's prefix."""
    export_uri: Annotated[str, Field(max_length=2048)]
    checkpoint: Key
    """Key of the checkpoint's directory, relative to the run."""
    folder: Key
    """The same of its copy, relative to the export's place."""
    trial: TrialId
    step: Annotated[int, Field(ge=0)]
    metric: Annotated[str, Field(max_length=256)]
    value: Number | None = None
    parameters: Parameters = {}
    exported_at: Number
    files: Annotated[list[FileEntry], Field(max_length=10_000)] = []


END_LINE = "trainsweep-end: "
"""Start of the driver's last line on standard error, before `LastWord` as JSON: KubeRay copies the tail of the log."""


class LastWord(Document):
    """What the driver says last, also where it could write nothing to the store."""

    outcome: Outcome
    reason: Annotated[str, Field(max_length=64)] = ""
    message: Text = ""


def last_word(log: str) -> LastWord | None:
    """The last word in the tail of a driver's log, None where there is none or it is no such document."""
    _, found, line = log.rpartition(END_LINE)
    if not found:
        return None
    try:
        return LastWord.model_validate_json(line.split("\n", 1)[0].strip())
    except ValueError:
        return None


MAX_HISTORY = 256
MAX_METRICS = 16


class TrialRecord(Document):
    """One line of `trials.jsonl`: the state of a trial at its last change; the last line of an index wins.

    Written as `Proposed` before the trial starts, so that no proposal is lost or drawn twice.
    """

    index: Annotated[int, Field(ge=0)]
    trial: TrialId
    state: Literal["Proposed", "Running", "Succeeded", "EarlyStopped", "Failed"]
    parameters: Parameters
    config_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{10}$")]
    step: Annotated[int, Field(ge=0)] = 0
    value: Number | None = None
    best_value: Number | None = None
    error: Text = ""
    attempt_id: AttemptId | None = None
    rungs: Annotated[dict[str, Number], Field(max_length=64)] = {}
    """Objective at each rung of early stopping that the trial has passed (epoch -> value): replayed to a later attempt."""
    improved: tuple[Annotated[int, Field(ge=0)], Number] | None = None
    """Epoch and objective of the last improvement that counts for `trials.stop.plateau`."""
    best_step: Annotated[int, Field(ge=0)] | None = None
    """Epoch of the best value."""
    metrics: Annotated[dict[Annotated[str, Field(max_length=128)], Number], Field(max_length=MAX_METRICS)] = {}
    """What else was reported with the best value, numbers only."""
    history: Annotated[list[tuple[int, Number]], Field(max_length=MAX_HISTORY)] = []
    """Epoch and objective of the reports, thinned out evenly where there are many: the learning curve."""
    started_at: Number | None = None
    """Unix seconds of the first start."""
    ended_at: Number | None = None
    """Unix seconds of the end; absent while the trial is unfinished."""
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """How long it held its workers, over all attempts and tries."""
    told: Annotated[int, Field(ge=0)] = 0
    """Results that the search knew when it proposed this."""
    order: Annotated[int, Field(ge=1)] | None = None
    """The how-many-th result that the search was told; absent while the trial is unfinished."""
    retries: Annotated[int, Field(ge=0)] = 0
    """Tries that failed and were repeated; `error` then tells of the last one."""


class Observed(Document):
    """A trial of another run, as something to learn from."""

    parameters: Parameters
    value: Number


class WarmStart(Document):
    """`warm-start.json`: what the search was given at its first attempt; later ones begin with the same."""

    contract_version: int = CONTRACT_VERSION
    run_uri: Annotated[str, Field(max_length=1024, alias="runURI")]
    observations: Annotated[list[Observed], Field(max_length=500)]


ADOPTED = "AdoptedFinishedRun"
"""Reason of a receipt whose run was finished by an earlier sweep: nothing was trained, all was proven again."""

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_PERMANENT = 3
"""A new attempt cannot help."""
EXIT_FENCED = 4
EXIT_STOPPED = 5
"""Stopped as asked, state saved."""
EXIT_NOT_VERIFIED = 6
"""The training ended well, but owed checkpoints are missing and could not be mended."""
