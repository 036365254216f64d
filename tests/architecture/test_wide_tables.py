"""What is done for each column asks for no list of all columns: tables of thousands of columns take linear time.

``schema.names`` and ``rows.column_names`` are made anew each time they are asked for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.test_sizes import MODULES, ROOT

LISTS = ("names", "column_names")
FEW = {  # a loop over few columns, or files: those of keys and partition paths, of Hudi, of a condition
    "operations/changes.py",
    "operations/check_base_files.py",
    "operations/rows/get.py",
    "operations/rows/plan.py",
    "operations/rows/known_bounds.py",
    "stages/stage_input/staged_rows.py",
    "stages/stage_input/text_files.py",
    "table/stored_keys.py",
    "write/rewrite.py",
    "write/virtual_keys.py",
}


def asked_each_time(loop: ast.AST) -> list[ast.AST]:
    """Parts of a loop or comprehension that are computed each time it goes round."""
    match loop:
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            return [loop.elt, *_conditions(loop.generators)]
        case ast.DictComp():
            return [loop.key, loop.value, *_conditions(loop.generators)]
        case ast.For() | ast.While():
            return list(loop.body)
        case _:
            return []


def _conditions(generators: list[ast.comprehension]) -> list[ast.AST]:
    return [*(part for one in generators for part in one.ifs), *(one.iter for one in generators[1:])]


def lists_asked(part: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(part):
        found: list[ast.expr] = []
        if isinstance(node, ast.Compare) and any(isinstance(one, ast.In | ast.NotIn) for one in node.ops):
            found = list(node.comparators)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "index":
            found = [node.func.value]
        if any(isinstance(one, ast.Attribute) and one.attr in LISTS for one in found):
            yield node


@pytest.mark.slow
def test_no_list_of_all_columns_is_made_for_each_column() -> None:
    found = {
        f"{path.relative_to(ROOT / 'lib/lakeindex')}: {ast.unparse(one)}"
        for path in MODULES
        for loop in ast.walk(ast.parse(path.read_text()))
        for part in asked_each_time(loop)
        for one in lists_asked(part)
    }
    assert {one.split(":")[0] for one in found} >= FEW - {"operations/changes.py"}  # it sees what there is
    assert not [one for one in sorted(found) if one.split(":")[0] not in FEW]
