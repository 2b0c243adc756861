"""What GitOps tools compute from an object: Argo CD's Lua, kstatus, `kubectl wait`; each by its own rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lupa import lua51

FOLDER = Path(__file__).resolve().parents[3] / "manifests/argocd/trainsweep.io/TrainSweep"
HEALTH_CODES = ("Healthy", "Progressing", "Degraded", "Suspended")


def run_lua(script: str, obj: dict[str, Any]) -> Any:
    """Runs a script as Argo CD runs one from its ConfigMap: Lua 5.1 with base, table, package and time, nothing else."""
    lua = lua51.LuaRuntime(unpack_returned_tuples=True, register_eval=False, register_builtins=False)
    lua.execute(
        'debug.setmetatable("", nil); os = {date = os.date, time = os.time}; package.loaded.os = os;'
        "string, math, io, debug, coroutine, dofile, loadfile = nil"
    )
    lua.globals().obj = lua.table_from(obj, recursive=True)
    lua.globals().actionParams = lua.table()
    return plain(lua.execute(script))


def plain(value: Any) -> Any:
    """A Lua value as JSON would have it; an empty table is an array there, as in Argo CD."""
    if lua51.lua_type(value) != "table":
        return value
    keys = list(value)
    if keys == list(range(1, len(keys) + 1)):
        return [plain(value[key]) for key in keys]
    return {key: plain(value[key]) for key in keys}


def argo_health(obj: dict[str, Any], script: str = "health.lua") -> dict[str, str]:
    """Health as Argo CD shows it: its own look at the deletion comes before any script."""
    if "deletionTimestamp" in obj["metadata"]:
        return {"status": "Progressing", "message": "Pending deletion"}
    found = run_lua((FOLDER / script).read_text(encoding="utf-8"), obj)
    assert found["status"] in HEALTH_CODES, found
    return {"status": found["status"], "message": found.get("message", "")}


def action(name: str, obj: dict[str, Any]) -> Any:
    """What an action makes of an object."""
    return run_lua((FOLDER / "actions" / name / "action.lua").read_text(encoding="utf-8"), obj)


def discover(obj: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The actions that Argo CD offers for an object."""
    found: dict[str, dict[str, Any]] = run_lua((FOLDER / "actions/discovery.lua").read_text(encoding="utf-8"), obj)
    return found


def repaired(new: Any, old: Any) -> Any:
    """What Argo CD does to a patched object: an empty array where an empty map was is one again."""
    if isinstance(new, dict) and isinstance(old, dict):
        return {key: repaired(value, old[key]) if key in old else value for key, value in new.items()}
    if isinstance(new, list) and isinstance(old, dict):
        return new or {}
    if isinstance(new, list) and isinstance(old, list):
        return [repaired(value, old[i]) if i < len(old) else value for i, value in enumerate(new)]
    return new


def kstatus(obj: dict[str, Any]) -> str:
    """Status as kstatus computes it for a kind that it does not know: first match in this order."""
    metadata, status = obj["metadata"], obj.get("status", {})
    if "deletionTimestamp" in metadata:
        return "Terminating"
    if "observedGeneration" in status and status["observedGeneration"] != metadata["generation"]:
        return "InProgress"
    for condition in status.get("conditions", []):  # the first in the order of the list wins
        if condition["status"] == "True" and condition["type"] in ("Reconciling", "Stalled"):
            return "InProgress" if condition["type"] == "Reconciling" else "Failed"
    for condition in status.get("conditions", []):
        if condition["type"] == "Ready":
            return "Current" if condition["status"] == "True" else "InProgress"
    return "Current"


def waits(obj: dict[str, Any]) -> tuple[str, ...]:
    """The conditions for which `kubectl wait --for=condition=...` returns; it looks at the generation as well."""
    generation = obj["metadata"]["generation"]
    found = {
        condition["type"]
        for condition in obj.get("status", {}).get("conditions", [])
        if condition["status"] == "True" and condition.get("observedGeneration", generation) >= generation
    }
    return tuple(sorted(found & {"Finished", "Succeeded", "Ready"}))
