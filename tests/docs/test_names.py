"""Files, make targets, commands, tests and options that pages name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakeindex.cli import main
from lakeindex.options.option_table import CREATE_OPTIONS, OPTIONS
from lakeindex.options.parse import NOTED_OPTIONS, REFUSED_OPTIONS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "CONTRIBUTING.md"]
CODE = re.compile(r"`([^`\n]+)`")
FOLDERS = "tests|scripts|lib|docs|dags|jobs|demo|conf|benchmarks"
TARGETS = set(re.findall(r"^\.PHONY: ([a-z][a-z0-9-]*)$", (ROOT / "Makefile").read_text(), re.MULTILINE))
TESTS = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
}
FILES = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
OURS = {option.key for option in (*OPTIONS, *CREATE_OPTIONS)} | NOTED_OPTIONS.keys() | REFUSED_OPTIONS.keys()
NO_OPTIONS = {
    "lakeindex.table.binding",
    "lakeindex.keys",
    "lakeindex.page.headers",
    "lakeindex.footer.crc32",
    "lakeindex.footers",
    "lakeindex.kept",
    "lakeindex.repair",
    "lakeindex.sync.open",
    "lakeindex.synced",
}
"""Names of ours that look like options: a property of a table, entries of a footer, one of a commit, parameters in a catalog."""


def pieces(page: Path) -> list[str]:
    """What stands in backticks on a page."""
    return CODE.findall(re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL))


def is_there(path: str) -> bool:
    """Whether a path, which may hold a star or a placeholder, is in the checkout."""
    return any(ROOT.glob(re.sub(r"<[a-z]+>", "*", path).rstrip("/")))


def unknown(text: str) -> str | None:
    """What a piece of code names that is not there."""
    if re.fullmatch(rf"(?:{FOLDERS})/[\w./*<>-]+", text) and not is_there(text):
        return text
    if re.fullmatch(r"test_\w+(\.py)?", text) and text not in TESTS | FILES:
        return text
    called = re.match(r"make ([a-z][a-z0-9-]*)", text)
    if called is not None and called[1] not in TARGETS:
        return text
    command = re.match(r"lakeindex ([a-z][a-z-]*)", text)
    if command is not None and command[1] not in main.homes:
        return text
    option = re.fullmatch(r"(?:-o )?(lakeindex\.[a-z.]+[a-z])(?:=.*)?", text)
    if option is not None and option[1] not in OURS | NO_OPTIONS and not is_module(option[1]):
        return text
    return None


def is_module(name: str) -> bool:
    """Whether a dotted name is a module of the library, or something in one."""
    parts = name.split(".")
    return any(any((ROOT / "lib").glob("/".join(parts[:end]) + ".py")) for end in range(2, len(parts) + 1)) or (
        (ROOT / "lib" / "/".join(parts)).is_dir()
    )


@pytest.mark.parametrize("page", ["follow-a-key.md", "follow-a-commit.md"])
def test_the_functions_that_a_walk_names_are_there(page: str) -> None:
    named = [text for text in pieces(ROOT / "docs" / page) if re.fullmatch(r"\w+(\.\w+)+", text) and "json" not in text]
    assert len(named) > 15
    for text in named:
        module, _, name = text.rpartition(".")
        path = ROOT / "lib/lakeindex" / (module.replace(".", "/") + ".py")
        assert path.is_file(), text
        assert re.search(rf"^(def|class) {name}\b", path.read_text(encoding="utf-8"), re.MULTILINE), text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_is_there(page: Path) -> None:
    assert [text for text in pieces(page) if unknown(text) is not None] == []


@pytest.mark.parametrize(
    ("text", "is_known"),
    [
        ("tests/kill", True),
        ("tests/nowhere", False),
        ("test_no_such_thing", False),
        ("make docs", True),
        ("make nothing", False),
        ("lakeindex upsert TABLE", True),
        ("lakeindex teleport", False),
        ("lakeindex.lock.wait", True),
        ("lakeindex.lock.wit", False),
        ("lakeindex.options.option_table", True),
        ("jobs/<stage>.py", True),
    ],
)
def test_a_name_that_is_not_there_is_found(text: str, *, is_known: bool) -> None:
    assert (unknown(text) is None) is is_known
