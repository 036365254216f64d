"""docs/cli.md says what there is."""

from __future__ import annotations

from pathlib import Path

from lakeindex.cli import main
from lakeindex.commands.check.report import Broken
from tests.cli_support import SCHEMAS, schema_of

TEXT = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")


def test_every_command_and_its_options_are_described():
    for name, command in main.commands.items():
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
