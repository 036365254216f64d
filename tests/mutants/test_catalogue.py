"""The list of seeded bugs does not rot: each still fits the code and names tests that are there. ``make mutants`` runs them."""

import ast
from collections import Counter

import pytest

from tests.mutants.seeds import LIBRARY, ROOT, Mutant, SeedError, files_of, load

MUTANTS = load()
ALONE = {
    "__init__",
    "release",
    "shipped_files",
    "notebook",
    "in_groups",
}  # some lines each; nothing to get wrong that another list does not have


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.id)
def test_a_seeded_bug_fits_the_code(mutant: Mutant) -> None:
    text = mutant.path(ROOT).read_text()
    changed = mutant.apply(text)
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text)), "nothing but layout or comments changes"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.id)
def test_a_seeded_bug_names_tests_that_are_there(mutant: Mutant) -> None:
    assert mutant.why
    assert mutant.tests
    for target, file in zip(mutant.tests, files_of(ROOT, mutant.tests), strict=True):
        name = target.partition("::")[2].partition("[")[0]
        assert not name or f"def {name}(" in file.read_text(), target


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
