"""A headless Chromium, driven over its DevTools protocol: what a person would see of a page, and what its console says.

Debian's `chromium` is used. Where it is missing it is installed with apt-get, which needs root; nothing is skipped.
"""

# ruff: noqa: ASYNC220, ASYNC240  # one page at a time: nothing else waits in this loop
from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp

START_SECONDS = 60


def binary() -> str:
    """Path of the browser; installs Debian's package where there is none.

    Raises:
        RuntimeError: where it can be neither found nor installed; the message says what to do.
    """
    found = os.environ.get("TRAINSWEEP_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if found:
        return found
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise RuntimeError("no chromium: install Debian's package `chromium`, or name a binary in TRAINSWEEP_CHROMIUM")
    print("installing Debian's package chromium (a minute)", flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update", "-q"],
        ["apt-get", "install", "-q", "--yes", "--no-install-recommends", "chromium", "fonts-dejavu-core"],
    ):
        done = subprocess.run(command, env=quiet, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} failed: {done.stderr[-500:]}")
    return shutil.which("chromium") or "chromium"


class Page:
    """One tab. Everything that went wrong in it is in `problems`, every request that was not for a file in `requests`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._next, self._waiting = socket, 0, dict[int, asyncio.Future[Any]]()
        self._loaded = asyncio.Event()
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self._socket:
            data = json.loads(message.data)
            if "id" in data:
                waiting = self._waiting.pop(data["id"], None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(data)
                continue
            method, params = data.get("method"), data.get("params", {})
            if method == "Page.loadEventFired":
                self._loaded.set()
            elif method == "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.problems.append(details.get("exception", {}).get("description") or details["text"])
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                self.problems.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                self.problems.append(f"{params['entry']['source']}: {params['entry']['text']}")
            elif method == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if not url.startswith(("file:", "data:", "about:")):
                    self.requests.append(url)

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the protocol; RuntimeError where the browser refuses it."""
        self._next += 1
        waiting = self._waiting[self._next] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": self._next, "method": method, "params": params})
        answer = await asyncio.wait_for(waiting, 60)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    async def view(self, width: int, height: int, *, dark: bool = False, phone: bool = False, scale: float = 1) -> None:
        """Size of the window and what the system prefers."""
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone
        )
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.send("Emulation.setEmulatedMedia", features=[theme])

    async def open(self, path: Path) -> None:
        """Loads a file and waits for it."""
        self._loaded.clear()
        self.problems.clear()
        self.requests.clear()
        await self.send("Page.navigate", url=path.resolve().as_uri())
        await asyncio.wait_for(self._loaded.wait(), 60)

    async def run(self, expression: str) -> Any:
        """The value of an expression in the page; AssertionError where it throws."""
        found = await self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"].get("exception", {}).get("description", "threw"))
        return found["result"].get("value")

    async def picture(self, path: Path, *, whole: bool = False) -> None:
        """A PNG of what is in view, or of the whole page."""
        found = await self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))


class Browser:
    """`async with Browser() as page`: a browser with a profile of its own, gone afterwards."""

    async def __aenter__(self) -> Page:
        self._folder = Path(tempfile.mkdtemp(prefix="chromium-"))
        command = [
            binary(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
            "--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", "--remote-debugging-port=0", f"--user-data-dir={self._folder}", "about:blank",
        ]  # fmt: skip
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            port = await self._port()
            self._session = aiohttp.ClientSession()
            async with self._session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                target = next(t for t in await answer.json() if t["type"] == "page")
            socket = await self._session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=64 * 2**20)
            page = Page(socket)
            for domain in ("Page", "Runtime", "Log", "Network"):
                await page.send(f"{domain}.enable")
        except BaseException:
            self._end()
            raise
        return page

    async def _port(self) -> int:
        end = time.monotonic() + START_SECONDS
        file = self._folder / "DevToolsActivePort"
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise RuntimeError(f"chromium ended with {self._process.returncode}")
            lines = file.read_text().splitlines() if file.exists() else []
            if lines:
                return int(lines[0])
            await asyncio.sleep(0.05)
        raise RuntimeError(f"chromium did not start within {START_SECONDS} s")

    async def __aexit__(self, *exc: object) -> None:
        await self._session.close()
        self._end()

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
