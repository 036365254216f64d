"""Bugs made by a program: places of the library drawn at random, each changed in one way, run with tests that pass its line.

    .venv/bin/python -m tests.mutants.drawn --coverage FILE --into FILE [--count 100] [--seed 0] [--package lock ...]

``--coverage`` is the data of a run that says which test executed which line (``pytest --cov --cov-context=test``); ``--into`` gets a
JSON object a line: ``file``, ``line``, ``how``, ``before``, ``after``, ``outcome`` (``caught``, ``survived``, ``unreached``), ``by``.
A run that was stopped goes on there. Many survivors change nothing that anybody can tell, or only speed: they are for reading.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from coverage import CoverageData

from tests.mutants.seeds import LIBRARY, ROOT, Mutant
from tests.mutants.trees import Tree, on_each, trees

LIMIT_SECONDS = 120.0
#: Tests of one bug: as many of those nearest to its module, and of the others.
NEAR, FAR = 60, 30
_SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
Change = tuple[str, ast.expr | ast.stmt, str]
"""How something could be wrong, what is replaced, and by which text."""
_SWAPPED_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Drawn(Mutant):
    """A bug at a place: ``search`` stands at ``offset`` of the module's text, in characters."""

    offset: int = 0
    line: int = 0
    function: str = ""

    def apply(self, text: str) -> str:
        return text[: self.offset] + self.replace + text[self.offset + len(self.search) :]


def changes(node: ast.AST) -> Iterator[Change]:
    """What could be wrong at a node: how, the node that is replaced, and by which text."""
    match node:
        case ast.If(test=test):
            yield "never", test, "False"
        case ast.Expr(value=ast.Call()):
            yield "call", node, "pass"
        case ast.comprehension(ifs=[condition, *_]):
            yield "filter", condition, "True"
        case ast.Call(func=function, args=given, keywords=keywords):
            if isinstance(function, ast.Name) and function.id in _SWAPPED_NAMES:
                yield "name", function, _SWAPPED_NAMES[function.id]
            for named in keywords:
                others = [one for one in keywords if one is not named]
                yield f"argument {named.arg}", node, ast.unparse(ast.Call(function, given, others))
        case ast.Constant(value=bool() as truth):
            yield "truth", node, str(not truth)
        case ast.Constant(value=int() as number):
            yield "number", node, str(number + 1)
        case ast.expr():
            yield from _of_expression(node)


def _of_expression(node: ast.expr) -> Iterator[Change]:
    match node:
        case ast.Compare(ops=[operator], left=left, comparators=[right]):
            if type(operator) in _SWAPPED:
                yield "comparison", node, ast.unparse(ast.Compare(left, [_SWAPPED[type(operator)]()], [right]))
            if isinstance(right, ast.Tuple):
                yield from (("member", right, ast.unparse(rest)) for rest in _without_one(right.elts))
        case ast.Set(elts=members):
            yield from (("member", node, ast.unparse(ast.Set(rest.elts))) for rest in _without_one(members))
        case ast.BoolOp(op=operation, values=values):
            for rest in _without_one(values):
                left_over = ast.BoolOp(operation, rest.elts) if rest.elts[1:] else rest.elts[0]
                yield "operand", node, f"({ast.unparse(left_over)})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not", node, f"bool({ast.unparse(operand)})"
        case ast.IfExp(body=body, orelse=other):
            yield from (("choice", node, f"({ast.unparse(one)})") for one in (body, other))


def _without_one(members: list[ast.expr]) -> Iterator[ast.Tuple]:
    for left_out in range(len(members) if members[1:] else 0):
        yield ast.Tuple(members[:left_out] + members[left_out + 1 :], ast.Load())


_SKIPPED = (ast.JoinedStr, ast.Raise, ast.Assert)


