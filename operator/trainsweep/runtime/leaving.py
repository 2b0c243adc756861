"""`python -m trainsweep.runtime.leaving`: may the operator be uninstalled? Not while a sweep waits for its finalizer.

The chart runs it before it deletes anything. Without an operator nobody settles, and nobody removes the finalizer.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence

from trainsweep.core.model import FINALIZER
from trainsweep.runtime.keys import sweep_key
from trainsweep.runtime.kube import SWEEP, Kube, KubeError
from trainsweep.runtime.kube_client import KubeClient, load_configuration
from trainsweep.runtime.resync import pages
from trainsweep.runtime.settings import SettingsError, from_environment

SHOWN = 10


async def live_sweeps(kube: Kube, namespaces: Sequence[str]) -> list[str]:
    """Sweeps with our finalizer, as `namespace/name`: an attempt of theirs lives, or is being let go."""
    found = []
    async for body in pages(kube, SWEEP, namespaces):
        key = sweep_key(body)
        if key is not None and FINALIZER in (body["metadata"].get("finalizers") or ()):
            found.append(f"{key.namespace}/{key.name}")
    return sorted(found)


def refusal(found: Sequence[str]) -> str:
    """Why the operator must stay, and what to do."""
    names = ", ".join(found[:SHOWN]) + (", ..." if len(found) > SHOWN else "")
    return (
        f"{len(found)} sweeps still have a cluster that only the operator can settle: {names}.\n"
        "Let them end, or suspend or delete them and wait:\n"
        "  kubectl delete trainsweeps --all -A --wait\n"
        "To leave them behind, with their finalizers and clusters: helm uninstall --no-hooks\n"
    )


async def check(namespaces: Sequence[str]) -> int:
    """0 where nothing lives; 1 where something does or the API server cannot say."""
    kube = KubeClient(await load_configuration())
    try:
        found = await live_sweeps(kube, namespaces)
    except KubeError as error:
        sys.stderr.write(f"the sweeps cannot be listed: {error.message}\n")
        return 1
    finally:
        await kube.close()
    if found:
        sys.stderr.write(refusal(found))
    return 1 if found else 0


def main() -> int:
    """The exit code decides about the uninstallation."""
    try:
        namespaces = from_environment(os.environ).namespaces
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return asyncio.run(check(namespaces))


if __name__ == "__main__":
    sys.exit(main())
