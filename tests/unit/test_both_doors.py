"""What the command line has, Python has, and the other way round: commands and methods, options and arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

import lakeindex
from lakeindex.api.table import LakeTable
from lakeindex.cli import main
from lakeindex.cli.commands.repair import WithDefault

ONLY_COMMANDS = {
    "options": "prints the tables of docs/options.md for a terminal",
    "doctor": "examines the machine and its environment for whoever sets them up; it is no call of a program",
    "demo": "shows the library to who has neither a checkout nor data",
    "dags": "writes the files of the DAGs for whoever sets up Airflow",
    "head": "`scan(...).head(n)`, for a person",
}
ONLY_METHODS = {
    "open_table": "every command opens the table that it names",
    "read": "is what `scan` gives as one Arrow table; it is older",
    "insert_overwrite_table": "`lakeindex overwrite --whole-table`",
    "report_history": "`lakeindex report --history`",
    "applied_until": "`lakeindex apply --from` begins there",
}
NAMES = {
    "create": "create_table",
    "import": "import_table",
    "tables": "find_tables",
    "read": "scan",
    "overwrite": "insert_overwrite",
}
"""Commands whose function has another name."""

ONLY_OPTIONS: dict[str, dict[str, str]] = {
    "*": {"as_json": "a method returns the value, which has to_json()", "table": "is the handle"},
    "apply": dict.fromkeys(("source", "since", "until"), "`changes` of the source says it"),
    "get": {
        "keys_file": "keys may be a pathlib.Path",
        "columns_of_keys": "keys may be dicts",
        "out": "rows are returned",
    },
    "read": {"out": "rows are returned"},
    "changes": {"out": "rows are returned"},
    "overwrite": {"whole_table": "insert_overwrite_table is a method of its own"},
    "import": {"memory": "is short for -o lakeindex.memory"},
    "index_migrate": {"index_type": "is refused: --to names the index"},
    "restore": {"yes": "a method does not ask"},
    "report": {"html": "run_report's page is in the run's folder", "history": "report_history is a method of its own"},
}
ONLY_ARGUMENTS: dict[str, dict[str, str]] = {
    "*": {
        "progress": "the command line shows bars",
        "self": "is TABLE",
        "table": "is TABLE",
        "storage_options": "a command takes them from the environment: a shell's history keeps what it is given",
    },
    "upsert": {
        "run_id": "is the library's own: who gives a batch id has it",
        "report": "-o lakeindex.report says it",
    },
    "compare": {"checkpoints": "RUN is a folder"},
    "create": {"schema": "a shell has no schema: --like names a file that has"},
    "import": {"properties": "-o has both kinds of options"},
    "read": {"meta": "--columns names those that are wanted"},
    "changes": {"meta": "--columns names those that are wanted"},
}
WRITES = ("upsert", "apply", "update", "delete", "replace_where", "insert", "bulk_insert", "overwrite", "truncate")
for name in WRITES:
    ONLY_OPTIONS[name] = ONLY_OPTIONS.get(name, {}) | {"memory": "is short for -o lakeindex.memory"}
    ONLY_ARGUMENTS[name] = ONLY_ARGUMENTS["upsert"]
RENAMED = {
    ("upsert", "inputs"): "data",
    ("apply", "feeds"): "data",
    ("delete", "file"): "data",
    ("insert", "inputs"): "data",
    ("update", "set_"): "set",
    ("replace_where", "inputs"): "data",
    ("bulk_insert", "inputs"): "data",
    ("overwrite", "inputs"): "data",
    ("advise", "inputs"): "data",
    ("create", "partitions"): "partition",
    ("create", "keys"): "key",
    ("import", "partitions"): "partition",
    ("import", "keys"): "key",
    ("create", "options"): "properties",
}


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command that does something; ``index build`` as ``index_build``."""
    for shown, command in main.all_commands().items():
        name = shown.replace("-", "_")
        if isinstance(command, click.Group):
            yield from ((f"{name}_{below}", one) for below, one in command.commands.items())
            if isinstance(command, WithDefault):
                yield name, command.default
        else:
            yield name, command


