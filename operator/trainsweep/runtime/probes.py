"""/metrics, /healthz and /readyz on one port.

Alive means that the work moves, not only that the loop turns; ready means that all that we need is there and watched.
"""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from trainsweep.runtime.metrics import Metrics

Check = Callable[[], str]
"""Gives back what is wrong, "" where nothing is."""


def application(metrics: Metrics, alive: Check, ready: Check) -> web.Application:
    """The web application."""

    def probe(check: Check) -> Callable[[web.Request], object]:
        async def answer(_: web.Request) -> web.Response:
            wrong = check()
            return web.Response(text=wrong or "ok", status=503 if wrong else 200)

        return answer

    async def expose(_: web.Request) -> web.Response:
        # The content type carries a charset of its own, which aiohttp takes only as a header.
        return web.Response(body=metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/metrics", expose)
    app.router.add_get("/healthz", probe(alive))  # type: ignore[arg-type]  # aiohttp's handler type is a union
    app.router.add_get("/readyz", probe(ready))  # type: ignore[arg-type]  # see above
    return app


async def serve(app: web.Application, port: int) -> tuple[web.AppRunner, int]:
    """Starts to serve on all addresses; gives back the runner to clean up, and the port."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, None, port)
    await site.start()
    # With port 0 each address family gets a port of its own; an IPv4 address is a pair.
    return runner, next((int(a[1]) for a in runner.addresses if len(a) == 2), port)
