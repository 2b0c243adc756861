"""The cluster of the user's kubeconfig, read-only: one sweep, its class, and the store of its run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from trainsweep.api.resolve import SpecError, resolve
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.cli.exits import Exit, leave
from trainsweep.contract.documents import SweepRef
from trainsweep.contract.layout import StorageURIError, parse_uri
from trainsweep.core.model import ClassView, SweepView
from trainsweep.runtime.classes import Classes
from trainsweep.runtime.kube import SWEEP, Denied, Kube, KubeError, NotFound, Object
from trainsweep.runtime.store import Store, StoreError
from trainsweep.runtime.store_s3 import open_store
from trainsweep.runtime.views import sweep_view

T = TypeVar("T")


def namespace_of_context() -> str:
    """The namespace of the kubeconfig's current context, as kubectl takes it; `default` where none is said."""
    for file in os.environ.get("KUBECONFIG", str(Path.home() / ".kube" / "config")).split(os.pathsep):
        try:
            config = yaml.safe_load(Path(file).read_text())
        except (OSError, yaml.YAMLError):
            continue
        if not isinstance(config, dict):
            continue
        for entry in config.get("contexts") or []:
            if isinstance(entry, dict) and entry.get("name") == config.get("current-context"):
                return str((entry.get("context") or {}).get("namespace") or "default")
    return "default"


def with_kube(work: Callable[[Kube], Awaitable[T]]) -> T:
    """Runs some reads on the cluster; ends the command with code 3 where it cannot be reached."""
    from trainsweep.runtime.kube_client import KubeClient, load_configuration

    async def main() -> T:
        try:
            configuration = await load_configuration()
        except Exception as error:  # the client has many ways to refuse a kubeconfig
            leave(Exit.UNREACHABLE, f"no cluster: {error}; set KUBECONFIG")
        client = KubeClient(configuration)
        try:
            return await work(client)
        finally:
            await client.close()

    try:
        return asyncio.run(main())
    except NotFound as error:
        leave(Exit.FAILED, f"{error}")
    except Denied as error:
        leave(Exit.UNREACHABLE, f"the cluster refuses: {error}")
    except KubeError as error:
        leave(Exit.UNREACHABLE, f"the cluster cannot be reached: {error}")


@dataclass(frozen=True)
class Found:
    """A sweep in the cluster, and its class where we may read it."""

    body: Object
    view: SweepView
    sweep_class: ClassView | None
    class_problem: str


async def found_in(kube: Kube, name: str, namespace: str) -> Found:
    """Reads a sweep, and its class where that may be read."""
    body = await kube.get(SWEEP, name, namespace)
    view = sweep_view(body)
    try:
        found, problem = await Classes(kube).for_sweep(view)
    except KubeError as error:
        found, problem = None, str(error)
    return Found(body, view, found, problem)


def find(name: str, namespace: str | None) -> Found:
    """Reads a sweep; ends the command where it is not there or the cluster cannot be reached."""
    where = namespace or namespace_of_context()
    return with_kube(lambda kube: found_in(kube, name, where))


def read(name: str, namespace: str) -> Object:
    """The sweep alone, for a watch."""
    return with_kube(lambda kube: kube.get(SWEEP, name, namespace))


@dataclass(frozen=True)
class RunStore:
    """The store of a sweep's run, and what its receipt must fit."""

    store: Store
    ref: SweepRef
    spec: TrainSweepSpec


def run_store(found: Found, region: str | None, endpoint: str | None) -> RunStore:
    """Opens the store of a sweep's run, with this shell's own AWS credentials."""
    view = found.view
    if not view.status.run_uri:
        leave(Exit.FAILED, f"{view.namespace}/{view.name} was never launched: there is no run yet")
    try:
        spec = resolve(view.spec, found.sweep_class.spec if found.sweep_class else None)
        location = parse_uri(view.status.run_uri)
        ref = SweepRef(namespace=view.namespace, name=view.name, uid=view.uid, run=view.status.run)
    except (SpecError, StorageURIError, ValueError) as error:
        leave(Exit.FAILED, f"{view.namespace}/{view.name}: {error}")
    try:
        store = open_store(location, region or spec.storage.region, endpoint or spec.storage.endpoint_url)
    except StoreError as error:
        leave(Exit.UNREACHABLE, str(error))
    return RunStore(store, ref, spec)


def spec_of(value: Any) -> TrainSweepSpec:
    """A resolved spec from a sweep file.

    Raises:
        ValueError: where it is none (pydantic's ValidationError is one).
    """
    return TrainSweepSpec.model_validate(value)
