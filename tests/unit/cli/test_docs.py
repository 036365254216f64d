"""docs/cli.md says what there is."""

from __future__ import annotations

import re
from pathlib import Path

import click

from lakeindex.cli import main
from lakeindex.cli.commands.repair import WithDefault
from lakeindex.operations.check_violations import Broken
from tests.cli_support import SCHEMAS, schema_of

TEXT = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")


def test_every_command_and_its_options_are_described():
    for name, command in main.all_commands().items():
        assert f"lakeindex {name}" in TEXT
        for option in (
            o for p in command.params if p.param_type_name == "option" for o in p.opts if o.startswith("--")
        ):
            assert option in TEXT or option == "--option", (name, option)


def test_every_schema_and_every_kind_of_violation_is_described():
    for path in SCHEMAS.glob("*.json"):
        assert f"schemas/{path.name}" in TEXT
        assert schema_of(path.stem)["properties"]["schema_version"]["const"] == 1
    assert all(f"`{kind}`" in TEXT for kind in Broken)
    assert set(schema_of("check")["properties"]["violations"]["items"]["properties"]["kind"]["enum"]) == set(Broken)


def options_in(text: str) -> set[str]:
    """Options that a synopsis names."""
    return set(re.findall(r"(?<![\w-])(-o|--[a-z][a-z-]*)", text.replace("--[no-]", "--")))


def test_the_synopsis_of_each_command_names_its_options_and_no_other():
    block = TEXT.split("```")[1].strip().splitlines()
    shared = options_in(TEXT.partition("WRITE OPTIONS: ")[2].partition("Every command")[0].replace("`-o ", "-o "))
    said: dict[str, set[str]] = {}
    for line in block:
        words = said.setdefault(line.split()[1], set())
        words |= options_in(line) | (shared if "WRITE OPTIONS" in line else set())
    has = {}
    for name, command in main.all_commands().items():
        parts = [*command.commands.values()] if isinstance(command, click.Group) else [command]
        parts += [command.default] if isinstance(command, WithDefault) else []
        options = (param for part in parts for param in part.params if isinstance(param, click.Option))
        has[name] = {"-o" if "-o" in one.opts else one.opts[0] for one in options} - {"--json"}
    assert said == has


def test_every_option_says_what_it_does():
    commands = [*main.all_commands().values()]
    commands += [below for one in commands if isinstance(one, click.Group) for below in one.commands.values()]
    silent = [
        (command.name, param.name)
        for command in commands
        for param in command.params
        if isinstance(param, click.Option) and not param.help
    ]
    assert silent == []
    assert [command.name for command in commands if not command.help] == []
