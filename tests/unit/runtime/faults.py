"""Faults between the store's client and the server, ended after each test since the client is shared."""

from __future__ import annotations

from typing import Any

from botocore.awsrequest import AWSResponse

_EVENT = "before-send.s3"
_faults: list[tuple[Any, Any]] = []


class _Raw:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, *_: Any, **__: Any) -> Any:
        yield self._body


def _on_send(store: Any, handler: Any) -> None:
    store._client.meta.events.register(_EVENT, handler)
    _faults.append((store._client, handler))


def answer(
    store: Any, status: int, code: str = "", message: str = "", headers: dict[str, str] | None = None, *, only: str = ""
) -> list[Any]:
    """Answers the requests of the store's client whose URL ends with `only`; gives back the requests."""
    seen: list[Any] = []
    body = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode() if code else b""

    def reply(request: Any, **_: Any) -> AWSResponse | None:
        if not request.url.endswith(only):
            return None
        seen.append(request)
        return AWSResponse(request.url, status, headers or {}, _Raw(b"" if request.method == "HEAD" else body))

    _on_send(store, reply)
    return seen


def watch(store: Any) -> list[Any]:
    """The requests that the store's client sends from now on."""
    seen: list[Any] = []

    def note(request: Any, **_: Any) -> None:
        seen.append(request)

    _on_send(store, note)
    return seen


def end_faults() -> None:
    while _faults:
        client, handler = _faults.pop()
        client.meta.events.unregister(_EVENT, handler)
