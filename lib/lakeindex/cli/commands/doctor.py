"""``lakeindex doctor``."""

from __future__ import annotations

import click

from lakeindex.cli.completion import complete_table
from lakeindex.cli.group import Failure
from lakeindex.cli.shared import json_option, say_compared
from lakeindex.errors import UsageError


@click.command()
@click.argument("table", required=False, metavar="[TABLE]", shell_complete=complete_table)
@click.option("--spark", is_flag=True, help="Start Spark, and send rows through a Python worker.")
@click.option("--write", is_flag=True, help="Write, list and delete a probe below TABLE.")
@json_option
@click.pass_context
def doctor(ctx: click.Context, table: str | None, spark: bool, write: bool, as_json: bool) -> None:
    """Check Python, packages, Java, Airflow's connection, memory and a table's storage, and say what to do.

    TABLE: a table's folder; it need not exist yet. Nothing is written without --write.
    """
    if write and table is None:
        raise UsageError("--write needs a table", culprit="--write", hint="name TABLE, below which a probe is written")
    from lakeindex.doctor.examine import examine

    found = examine(table, spark=spark, write=write)
    first = next(iter(found.failed), None)
    failure = None
    if first is not None:
        failure = Failure(first.error or "UsageError", first.found, first.name, first.cure, first.exit_code)
    say_compared(ctx, found, failure, as_json=as_json)
