"""Running a program to its end, with an error that shows what it said."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from devcluster.errors import DevClusterError


def run(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    timeout: float | None = None,
    hint: str = "",
) -> str:
    """Run a program and return its standard output.

    Args:
        argv: program and arguments; never a shell line.
        cwd: working folder.
        env: variables to add to this process's own.
        stdin: text for its standard input; without it the input is empty.
        timeout: seconds until it is killed.
        hint: what to do when it fails, added to the error.

    Raises:
        DevClusterError: it is missing, failed or took too long.
    """
    command = [str(part) for part in argv]
    shown = " ".join(command[:6]) + (" …" if len(command) > 6 else "")
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, **env} if env else None,
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError as error:
        raise DevClusterError(f"'{command[0]}' is not on this machine. {hint}".rstrip()) from error
    except subprocess.TimeoutExpired as error:
        raise DevClusterError(f"`{shown}` did not end within {timeout:g} s. {hint}".rstrip()) from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-3000:]
        raise DevClusterError(f"`{shown}` failed with exit status {done.returncode}:\n{said}\n{hint}".rstrip())
    return done.stdout


def succeeds(argv: Sequence[str | Path]) -> bool:
    """Run a program quietly and say whether it ended well."""
    done = subprocess.run([str(part) for part in argv], capture_output=True, check=False, stdin=subprocess.DEVNULL)
    return done.returncode == 0
