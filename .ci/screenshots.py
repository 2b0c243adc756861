"""`make screenshots`: pictures of report.html for the docs, from a real run of examples/digits.

The run's own documents lie in tests/corpus/runs/digits: the pictures are made from them, not from invented numbers.
`--train` trains anew on this machine (some ten minutes) and takes that run's documents instead.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:1] = [str(ROOT), str(ROOT / "operator")]  # in place of this folder, whose packaging.py is not PyPI's
RUN = ROOT / "tests" / "corpus" / "runs" / "digits"
IMAGES = ROOT / "docs" / "images"
DOCUMENTS = ("sweep.json", "trials.jsonl", "progress.json", "receipt.json")

from tests.browser.chromium import Browser, Page  # noqa: E402  # the path is set above
from trainsweep.cli.report_command import rebuilt  # noqa: E402  # the path is set above
from trainsweep.contract.layout import parse_uri  # noqa: E402  # the path is set above
from trainsweep.runtime.store import FileStore  # noqa: E402  # the path is set above


def train() -> None:
    """Runs the sweep of the pictures and keeps its documents: the record and the receipts, not the checkpoints."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "trainsweep.cli.main", "run", str(RUN / "sweep.yaml"), "--local"]
        done = subprocess.run(
            [*command, "--storage", folder, "--cpus", "4", "-o", "json"], stdout=subprocess.PIPE, check=False, cwd=ROOT
        )
        if done.returncode:
            raise SystemExit(f"the sweep of the pictures did not end well: {done.stdout.decode()[-2000:]}")
        run = Path(json.loads(done.stdout)["run"].removeprefix("file://"))
        keep(run)


def keep(run: Path) -> None:
    """Copies a run's documents, with another storage URI than that of this machine."""
    shutil.rmtree(RUN / "attempts", ignore_errors=True)
    for name in (*DOCUMENTS, *(p.relative_to(run).as_posix() for p in run.glob("attempts/*/*.json"))):
        (RUN / name).parent.mkdir(parents=True, exist_ok=True)
        text = (run / name).read_text()
        (RUN / name).write_text(text.replace(run.parents[2].as_uri(), "s3://sweeps/team-a"))


async def settled(page: Page, scroll: int | str = 0) -> None:
    """Scrolls, then waits until what that asked for is drawn."""
    where = (
        f"scrollTo(0, {scroll})" if isinstance(scroll, int) else f"document.querySelector({scroll!r}).scrollIntoView()"
    )
    await page.run(where)
    await page.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


async def pictures(report: Path) -> None:
    """Desktop in light and dark, the plots further down, and a phone."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    async with Browser() as page:
        await page.view(1280, 860)
        await page.open(report)
        await settled(page)
        await page.picture(IMAGES / "report-desktop.png")
        await settled(page, '[aria-label^="Parameters and value"]')
        await page.picture(IMAGES / "report-space.png")
        await settled(page, "#trials")
        await page.picture(IMAGES / "report-trials.png")
        await page.view(1280, 860, dark=True)
        await settled(page)
        await page.picture(IMAGES / "report-dark.png")
        await page.view(390, 844, phone=True, scale=2)
        await page.open(report)
        await settled(page)
        await page.picture(IMAGES / "report-phone.png")
        if page.problems:
            raise SystemExit("\n".join(page.problems))


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", action="store_true", help="run the sweep first")
    parser.add_argument("--keep", type=Path, help="folder of a finished run of the sweep, instead of training")
    options = parser.parse_args()
    if options.train:
        train()
    elif options.keep:
        keep(options.keep)
    store = FileStore(parse_uri(RUN.as_uri()))
    ended = json.loads((RUN / "progress.json").read_text())["heartbeatAt"]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.html"
        report.write_bytes(rebuilt(store, ended))
        asyncio.run(pictures(report))
    print(f"pictures in {IMAGES.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
