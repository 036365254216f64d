"""The list of seeded bugs does not rot: each still fits the code and names tests that are there. ``make mutants`` runs them."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.mutants.seeds import LIBRARY, ROOT, Mutant, SeedError, files_of, load

MUTANTS = load()
ALONE = {"__init__"}  # nothing to get wrong that another list does not have


def said_by(path: Path, text: str) -> str:
    """The code without layout and comments."""
    if path.suffix == ".py":
        return ast.dump(ast.parse(text))
    return "".join(re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL).split())


@cache
def statements_of(path: Path) -> list[tuple[int, int]]:
    """First and last line, from 1, of what stands at the left margin of a module."""
    body = ast.parse(path.read_text()).body if path.suffix == ".py" else []
    return [(min(_lines_of(one)), one.end_lineno or one.lineno) for one in body]


def _lines_of(statement: ast.stmt) -> list[int]:
    return [statement.lineno, *(one.lineno for one in getattr(statement, "decorator_list", []))]


def around(mutant: Mutant, path: Path, text: str) -> str:
    """Of a module, the statements in which something changes: to parse it whole for each bug takes ten times as long."""
    first = text.count("\n", 0, text.index(mutant.search)) + 1
    last = first + mutant.search.count("\n")
    touched = [(begin, end) for begin, end in statements_of(path) if begin <= last and end >= first]
    lines = text.split("\n")
    begin, end = min([first, *(one for one, _ in touched)]), max([last, *(one for _, one in touched)])
    return "\n".join(lines[begin - 1 : end]) if path.suffix == ".py" else text


@pytest.mark.slow
def test_seeded_bugs_fit_the_code() -> None:
    wrong: dict[str, str] = {}
    for mutant in MUTANTS:
        path = mutant.path(ROOT)
        try:
            text = path.read_text()
            mutant.apply(text)
            part = around(mutant, path, text)
            if said_by(path, mutant.apply(part)) == said_by(path, part):
                wrong[mutant.id] = "nothing but layout or comments changes"
        except (SeedError, OSError, SyntaxError) as error:
            wrong[mutant.id] = str(error)
    assert wrong == {}


def test_seeded_bugs_name_tests_that_are_there() -> None:
    wrong: dict[str, str] = {}
    for mutant in MUTANTS:
        if not mutant.why or not mutant.tests:
            wrong[mutant.id] = "says neither whom it hurts nor what catches it"
            continue
        try:
            files = files_of(ROOT, mutant.tests)
        except (SeedError, OSError) as error:
            wrong[mutant.id] = str(error)
            continue
        for target, file in zip(mutant.tests, files, strict=True):
            name = target.partition("::")[2].partition("[")[0]
            if name and f"def {name}(" not in file.read_text():
                wrong[mutant.id] = target
    assert wrong == {}


def test_a_text_that_is_not_there_once_is_told() -> None:
    mutant = Mutant("m", "errors.py", "x", "y", "w", ("tests/conftest.py",))
    with pytest.raises(SeedError, match="2 times"):
        mutant.apply("x x")
    with pytest.raises(SeedError, match="0 times"):
        mutant.apply("")


def test_ids_are_unique() -> None:
    assert [name for name, count in Counter(one.id for one in MUTANTS).items() if count > 1] == []


def test_every_package_has_seeded_bugs() -> None:
    modules = (path.relative_to(ROOT / LIBRARY) for path in (ROOT / LIBRARY).rglob("*.py"))
    packages = {path.parts[0].removesuffix(".py") for path in modules} - ALONE
    assert packages == {one.package for one in MUTANTS}
    assert len(MUTANTS) >= 150