def _places(tree: ast.AST, function: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Nodes of functions, with the function's name; without texts, what is raised, annotations and decorators."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, _SKIPPED):
                continue
            inner = function
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = f"{function}.{child.name}".lstrip(".")
            if hasattr(child, "lineno") or isinstance(child, ast.comprehension):
                yield inner, child
            yield from _places(child, inner)


def bugs_of(path: Path) -> Iterator[Drawn]:
    """All bugs of a module that this program can think of."""
    text = path.read_text(encoding="utf-8")
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = text.splitlines()

    def offset(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    for function, node in _places(ast.parse(text)):
        for how, replaced, by in changes(node):
            begin = offset(replaced.lineno, replaced.col_offset)
            end = offset(replaced.end_lineno or 0, replaced.end_col_offset or 0)  # the parser says them of all
            name, line = path.relative_to(ROOT / LIBRARY).as_posix(), replaced.lineno
            yield Drawn(f"{name}:{begin}:{how}:{by}", name, text[begin:end], by, how, (), "", begin, line, function)


def draw(packages: list[str], count: int, seed: int) -> list[Drawn]:
    """So many, each in another function."""
    by_function: dict[tuple[str, str], list[Drawn]] = {}
    for path in sorted((ROOT / LIBRARY).rglob("*.py")):
        for bug in bugs_of(path):
            if not packages or bug.package in packages:
                by_function.setdefault((bug.file, bug.function), []).append(bug)
    lot = random.Random(seed)
    # A function is drawn by how many places it has: the long ones hold most bugs.
    order = sorted(by_function, key=lambda key: lot.random() ** (1 / len(by_function[key])), reverse=True)
    return [lot.choice(by_function[key]) for key in order[:count]]


class Reached:
    """Which tests execute a line."""

    def __init__(self, path: str) -> None:
        self._data = CoverageData(path)
        self._data.read()
        self._files = {
            name.partition("/lib/lakeindex/")[2]: name
            for name in self._data.measured_files()
            if "/lib/lakeindex/" in name
        }
        self._contexts: dict[str, dict[int, list[str]]] = {}

    def tests(self, bug: Drawn) -> list[str]:
        """The nearest ones first."""
        if bug.file not in self._contexts:
            known = self._files.get(bug.file)
            self._contexts[bug.file] = self._data.contexts_by_lineno(known) if known else {}
        last = bug.line + bug.search.count("\n")
        lines = self._contexts[bug.file]
        found = {one.partition("|")[0] for line in range(bug.line, last + 1) for one in lines.get(line, ()) if one}
        # what runs while the module is loaded is of no test: what it leaves is used by those that pass its other lines
        found = found or {one.partition("|")[0] for several in lines.values() for one in several if one}
        words = set(bug.file.removesuffix(".py").replace("_", "/").split("/"))

        def distance(test: str) -> int:
            return -len(words & set(test.partition("::")[0].removesuffix(".py").replace("_", "/").split("/")))

        lot = random.Random(bug.id)
        ordered = sorted(sorted(found), key=lambda test: (distance(test), lot.random()))
        near, far = ordered[:NEAR], ordered[NEAR:]
        return near + lot.sample(far, min(FAR, len(far)))


def main() -> int:
    """Draw, run, write."""
    arguments = _arguments()
    reached = Reached(arguments.coverage)
    into = Path(arguments.into)
    known = {json.loads(line)["id"] for line in into.read_text().splitlines()} if into.exists() else set()
    todo = [one for one in draw(arguments.package, arguments.count, arguments.seed) if one.id not in known]
    with trees(arguments.workers) as places, into.open("a") as out:
        for bug, (outcome, by) in on_each(places, todo, partial(_judged, reached=reached)):
            entry = {
                "id": bug.id,
                "file": bug.file,
                "line": bug.line,
                "function": bug.function,
                "how": bug.why,
                "before": bug.search,
                "after": bug.replace,
                "outcome": outcome,
                "by": by,
            }
            out.write(json.dumps(entry) + "\n")
            out.flush()
    return 0


def _judged(bug: Drawn, place: Tree, reached: Reached) -> tuple[str, str]:
    try:
        compile(bug.apply(bug.path(place.folder).read_text()), bug.file, "exec")
    except SyntaxError:
        return "broken", ""
    tests = reached.tests(bug)
    if not tests:
        return "unreached", ""
    with place.with_bug(bug):
        outcome = place.run(tests, LIMIT_SECONDS, first=True)
    word, by = outcome.judged
    if word == "survived":
        return word, f"{len(tests)} tests"
    return "caught", by  # what cannot even be loaded is seen by everybody


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.drawn", description=__doc__)
    parser.add_argument("--coverage", required=True)
    parser.add_argument("--into", required=True)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--package", nargs="*", default=[])
    parser.add_argument("--workers", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
