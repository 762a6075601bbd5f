"""What a page claims, as data: the rows of its tables, and the tests that there are to show them."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_TEST = re.compile(r"test_\w+")
_KEPT_FROM_RUNNING = ("skip", "xfail")


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def all_rows(text: str) -> list[list[str]]:
    """Every row of every table, without their heads."""
    lines = text.splitlines()
    heads = {number - 1 for number, line in enumerate(lines) if line.startswith("|--")}
    return [
        cells(line)
        for number, line in enumerate(lines)
        if line.startswith("|") and not line.startswith("|--") and number not in heads
    ]


def marked_rows(text: str, name: str) -> list[list[str]]:
    """The rows of the table between `<!-- name… -->` and `<!-- end -->`."""
    (block,) = re.findall(rf"<!-- {name}[^>]*-->\n(.*?)<!-- end -->", text, re.DOTALL)
    return all_rows(block)


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def shown_by(text: str) -> set[str]:
    return {word for word in codes(text) if _TEST.fullmatch(word)}


@cache
def homes() -> dict[str, str]:
    """The tests that `make test` runs, and the text of their modules.

    None is among them that is skipped or expected to fail, alone or with its module.
    """
    found: dict[str, str] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if "e2e" not in path.parts:
            text = path.read_text(encoding="utf-8")
            found |= dict.fromkeys(_running(ast.parse(text)), text)
    return found


def _running(module: ast.Module) -> set[str]:
    loose = [node for node in module.body if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    if any(_is_kept(node) for node in loose):
        return set()
    return {
        node.name
        for node in module.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and _TEST.fullmatch(node.name)
        and not any(_is_kept(each) for each in (*node.decorator_list, *node.body))
    }


def _is_kept(node: ast.AST) -> bool:
    """It says `pytest.mark.skipif`, `pytest.importorskip`, `pytest.xfail` or the like."""
    names = (each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute))
    return any(word in name for name in names for word in _KEPT_FROM_RUNNING)
