"""``lakeindex upsert`` and ``lakeindex delete``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from lakeindex.cli.shared import json_option, pairs_option, parse_pairs, progress, say, table_argument
from lakeindex.errors import OptionError
from lakeindex.model import Operation
from lakeindex.options.parse import parse_options
from lakeindex.options.types import ReportFormat
from lakeindex.options.values import MEMORY_OPTION

_F = TypeVar("_F", bound=Callable[..., Any])

_WRITE_OPTIONS = (
    click.option(
        "--runner",
        type=click.Choice(["local", "spark"]),
        default="local",
        show_default=True,
        help="Threads of this process, or Spark.",
    ),
    click.option("--master", metavar="M", help="Spark master, e.g. local[4] or spark://host:7077."),
    click.option(
        "--memory",
        metavar="SIZE",
        help="Memory that the tasks of a process hold together, e.g. 2g; short for -o lakeindex.memory=SIZE.",
    ),
    click.option("--batch-id", metavar="ID", help="Name of the batch: the same id is committed once."),
    click.option(
        "--checkpoints", metavar="DIR", help="Root of the run folders; default: TABLE.lakeindex beside the table."
    ),
    click.option(
        "--max-quarantined",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        metavar="N",
        help="Number of bad rows that are tolerated.",
    ),
    click.option(
        "--force",
        is_flag=True,
        help="Commit a used batch id again; roll back pending instants of other writers whatever their age.",
    ),
    pairs_option,
    json_option,
)


def write_options(function: _F) -> _F:
    """Options that every write has."""
    for option in reversed(_WRITE_OPTIONS):
        function = option(function)
    return function


@click.command()
@table_argument
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@write_options
def upsert(table: str, inputs: tuple[str, ...], **given: Any) -> None:
    """Insert new keys, update those that are there, delete rows marked `_hoodie_is_deleted`.

    INPUT: Parquet, CSV or JSON files, folders of them, or * patterns.
    """
    _write(table, inputs, Operation.UPSERT, **given)


@click.command()
@table_argument
@click.argument("file", metavar="FILE")
@write_options
def delete(table: str, file: str, **given: Any) -> None:
    """Delete the keys of FILE, which has the key and partition columns."""
    _write(table, (file,), Operation.DELETE, **given)


def _write(  # noqa: PLR0913 - the command's options
    table: str,
    inputs: tuple[str, ...],
    operation: Operation,
    *,
    runner: str,
    master: str | None,
    memory: str | None,
    batch_id: str | None,
    checkpoints: str | None,
    max_quarantined: int,
    force: bool,
    options: tuple[str, ...],
    as_json: bool,
) -> None:
    pairs = parse_pairs(options if memory is None else (*options, f"{MEMORY_OPTION}={memory}"))
    parse_options(pairs)  # wrong options fail before anything loads
    if batch_id is not None and not batch_id.strip():
        raise OptionError("--batch-id cannot be empty", culprit="--batch-id", hint="name the batch, or leave it out")
    if master is not None and runner != "spark":
        raise OptionError("--master has no meaning for the local runner", culprit="--master", hint="add --runner spark")
    from lakeindex.runners import lean

    # isort: split
    from lakeindex.api.run import run
    from lakeindex.cli.rendering import show_run
    from lakeindex.pipeline import default_checkpoints

    lean.loaded()

    summary = run(
        table,
        list(inputs),
        operation,
        options=pairs,
        batch_id=batch_id,
        checkpoints=checkpoints,
        max_quarantined=max_quarantined,
        force=force,
        runner=runner,
        master=master,
        progress=progress(),
        report=ReportFormat.HTML,
    )
    say(summary, lambda console: show_run(console, summary), as_json=as_json)
    if not as_json:
        click.echo(f"more: lakeindex report {checkpoints or default_checkpoints(table)}/{summary.run_id}")
