"""The root command and its groups of commands."""

from __future__ import annotations

from importlib import metadata

import click

from lakeindex.cli.commands.advise import advise
from lakeindex.cli.commands.create import create, options
from lakeindex.cli.commands.dags import dags
from lakeindex.cli.commands.doctor import doctor
from lakeindex.cli.commands.facts import count, files, partitions, properties, schema
from lakeindex.cli.commands.get import get
from lakeindex.cli.commands.index import index
from lakeindex.cli.commands.look import changes, check, history, inspect, read, tables
from lakeindex.cli.commands.maintain import archive, clean, maintain
from lakeindex.cli.commands.metadata import metadata as metadata_commands
from lakeindex.cli.commands.report import compare, report
from lakeindex.cli.commands.rescale import rescale
from lakeindex.cli.commands.rollback import rollback
from lakeindex.cli.commands.write import (
    bulk_insert,
    delete,
    delete_partitions,
    insert,
    overwrite,
    replace_where,
    truncate,
    update,
    upsert,
)
from lakeindex.cli.demo.command import demo
from lakeindex.cli.group import LakeGroup


@click.group(cls=LakeGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(metadata.version("lakeindex"), prog_name="lakeindex")
def main() -> None:
    """Row-level upserts into Apache Hudi copy-on-write tables, without a Hudi jar.

    TABLE is a path or a URL (s3://bucket/table); credentials, region and endpoint of a store come from the environment.

    Exit codes: 0 done; 2 wrong usage or option; 3 bad or missing input; 4 table refused; 5 conflict;
    6 broken invariant; 1 anything else.
    """


for _command in (
    *(create, upsert, insert, bulk_insert, overwrite, update, delete, replace_where, delete_partitions, truncate),
    *(tables, inspect, history, check, read, changes, get, advise, report, compare),
    *(schema, properties, count, files, partitions),
    *(rollback, clean, archive, maintain, rescale, index, metadata_commands, options, doctor, dags, demo),
):
    main.add_command(_command)
