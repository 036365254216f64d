"""Floors of coverage: one a package, and they only rise."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("coverage_floor", ROOT / "scripts/coverage_floor.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_package_has_a_floor_and_none_is_lower_than_it_was(script: ModuleType):
    floors = script.parse((ROOT / "coverage.floor").read_text().splitlines())
    assert set(floors) == {"total", *script.packages()}
    highest = script.highest_floors()
    assert all(floors[name] >= floor for name, floor in highest.items() if name in floors)


@pytest.mark.parametrize(
    ("found", "floors", "highest", "said"),
    [
        ({"total": 94.0, "table": 95.0}, {"total": 93.0, "table": 94.0}, {"total": 93.0}, []),
        ({"total": 94.0, "table": 93.9}, {"total": 93.0, "table": 94.0}, {}, ["table: 93.9 % is below"]),
        ({"total": 92.9, "table": 99.0}, {"total": 93.0, "table": 94.0}, {}, ["total: 92.9 % is below"]),
        ({"total": 94.0, "fresh": 10.0}, {"total": 93.0}, {}, ["fresh has no floor"]),
        ({"total": 94.0}, {"total": 92.0}, {"total": 93.0}, ["total is 92.0 but was 93.0"]),
        ({"total": 94.0}, {"total": 93.0, "gone": 10.0}, {"gone": 80.0}, []),
    ],
)
def test_a_package_is_not_hidden_in_the_total(
    script: ModuleType, found: dict[str, float], floors: dict[str, float], highest: dict[str, float], said: list[str]
):
    wrong = script.problems(found, floors, highest)
    assert len(wrong) == len(said)
    assert all(part in one for part, one in zip(said, wrong, strict=True))


def test_raising_never_lowers_and_gives_new_packages_a_floor(script: ModuleType):
    new = script.raised({"total": 94.55, "table": 90.0, "fresh": 81.0}, {"total": 93.0, "table": 92.0, "gone": 50.0})
    assert new == {"total": 93.5, "table": 92.0, "fresh": 80.0}
    assert script.parse(script.text_of(new).splitlines()) == new


def test_the_single_number_of_old_is_the_total(script: ModuleType):
    assert script.parse(["91.0", "93.0", "# a word", "table 80.5"]) == {"total": 93.0, "table": 80.5}


def test_what_a_package_had_before_it_took_in_another_does_not_count(script: ModuleType):
    newest = "commit\n-lib.a 99.0\n-lib.a.b 80.0\n+lib.a 90.0\n"
    before = "commit\n+lib.a 99.0\n+lib.a.b 80.0\n+lib.c 95.0\n"
    assert script.highest_in(newest + before) == {"lib.a": 90.0, "lib.a.b": 80.0, "lib.c": 95.0}
    assert script.highest_in("commit\n-lib.a 99.0\n+lib.a 90.0\n" + before)["lib.a"] == 99.0
