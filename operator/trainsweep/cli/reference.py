"""`docs/reference/cli.md` from the commands themselves: `python -m trainsweep.cli.reference` writes, `--check` compares."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from trainsweep.api.generate import write_or_check
from trainsweep.cli.main import app

PAGE = Path("docs/reference/cli.md")
_HEAD = """# The command line

Generated from the commands by `python -m trainsweep.cli.reference`; change them, not this page.

`trainsweep COMMAND` and `kubectl trainsweep COMMAND` are the same program: kubectl finds `kubectl-trainsweep` on the
PATH. `trainsweep --install-completion` installs completion for bash, zsh or fish.

| code | means |
| --- | --- |
| 0 | fine |
| 1 | problems in the input, a sweep that failed or waits, a checkpoint that is not proven |
| 2 | wrong usage |
| 3 | the cluster or the store cannot be reached or read: nothing is known |

Each command says below what its codes mean. `-o json` prints an object (or a list) for scripts, on standard output.
"""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _parameters(command: Any) -> list[str]:
    rows = []
    for parameter in command.params:
        if parameter.name == "help":
            continue
        if parameter.param_type_name == "argument":
            names = f"`{(parameter.metavar or parameter.name or '').upper().strip('[]')}`"
        else:
            names = ", ".join(f"`{n}`" for n in [*parameter.opts, *parameter.secondary_opts])
        told = _cell(parameter.help or "")
        default = parameter.default
        if isinstance(default, (str, int, float)) and not isinstance(default, bool) and default != "":
            told += f" Default: `{default}`."
        elif parameter.required and parameter.param_type_name == "option":
            told += " Required."
        rows.append(f"| {names} | {told} |")
    return rows


def page() -> str:
    """The page."""
    group: Any = typer.main.get_command(app)
    parts = [_HEAD]
    for name in sorted(group.commands):
        command = group.commands[name]
        help_text = "\n".join(line.strip() for line in (command.help or "").replace("\f", "").strip().splitlines())
        parts.append(f"## `trainsweep {name}`\n\n{help_text}\n")
        rows = _parameters(command)
        if rows:
            parts.append("\n".join(["| parameter | means |", "| --- | --- |", *rows]) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page()}, __doc__))
