"""Which random mutants there are: those of cosmic-ray, less those that say nothing, in the file of a session."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutants.inplace import TARGETS

if TYPE_CHECKING:
    from cosmic_ray.work_item import WorkItem

CONFIG = """\
[cosmic-ray]
module-path = [{targets}]
timeout = 1.0
excluded-modules = []
test-command = "false"

[cosmic-ray.distributor]
name = "local"
"""
OPPOSITES = {
    "ReplaceComparisonOperator": (
        *("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is", "Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt"),
        *("Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt", "In_NotIn", "NotIn_In"),
    ),
    "ReplaceBinaryOperator": (
        "Add_Sub",
        "Sub_Add",
        "Mul_Div",
        "Div_Mul",
        "FloorDiv_Mul",
        "Mod_Mul",
        "Pow_Mul",
        "BitOr_BitAnd",
    ),
    "ReplaceUnaryOperator": ("Delete_Not", "USub_UAdd"),
}
"""Of the replacements for one operator, the neighbour and the opposite. The other ten (a shift for a plus, `<` for `is`) raise
or fail wherever the line is run at all: they would triple the time and flatter the figure."""


def begin(tree: Path, environ: Mapping[str, str], session: Path) -> None:
    """Writes the session: all mutants of the tree that are worth trying."""
    from cosmic_ray.work_db import WorkDB, use_db

    config, new = session.with_name("cosmic-ray.toml"), session.with_suffix(".new")
    new.unlink(missing_ok=True)
    config.write_text(CONFIG.format(targets=", ".join(f'"{t}"' for t in TARGETS)))
    tool = str(Path(sys.executable).with_name("cosmic-ray"))
    subprocess.run([tool, "init", str(config), str(new)], cwd=tree, env=dict(environ), check=True)
    with use_db(str(new), WorkDB.Mode.open) as db:
        items = list(db.work_items)
        kept = [item for item in items if _worth(item) and not _is_silent(tree, item)]
        db.clear()
        db.add_work_items(kept)
    print(
        f"{len(kept)} mutants of {len(items)}: not those of annotations, of replacements only neighbours and opposites"
    )
    new.rename(session)


def _worth(item: WorkItem) -> bool:
    family, _, change = item.mutations[0].operator_name.removeprefix("core/").partition("_")
    return change in OPPOSITES.get(family, (change,))


def _is_silent(tree: Path, item: WorkItem) -> bool:
    """Whether a mutant changes what says nothing: an annotation, or by one how much of a foreign text is taken over."""
    mutation = item.mutations[0]
    return any(start <= mutation.start_pos < end for start, end in _silent_spans(tree / mutation.module_path))


_KNOWN: dict[Path, list[tuple[tuple[int, int], tuple[int, int]]]] = {}


def _silent_spans(path: Path) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Begin and end (line, column) of every annotation, whose evaluation all modules postpone for ever, and of such bounds."""
    if path not in _KNOWN:
        text = path.read_text()
        nodes: list[ast.expr | None] = []
        for node in ast.walk(ast.parse(text)) if "from __future__ import annotations" in text else ():
            if isinstance(node, ast.arg | ast.AnnAssign):
                nodes.append(node.annotation)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                nodes.append(node.returns)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("text", "cut"):
                nodes += node.args[1:]
        _KNOWN[path] = [
            ((n.lineno, n.col_offset), (n.end_lineno or n.lineno, n.end_col_offset or 0)) for n in nodes if n
        ]
    return _KNOWN[path]
