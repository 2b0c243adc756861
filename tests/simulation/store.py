"""The store double: what the drivers of one run have left, and what a second look at it finds."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from trainsweep.contract.documents import Best, End, MissingFile, Outcome, Progress, TrialCounts
from trainsweep.contract.layout import parse_attempt_id
from trainsweep.core.model import Proof, Settlement

TRIALS = 4
MISSING = MissingFile(trial="t0", checkpoint="train/t0-x/checkpoint_000001", file="model.pt", problem="Absent")
BEST = Best(trial="t0", value=0.5, step=1, parameters={"lr": 0.01}, checkpoint="train/t0-x/checkpoint_000001")


@dataclass
class Receipt:
    """One receipt, the newest of its attempt."""

    digest: str
    outcome: Outcome
    reason: str = ""
    forged: bool = False


@dataclass
class Store:
    """One run."""

    progress: Progress | None = None
    receipts: dict[str, Receipt] = field(default_factory=dict)
    ends: dict[str, End] = field(default_factory=dict)
    started: dict[str, float] = field(default_factory=dict)
    """Attempts with a start marker, and when it was written by the store's own clock."""
    writers: set[str] = field(default_factory=set)
    """Sweeps, by the end of their uid, that have recorded something of a trial."""
    done: int = 0
    committed: bool = False
    damaged: bool = False
    unreadable_until: float = 0.0
    written_at: float = 0.0
    sequence: int = 0
    losses: set[tuple[str, str]] = field(default_factory=set)
    """(attempt, digest) for which a look has truly found something missing."""
    proofs: set[tuple[str, str]] = field(default_factory=set)
    """(attempt, digest) for which a look has truly found everything."""

    def readable(self, now: float) -> bool:
        return now >= self.unreadable_until

    def fences(self, own: str) -> bool:
        """Whether a newer attempt has started: of one sweep the higher number, of two the later marker."""
        number, sweep = parse_attempt_id(own) or (0, "")
        return any(
            other[0] > number if other[1] == sweep else at > self.started.get(own, float("inf"))
            for name, at in self.started.items()
            if name != own and (other := parse_attempt_id(name) or (0, ""))
        )

    def adopted(self, own: str) -> bool:
        """Whether all that is recorded was recorded by other sweeps of this name."""
        return bool(self.writers) and own[-8:] not in self.writers

    def counts(self, running: int = 0) -> TrialCounts:
        left = TRIALS - self.done
        return TrialCounts(
            expected=TRIALS, succeeded=self.done, running=min(running, left), pending=max(0, left - running)
        )

    def write_receipt(
        self, attempt: str, outcome: Outcome, now: float, *, reason: str = "", forged: bool = False
    ) -> str:
        self.sequence += 1
        digest = hashlib.sha256(f"{attempt}/{self.sequence}".encode()).hexdigest()
        self.receipts[attempt] = Receipt(digest, outcome, reason, forged)
        self.written_at = now
        return digest

    def look(
        self, attempt: str, digest: str, inventory: bool, now: float, writing: bool, throttled: bool
    ) -> Settlement:
        """What a look that ends now says. `writing`: a driver of the run is alive. `throttled`: a request was turned away."""
        receipt = self.receipts.get(attempt)
        source = "Receipt" if receipt or not inventory else "Inventory"
        base = Settlement(attempt, source, digest or (receipt.digest if receipt else ""), Proof.UNKNOWN, made_at=now)
        if throttled or not self.readable(now):
            return _as(base, Proof.UNKNOWN, message="503 Slow Down")
        if receipt is None:
            if not inventory:
                return _as(base, Proof.INVALID, message="there is no receipt")
            if writing:
                return _as(base, Proof.UNKNOWN, message="the run is still being written to")
        elif digest and digest != receipt.digest:
            return _as(base, Proof.UNKNOWN, message="the receipt has another digest")
        elif receipt.forged:
            return _as(base, Proof.INVALID, message="the receipt's attemptId is another")
        base = _as(
            base,
            Proof.PERSISTED,
            outcome=receipt.outcome if receipt else None,
            outcome_reason=receipt.reason if receipt else "",
            receipt_uri=f"s3://bucket/team/attempts/{attempt}/receipt.json" if receipt else "",
            trials=self.counts(),
            best=BEST if self.committed else None,
        )
        if self.committed and self.damaged:
            self.losses.add((attempt, base.digest))
            return _as(base, Proof.MISSING, required=1, missing=(MISSING,), message="1 owed file")
        self.proofs.add((attempt, base.digest))
        owed = int(self.committed)
        return _as(base, Proof.PERSISTED, required=owed, verified=owed, files=3 * owed, bytes=3000 * owed)


def _as(base: Settlement, proof: Proof, **changes: object) -> Settlement:
    return Settlement(**{**base.__dict__, "proof": proof, **changes})
