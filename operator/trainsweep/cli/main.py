"""The command line: one typer app. Each command lives in a file of its own."""

from __future__ import annotations

import typer

from trainsweep.cli.change_commands import resume_command, retry_command, suspend_command
from trainsweep.cli.diff_command import diff_command
from trainsweep.cli.download_command import download_command
from trainsweep.cli.exits import CODES
from trainsweep.cli.lint import lint_command
from trainsweep.cli.list_command import list_command
from trainsweep.cli.logs_command import logs_command
from trainsweep.cli.plan_command import plan_command
from trainsweep.cli.render_command import render_command
from trainsweep.cli.report_command import report_command
from trainsweep.cli.run_command import run_command
from trainsweep.cli.status_command import status_command
from trainsweep.cli.verify_command import verify_command
from trainsweep.cli.why_command import why_command

app = typer.Typer(
    name="trainsweep",
    help=f"Hyper-parameter sweeps of distributed PyTorch training, with checkpoints proven before teardown. {CODES}",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("lint")(lint_command)
app.command("plan")(plan_command)
app.command("render")(render_command)
app.command("run")(run_command)
app.command("status")(status_command)
app.command("logs")(logs_command)
app.command("verify")(verify_command)
app.command("report")(report_command)
app.command("why")(why_command)
app.command("list")(list_command)
app.command("suspend")(suspend_command)
app.command("resume")(resume_command)
app.command("retry")(retry_command)
app.command("diff")(diff_command)
app.command("download")(download_command)

if __name__ == "__main__":
    app()
