"""`python -m trainjobs`: runs a sweep's driver.

`stop` asks the driver on this machine to stop; `leave` ends Ray on this machine once the head is gone.

Environment: `TRAINSWEEP_SWEEP_FILE` and `TRAINSWEEP_CONTROL_FILE`, or the options of the same meaning.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from trainsweep.contract.documents import END_LINE, EXIT_USAGE, Outcome


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m trainjobs", description=__doc__)
    parser.add_argument("command", nargs="?", choices=["run", "stop", "leave"], default="run")
    parser.add_argument("--sweep", default=os.environ.get("TRAINSWEEP_SWEEP_FILE"), help="the sweep file")
    parser.add_argument("--control", default=os.environ.get("TRAINSWEEP_CONTROL_FILE"), help="the control document")
    parser.add_argument("--local", action="store_true", help="start Ray on this machine")
    parser.add_argument("--cpus", type=int, help="with --local: the CPUs that Ray may use")
    parser.add_argument(
        "--wait",
        type=float,
        default=100.0,
        help="with stop and leave: seconds to wait for the driver's end, for the head's",
    )
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code."""
    options = _parser().parse_args(arguments)
    if options.local:
        # Read when Ray is imported. Its dashboard has half a minute, which a busy laptop may pass.
        os.environ.setdefault("RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT", "300")
        os.environ.setdefault("RAY_DASHBOARD_STARTUP_TIMEOUT_S", "300")
    if options.command == "leave":
        from trainjobs.leave import leave_after_head

        return 0 if leave_after_head(os.environ.get("RAY_ADDRESS", ""), options.wait) else 1
    from trainjobs.outcome import DriverError, exit_code
    from trainjobs.sweep import load

    if not options.sweep:
        print("set TRAINSWEEP_SWEEP_FILE or give --sweep FILE", file=sys.stderr)
        return EXIT_USAGE
    if options.command == "stop":
        from trainjobs.flags import Flags
        from trainjobs.leave import end_ray

        attempt = json.loads(Path(options.sweep).read_bytes()).get("attemptId", "")
        ended = Flags(str(attempt)).stop_and_wait(options.wait)
        if ended:
            end_ray()
        return 0 if ended else 1
    try:
        sweep = load(Path(options.sweep))
    except DriverError as error:
        # No sweep, no store: this line is all that the operator gets.
        end = {"outcome": "Failed", "reason": str(error.reason), "message": error.message[:1000]}
        print(f"{END_LINE}{json.dumps(end)}", file=sys.stderr, flush=True)
        return exit_code(Outcome.FAILED, error.reason)
    from trainjobs.driver import Driver
    from trainjobs.logs import set_up

    tail = set_up()
    control = Path(options.control) if options.control else None
    return Driver(sweep, control, tail, local=options.local, cpus=options.cpus).run()


if __name__ == "__main__":
    sys.exit(main())
