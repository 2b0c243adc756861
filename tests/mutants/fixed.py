"""The faults that must never come in unseen: each is a small patch, and the simulation has to find every one.

Not in the list are preconditions that only repeat what stands beside them: the uid on a pod's control annotation (a pod's
name is never given twice), and the uid on a change of a RayJob, which is read and compared just before.
"""

from __future__ import annotations

from dataclasses import dataclass

CORE = "operator/trainsweep/core"
RUNTIME = "operator/trainsweep/runtime"


@dataclass(frozen=True)
class Mutant:
    """One fault. `old` must stand exactly once in the file."""

    name: str
    file: str
    old: str
    new: str


# ---------------------------------------------------------------------------------------------------- write-ahead order

ORDER = (
    Mutant(
        "the finalizer after the status",
        f"{CORE}/launch.py",
        "draft.ahead.append(AddFinalizer())\n    _post",
        "draft.after.append(AddFinalizer())\n    _post",
    ),
    Mutant(
        "the finalizer after the RayJob",
        f"{CORE}/launch.py",
        "        draft.ahead.append(AddFinalizer())\n    _post(draft, body, attempt)",
        "        pass\n    _post(draft, body, attempt)\n    draft.after.append(AddFinalizer())",
    ),
    Mutant(
        "the hold before the status",
        f"{CORE}/launch.py",
        "draft.after += [EnsureHold(hold, attempt.number), CreateRayJob(body, hold)]",
        "draft.ahead.append(EnsureHold(hold, attempt.number))\n    draft.after.append(CreateRayJob(body, hold))",
    ),
    Mutant(
        "the RayJob before the hold",
        f"{CORE}/launch.py",
        "[EnsureHold(hold, attempt.number), CreateRayJob(body, hold)]",
        "[CreateRayJob(body, hold), EnsureHold(hold, attempt.number)]",
    ),
    Mutant(
        "the RayJob before the status",
        f"{CORE}/launch.py",
        "draft.after += [EnsureHold(hold, attempt.number), CreateRayJob(body, hold)]",
        "draft.ahead += [EnsureHold(hold, attempt.number), CreateRayJob(body, hold)]",
    ),
    Mutant(
        "the events before everything else",
        f"{CORE}/draft.py",
        "Plan((*actions, *(self.events if write else [])), self.wake_at)",
        "Plan((*(self.events if write else []), *actions), self.wake_at)",
    ),
    Mutant(
        "the release before the status that says so",
        f"{CORE}/draft.py",
        "[*self.ahead, *([WriteStatus(self.status)] if write else []), *self.after]",
        "[*self.ahead, *self.after, *([WriteStatus(self.status)] if write else [])]",
    ),
    Mutant(
        "the relaunch before its retry is booked",
        f"{CORE}/conclude.py",
        "draft.set(retries=booked, deadlines=",
        "draft.set(deadlines=",
    ),
)

# ---------------------------------------------------------------------------------------------------- preconditions

PRECONDITIONS = (
    Mutant(
        "the finalizers without a resourceVersion",
        f"{RUNTIME}/apply.py",
        '{"metadata": {"uid": self._sweep.uid, "resourceVersion": self._version, "finalizers": wanted}}',
        '{"metadata": {"finalizers": wanted}}',
    ),
    Mutant(
        "the status on whatever version is there",
        f"{RUNTIME}/apply.py",
        '"resourceVersion": self._version,\n',
        '"resourceVersion": mapping((await self._kube.get(SWEEP, self._sweep.name)).get("metadata")).get("resourceVersion"),\n',
    ),
    Mutant(
        "the hold's reference on whatever version is there",
        f"{RUNTIME}/apply.py",
        '                "uid": meta.get("uid"),\n                "resourceVersion": meta.get("resourceVersion"),\n',
        "",
    ),
    Mutant(
        "the RayJob is deleted whoever made it",
        f"{RUNTIME}/apply.py",
        "await self._kube.delete(kind, name, self._sweep.namespace, uid=uid)",
        "await self._kube.delete(kind, name, self._sweep.namespace)",
    ),
)

# ---------------------------------------------------------------------------------------------------- budgets

BUDGETS = (
    Mutant("one retry too many", f"{CORE}/retries.py", "counter.used >= counter.limit", "counter.used > counter.limit"),
    Mutant(
        "one retry too few", f"{CORE}/retries.py", "counter.used >= counter.limit", "counter.used + 1 >= counter.limit"
    ),
    Mutant("two retries booked", f"{CORE}/retries.py", '{"used": counter.used + 1}', '{"used": counter.used + 2}'),
)

# ---------------------------------------------------------------------------------------------------- what holds always

GUARDS = (
    Mutant(
        "no terminal latch",
        f"{CORE}/decide.py",
        "    if is_true(draft.status, Condition.FINISHED):\n        _housekeeping(draft, spec)\n        return",
        "    if False:\n        _housekeeping(draft, spec)\n        return",
    ),
    Mutant(
        "pods need not be gone",
        f"{CORE}/release.py",
        "if not (pods == () and hold is None and",
        "if not (hold is None and",
    ),
    Mutant(
        "the label with the sweep's uid is not looked at",
        f"{CORE}/sight.py",
        "    if job.sweep_uid != draft.observed.sweep.uid:\n        return True\n",
        "",
    ),
    Mutant(
        "whoever made it, it is released",
        f"{CORE}/release.py",
        "mine = job if job is not None and job.sweep_uid == draft.observed.sweep.uid else None",
        "mine = job",
    ),
    Mutant(
        "an unknown proof is told as missing",
        f"{CORE}/verification.py",
        "settlement.proof not in (Proof.PERSISTED, Proof.MISSING)",
        "settlement.proof not in (Proof.PERSISTED, Proof.MISSING, Proof.UNKNOWN)",
    ),
    Mutant(
        "an unknown proof decides",
        f"{CORE}/settle.py",
        "return found.proof is Proof.UNKNOWN or (",
        "return (",
    ),
    Mutant(
        "what cannot be read is not there",
        f"{RUNTIME}/observe.py",
        "        except NotFound:\n            return None\n        except KubeError as error:\n"
        "            return _unreadable(kind, error)\n",
        "        except KubeError:\n            return None\n",
    ),
    Mutant(
        "a stop is handed on to the next attempt",
        f"{CORE}/launch.py",
        "        started_at=to_text(started),\n        gpu_seconds_before",
        "        started_at=to_text(started),\n"
        '        stop_reason=draft.status.attempts[-1].stop_reason if draft.status.attempts else "",\n'
        "        stop_at=draft.status.attempts[-1].stop_at if draft.status.attempts else None,\n"
        "        gpu_seconds_before",
    ),
    Mutant(
        "a hold that is gone is not made again",
        f"{CORE}/running.py",
        "    if isinstance(hold, Unreadable) or seen.deleting:\n        return\n",
        "    return\n",
    ),
    Mutant(
        "a failed settlement releases a last attempt",
        f"{CORE}/settle.py",
        "if found is not None and decided and _last_word_known(draft, found):",
        "if found is not None and _last_word_known(draft, found):",
    ),
)

MUTANTS = (*ORDER, *PRECONDITIONS, *BUDGETS, *GUARDS)