COMMANDS = dict(commands())


def methods() -> dict[str, Callable[..., object]]:
    """What Python has, by name."""
    every = {name: value for kind in reversed(LakeTable.__mro__) for name, value in vars(kind).items()}
    found = {name: value for name, value in every.items() if not name.startswith("_")}
    called = {name: value.fget if isinstance(value, property) else value for name, value in found.items()}
    functions = {name: getattr(lakeindex, name) for name in lakeindex.__all__ if name != "LakeTable"}
    return {name: one for name, one in called.items() if callable(one)} | functions


def arguments(function: Callable[..., object]) -> set[str]:
    """Names of a function's arguments."""
    return set(inspect.signature(function).parameters)


def passed_on(function: Callable[..., object]) -> set[str]:
    """Names that a method takes for what it calls: they are described there."""
    code = inspect.unwrap(function).__code__  # type: ignore[attr-defined] # a function
    written = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return arguments(function) - set(written) if code.co_flags & inspect.CO_VARKEYWORDS else set()


def test_every_command_has_a_method_and_every_method_a_command() -> None:
    named = {NAMES.get(name, name) for name in COMMANDS if name not in ONLY_COMMANDS}
    assert named == methods().keys() - ONLY_METHODS.keys()
    assert COMMANDS.keys() > ONLY_COMMANDS.keys()
    assert methods().keys() > ONLY_METHODS.keys()


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - ONLY_COMMANDS.keys()))
def test_options_of_a_command_are_arguments_of_its_method(name: str) -> None:
    group = name.partition("_")[0]
    only = ONLY_OPTIONS["*"] | ONLY_OPTIONS.get(name, {}) | ONLY_OPTIONS.get(group, {})
    offered = {str(one.name) for one in COMMANDS[name].params} - only.keys()
    options = {RENAMED.get((name, one), one) for one in offered}
    spare = ONLY_ARGUMENTS["*"] | ONLY_ARGUMENTS.get(name, {}) | ONLY_ARGUMENTS.get(group, {})
    taken = arguments(methods()[NAMES.get(name, name)]) - spare.keys()
    assert options - {"uri"} == taken - {"uri"}


def test_arguments_are_described_one_by_one() -> None:
    """In the docstring of what takes them; those of ``**arguments`` beside their types, where the site finds them."""
    silent = []
    for name, function in methods().items():
        text = inspect.getdoc(function) or ""
        for argument in inspect.signature(function).parameters:
            name_there = "**arguments" if argument in passed_on(function) else argument
            described = f"\n    {name_there}: " in text
            if argument not in {"self", "table"} and not described and "as of :meth:`" not in text:
                silent.append(f"{name}({argument})")
    assert silent == []


def test_an_argument_that_a_method_does_not_have_is_refused_by_its_name() -> None:
    """Whether it is one of another method, or of none; nothing is looked at before."""
    table, taken, seen = LakeTable("no/table"), [], 0
    for name in sorted(methods().keys() - set(lakeindex.__all__)):
        there = arguments(methods()[name])
        for other in (
            {"nonsense", "merge", "runner", "dry_run", "batch_id"} - there if passed_on(methods()[name]) else ()
        ):
            seen += 1
            try:
                getattr(table, name)(**{other: None})
                taken.append(f"{name}({other})")
            except TypeError as error:
                if f"{name}() got an unexpected keyword argument {other!r}" != str(error):
                    taken.append(str(error))
    assert taken == []
    assert seen > 30


def test_the_page_has_every_method() -> None:
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
    listed = []
    for kind in ("table.LakeTable", "operations.TableOperations"):
        listed += page.partition(f"<!-- made by scripts/api_page.py: 2 api.{kind} ")[2].partition(" -->")[0].split()
    assert sorted(listed) == sorted(name for name in methods() if name not in lakeindex.__all__)
