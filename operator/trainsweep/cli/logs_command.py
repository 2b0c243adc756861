"""`trainsweep logs`: the driver's log from the store, where it also lies after the cluster is gone."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from trainsweep.api.conditions import Condition
from trainsweep.cli.cluster import find, read, run_store
from trainsweep.cli.exits import Exit, leave
from trainsweep.cli.status_command import condition
from trainsweep.contract.layout import DRIVER_LOG, attempt_id, attempt_key
from trainsweep.runtime.documents_reader import clean
from trainsweep.runtime.store import Absent, Store, StoreError
from trainsweep.runtime.views import read_status

LOG_BYTES = 64 * 1024 * 1024
FOLLOW_SECONDS = 5.0


def read_log(store: Store, attempt: str) -> str:
    """The log of an attempt without what could steer a terminal.

    Raises:
        StoreError: where it cannot be read.
    """
    text = store.get(attempt_key(attempt, DRIVER_LOG), LOG_BYTES).decode(errors="replace")
    return "\n".join(str(clean(line, len(line))) for line in text.splitlines())


def fresh(old: str, new: str) -> str:
    """What is new in a log that is shipped whole and whose beginning may be cut."""
    if new.startswith(old):
        return new[len(old) :].lstrip("\n")
    tail = old[-400:]
    at = new.rfind(tail)
    return new[at + len(tail) :].lstrip("\n") if tail and at >= 0 else new


def logs_command(
    name: Annotated[str, typer.Argument(help="Name of the sweep.")],
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Absent: that of the context.")] = None,
    attempt: Annotated[
        int | None, typer.Option(min=1, max=999, help="Number of the attempt; absent: the newest.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the sweep is finished.")] = False,
    region: Annotated[str | None, typer.Option(help="Region of the bucket; absent: as the sweep says.")] = None,
    endpoint_url: Annotated[str | None, typer.Option(help="Endpoint of the store; absent: as the sweep says.")] = None,
) -> None:
    """Print the driver's log. It is shipped to the store every half minute and at the end.

    Exit codes: 0 printed, 1 there is none, 2 wrong usage, 3 the cluster or the store cannot be reached.
    """
    found = find(name, namespace)
    opened = run_store(found, region, endpoint_url)
    wanted = attempt_id(attempt or max(found.view.status.attempt, 1), found.view.uid)
    before = ""
    while True:
        done = not follow or _finished(found.view.name, found.view.namespace)
        try:
            text = read_log(opened.store, wanted)
        except Absent:
            if done:
                leave(
                    Exit.FAILED, f"attempt {wanted} has shipped no log yet: kubectl describe trainsweep {name} says why"
                )
        except StoreError as error:
            leave(Exit.UNREACHABLE, str(error))
        else:
            if more := fresh(before, text):
                typer.echo(more)
            before = text
        if done:
            return
        time.sleep(FOLLOW_SECONDS)


def _finished(name: str, namespace: str) -> bool:
    finished = condition(read_status(read(name, namespace).get("status")), Condition.FINISHED)
    return finished is not None and finished.status == "True"
