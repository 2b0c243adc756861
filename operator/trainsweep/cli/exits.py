"""Exit codes of every command, and the one way in which a command ends early."""

from __future__ import annotations

from enum import IntEnum
from typing import NoReturn

import typer


class Exit(IntEnum):
    """What a script can rely on. `--help` of each command says the same."""

    OK = 0
    FAILED = 1
    """The input has problems, the sweep failed, or a checkpoint is not proven."""
    USAGE = 2
    UNREACHABLE = 3
    """The cluster or the store could not be reached or read: nothing is known."""


CODES = "Exit codes: 0 fine, 1 problems or failed, 2 wrong usage, 3 the cluster or the store cannot be reached."


def leave(code: Exit, message: str = "") -> NoReturn:
    """Ends the command, with a last line on standard error."""
    if message:
        typer.echo(message, err=True)
    raise typer.Exit(int(code))


def as_json_or_text(output: str) -> bool:
    """Whether `-o json` was asked for; refuses anything but text and json."""
    if output not in ("text", "json"):
        raise typer.BadParameter("must be text or json", param_hint="--output")
    return output == "json"
