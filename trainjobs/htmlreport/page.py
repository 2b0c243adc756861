"""The page: styles, scripts and data in one file, locked by a content security policy to exactly these."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from html import escape
from importlib import resources
from typing import Any

from trainjobs.htmlreport.document import ROWS, build
from trainjobs.htmlreport.facts import Facts

LIMIT = 4 * 2**20
"""Bytes of a page at most: rows are left out until it fits."""
STYLES = ("page.css", "charts.css")
SCRIPTS = ("base.js", "plots.js", "space.js", "table.js", "main.js")


def render(facts: Facts) -> bytes:
    """The whole page as UTF-8, at most 4 MiB."""
    rows = ROWS
    while True:
        page = _page(build(facts, rows))
        if len(page) <= LIMIT or rows <= 1:
            return page
        rows //= 2


def as_script(value: Any) -> str:
    """JSON that is safe inside of a script element: nothing in it can end the element or begin a comment."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return (resources.files("trainjobs.htmlreport") / "assets" / name).read_text(encoding="utf-8")


def _joined(names: Iterable[str]) -> str:
    return "\n".join(_asset(name).strip() for name in names) + "\n"


def _digest(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def _page(data: dict[str, Any]) -> bytes:
    style, script = _joined(STYLES), '"use strict";\n' + _joined(SCRIPTS)
    policy = (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    name = f"{data['sweep']['namespace']}/{data['sweep']['name']}"
    best = data["best"]
    found = "no trial has reported yet"
    if best is not None:
        found = f"best {data['objective']['metric']}: {best['value']:.6g} ({best['trial']}, epoch {best['step']})"
    values = {
        "POLICY": escape(policy, quote=True),
        "TITLE": escape(f"{name} · TrainSweep"),
        "NAME": escape(data["sweep"]["name"]),
        "SUMMARY": escape(f"{name}: {found}"),
        "STYLE": style,
        "DATA": as_script(data),
        "SCRIPT": script,
    }
    parts = _asset("page.html").split("@@")
    # Between the marks, every second part is a name: what a value holds is never looked at again.
    text = "".join(part if place % 2 == 0 else values[part] for place, part in enumerate(parts))
    return text.encode("utf-8", "replace")
