"""The root command and its groups of commands."""

from __future__ import annotations

from typing import Final

import click

from lakeindex.cli.group import LakeGroup
from lakeindex.model import VERSION

_COMMANDS: Final = {
    "lakeindex.cli.commands.create": ("create", "options"),
    "lakeindex.cli.commands.write": (
        *("upsert", "apply", "insert", "bulk-insert", "overwrite", "update", "delete", "replace-where"),
        *("delete-partitions", "truncate"),
    ),
    "lakeindex.cli.commands.look": ("tables", "inspect", "history", "check", "read", "changes"),
    "lakeindex.cli.commands.get": ("get", "head"),
    "lakeindex.cli.commands.advise": ("advise",),
    "lakeindex.cli.commands.report": ("report", "compare"),
    "lakeindex.cli.commands.facts": ("schema", "properties", "count", "files", "partitions"),
    "lakeindex.cli.commands.maintain": ("clean", "archive", "maintain", "rollback"),
    "lakeindex.cli.commands.rescale": ("rescale",),
    "lakeindex.cli.commands.repair": ("repair",),
    "lakeindex.cli.commands.index": ("index",),
    "lakeindex.cli.commands.metadata": ("metadata",),
    "lakeindex.cli.commands.doctor": ("doctor",),
    "lakeindex.cli.commands.dags": ("dags",),
    "lakeindex.cli.demo.command": ("demo",),
}
"""The commands, by the module that has them under their names; a module is loaded with the first command of it."""


@click.group(cls=LakeGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(VERSION, prog_name="lakeindex")
def main() -> None:
    """Row-level upserts into Apache Hudi copy-on-write tables, without a Hudi jar.

    TABLE is a path or a URL (s3://bucket/table); credentials, region and endpoint of a store come from the environment.

    Exit codes: 0 done; 2 wrong usage or option; 3 bad or missing input; 4 table refused; 5 conflict;
    6 broken invariant; 1 anything else.
    """


main.homes.update((name, module) for module, names in _COMMANDS.items() for name in names)
