"""What messages advise is there: every command parses, every option is in the table, every method and argument exists.

Texts are taken from where they are written: all texts of the library but docstrings, names of its modules' constants filled in.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click

import lakeindex
from lakeindex.cli import main
from lakeindex.cli.commands.repair import WithDefault
from lakeindex.options.option_table import BY_KEY, CREATE_BY_KEY
from lakeindex.options.parse import NOTED_OPTIONS, REFUSED_OPTIONS
from lakeindex.table.property_keys import INVENTORY
from tests.unit.test_both_doors import methods

LIBRARY = Path(lakeindex.__file__).parent
COMMAND = re.compile(r"`(lakeindex [a-z][^`]*)`|\blakeindex ((?:[a-z-]+ )+TABLE(?: --[a-z-]+(?: [A-Z{][^ ;,.)]*)?)*)")
_OPTION = re.compile(r"\b(?:hoodie|lakeindex)(?:\.[a-z0-9_]+)+\b(?!\.\*|\*)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
KEYWORD = re.compile(r"(?<![\w.`/-])([a-z_]+)=(?:True|False|None|N\b|\[|['\"]|\.\.\.)")
_METHOD = re.compile(r"(?<![\w.])(?:table|dst|src|orders)\.([a-z_]+)\(")
_OF_EXAMPLES = {"drop", "status", "tz"}
"""An argument of pandas, a column, a part of a type."""

_OF_OTHERS = re.compile(r"\b(?:pip|aws|spark-submit|npm|docker)\b.*")


@dataclass(frozen=True)
class Said:
    """A text of a module."""

    module: str
    line: int
    text: str


@cache
def all_said() -> tuple[Said, ...]:
    """Every text but docstrings; what is put into a text is ``X``, if it is no constant of its module."""
    found = []
    for path in sorted(LIBRARY.rglob("*.py")):
        name = ".".join(path.relative_to(LIBRARY.parent).with_suffix("").parts).removesuffix(".__init__")
        found += [Said(name, line, text) for line, text in _texts(ast.parse(path.read_text()), name)]
    return tuple(found)


def _texts(tree: ast.Module, module: str) -> Iterator[tuple[int, str]]:
    nodes = list(ast.walk(tree))
    docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    joined = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    inside = {id(part) for node in joined for part in ast.walk(node)} - {id(node) for node in joined}
    for node in nodes:
        if id(node) in docs or id(node) in inside:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(_part(part, module) for part in node.values)


def _part(part: ast.expr, module: str) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    value = getattr(part, "value", None)
    names = value.id if isinstance(value, ast.Name) else None
    if names is None or not names.strip("_").isupper():
        return "X"
    known = getattr(importlib.import_module(module), names, None)
    return known if isinstance(known, str) else "X"


def leaf(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that words name, and what is left of them."""
    command: click.Command = main
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        inner = command.get_command(click.Context(command), words[0])
        if inner is None and not isinstance(command, WithDefault):
            raise click.UsageError(f"no command {words[0]!r}")
        command, words = (command.default, words) if inner is None else (inner, words[1:])
    return command, words


def _problem(line: str) -> str | None:
    """Why a command cannot be given like this; one that is only named lacks arguments."""
    try:
        command, words = leaf(
            [word for word in shlex.split(line)[1:] if word not in ("...", "\N{HORIZONTAL ELLIPSIS}")]
        )
        command.make_context("lakeindex", words)
    except (click.MissingParameter, click.exceptions.NoArgsIsHelpError):
        return None
    except (click.ClickException, ValueError) as error:
        text = str(getattr(error, "message", error))
        is_only_named = (
            "X" in line or "{}" in line or "requires an argument" in text
        )  # `--keep`, named without its value
        return None if is_only_named and not isinstance(error, click.NoSuchOption) else f"{line}: {text}"
    return None


def commands() -> list[tuple[Said, str]]:
    """Command lines in texts, as they are written."""
    return [
        (one, (match[1] or f"lakeindex {match[2]}").strip())
        for one in all_said()
        for match in COMMAND.finditer(one.text)
    ]


def test_every_command_that_is_advised_can_be_given() -> None:
    found = commands()
    assert len(found) > 60
    wrong = {f"{one.module}:{one.line}: {problem}" for one, line in found if (problem := _problem(line)) is not None}
    assert sorted(wrong) == []
    assert _problem("lakeindex index bild TABLE") is not None
    assert _problem("lakeindex upsert TABLE --quick f.parquet") is not None


def test_every_option_that_is_named_exists() -> None:
    """As an option, or as a property of a table that this release knows."""
    known = {*BY_KEY, *CREATE_BY_KEY, *NOTED_OPTIONS, *REFUSED_OPTIONS, *(one.key for one in INVENTORY)}
    prefixes = {key[: match.start()] for key in known for match in re.finditer(r"\.", key)}
    others = {"hoodie.properties", "hoodie.schema.on.read.enable", "lakeindex.page.headers", "lakeindex.footer.crc32"}
    others |= {"hoodie.hfile.compression.algorithm"}  # an option of Hudi's jobs, entries of footers and of an HFile
    said = [
        (one, match[0])
        for one in all_said()
        for match in _OPTION.finditer(one.text)
        if "-o " in one.text or " " in one.text
    ]
    modules = {
        path.relative_to(LIBRARY.parent).with_suffix("").as_posix().replace("/", ".") for path in LIBRARY.rglob("*")
    }
    wrong = {
        f"{one.module}:{one.line}: {name}"
        for one, name in said
        if name not in known and name not in prefixes and name not in others and name not in modules
    }
    assert len({name for _, name in said}) > 60
    assert sorted(wrong) == []


def test_every_flag_is_one_of_a_command() -> None:
    flags: set[str] = set()
    groups: list[click.Command] = [main]
    while groups:
        command = groups.pop()
        flags |= {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)} | {"--help"}
        if isinstance(command, click.Group):
            groups += [
                command.get_command(click.Context(command), name)
                for name in command.list_commands(click.Context(command))
            ]
        if isinstance(command, WithDefault):
            groups.append(command.default)
    said = [
        (one, flag)
        for one in all_said()
        if " " in one.text and not one.module.startswith("lakeindex.cli")
        for flag in FLAG.findall(_OF_OTHERS.sub("", one.text))
    ]
    assert len({flag for _, flag in said}) > 15
    assert sorted(f"{one.module}:{one.line}: {flag}" for one, flag in said if flag not in flags) == []


def test_every_method_and_argument_of_python_exists() -> None:
    """An argument is one of some method, or of pyarrow, whose calls are named with it."""
    arguments = {name for method in methods().values() for name in inspect.signature(method).parameters}
    said = [one for one in all_said() if " " in one.text and "<" not in one.text]
    called = {(one.module, name) for one in said for name in _METHOD.findall(one.text)}
    assert [name for name in sorted(called) if name[1] not in methods()] == []
    named = {(one.module, one.line, name) for one in said for name in KEYWORD.findall(one.text)}
    assert len({name for *_, name in named}) > 5
    assert [name for name in sorted(named) if name[2] not in arguments | _OF_EXAMPLES] == []
