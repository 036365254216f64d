"""The commands that write rows or take them away: upsert, insert, overwrite, delete and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, cast

import click

from lakeindex.cli.shared import (
    checkpoints_option,
    given_options,
    json_option,
    memory_option,
    pairs_option,
    passed_on,
    runner_options,
    say,
    table_argument,
)
from lakeindex.errors import OptionError
from lakeindex.model import Change, Operation
from lakeindex.options.option import (
    CONDITION_OPTIONS,
    DUPLICATES_OPTION,
    MEMORY_OPTION,
    MERGE_OPTION,
    PARTIAL_OPTION,
)
from lakeindex.options.types import SchemaMode

if TYPE_CHECKING:
    from lakeindex.api.arguments import OnConflict, RunArguments
    from lakeindex.run.summary import RunSummary

_BATCH_ID = click.option("--batch-id", metavar="ID", help="Name of the batch: the same id is committed once.")
_FORCE = click.option(
    "--force",
    is_flag=True,
    help="Commit a used batch id again; roll back pending instants of other writers whatever their age.",
)
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Only say what would be done; nothing is written.")
_write_options = given_options(
    runner_options,
    memory_option,
    _BATCH_ID,
    checkpoints_option,
    click.option(
        "--max-quarantined",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        metavar="N",
        help="Number of bad rows that are tolerated.",
    ),
    _FORCE,
    click.option(
        "--schema-mode",
        type=click.Choice([str(mode) for mode in SchemaMode]),
        help="What the batch may change of the table's columns; short for -o lakeindex.schema.mode=MODE.",
    ),
    _DRY_RUN,
    pairs_option,
    json_option,
)
_replace_options = given_options(_BATCH_ID, checkpoints_option, _FORCE, _DRY_RUN, pairs_option, json_option)

_WHERE_HELP = "The rows: a condition as behind SQL's WHERE, such as \"amount < 0 AND day = '2026-10-01'\"."
_WHERE = click.option("--where", metavar="CONDITION", help=_WHERE_HELP)
_REQUIRED_WHERE = click.option("--where", metavar="CONDITION", required=True, help=_WHERE_HELP)


@click.command()
@table_argument
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--update-if", metavar="COND", help="Update a stored row only if this holds: 'new.ts > old.ts'.")
@click.option("--insert-if", metavar="COND", help="Insert a new key only if this holds: 'new.amount > 0'.")
@click.option("--delete-if", metavar="COND", help="Delete the stored row if this holds; asked before --update-if.")
@click.option("--partial", is_flag=True, help="The batch may lack columns: they stay as they are in updated rows.")
@click.option(
    "--nulls",
    type=click.Choice(["overwrite", "keep"]),
    help="With --partial: a null of the batch is stored (the default), or leaves the stored value.",
)
@click.option("--merge", metavar="MODULE:FUNCTION", help="A function that makes one row of a stored and a new one.")
@_write_options
def upsert(  # noqa: PLR0913 - its options
    table: str,
    inputs: tuple[str, ...],
    *,
    update_if: str | None,
    insert_if: str | None,
    delete_if: str | None,
    partial: bool,
    nulls: Literal["overwrite", "keep"] | None,
    merge: str | None,
    **given: Any,
) -> None:
    """Insert new keys, update those that are there, delete rows marked `_hoodie_is_deleted`.

    INPUT: Parquet, CSV or JSON files, folders of them, or * patterns.
    """
    if nulls is not None and not partial:
        raise OptionError("--nulls belongs to a partial update", culprit="--nulls", hint="say --partial, too")
    said = {CONDITION_OPTIONS["update_if"]: update_if, CONDITION_OPTIONS["insert_if"]: insert_if}
    said |= {CONDITION_OPTIONS["delete_if"]: delete_if, MERGE_OPTION: merge}
    said[PARTIAL_OPTION] = (nulls or "overwrite") if partial else None
    given["options"] = (*given["options"], *(f"{key}={text}" for key, text in said.items() if text is not None))
    _write(table, inputs, Operation.UPSERT, **given)


@click.command()
@table_argument
@click.argument("feeds", nargs=-1, metavar="[FEED]...")
@click.option("--from", "source", metavar="SOURCE", help="Apply the changes of this table, instead of files.")
@click.option("--since", metavar="I", help="With --from: changes after this point; default: what is applied already.")
@click.option("--until", metavar="I", help="With --from: changes up to this point, inclusive; default: now.")
@_write_options
def apply(
    table: str, feeds: tuple[str, ...], source: str | None, since: str | None, until: str | None, **given: Any
) -> None:
    """Apply the changes of another table: what it inserted and updated is upserted, what it deleted is deleted.

    FEED: Parquet files that `lakeindex changes` wrote. Each feed is applied once, and in the order of its source.
    With --from it goes on where the last one ended.
    """
    if bool(feeds) is (source is not None):
        hint = "lakeindex apply TABLE changes.parquet, or lakeindex apply TABLE --from SOURCE"
        raise OptionError("apply takes either FEED or --from", culprit="--from", hint=hint)
    if source is None and (since or until) is not None:
        raise OptionError("--since and --until belong to --from", culprit="--since", hint="name the source, too")

    def work(arguments: RunArguments) -> RunSummary:
        from lakeindex.api.table import LakeTable

        target = LakeTable(table)
        if source is None:
            return target.apply(list(feeds), **arguments)
        begin = since or target.applied_until(source)
        return target.apply(LakeTable(source).changes(since=begin, until=until), **arguments)

    _run(table, work, **given)


@click.command()
@table_argument
@click.argument("file", metavar="[FILE]", required=False)
@_WHERE
@_write_options
def delete(table: str, file: str | None, where: str | None, **given: Any) -> None:
    """Delete the keys of FILE, which has the key and partition columns, or the rows that meet a condition.

    If the paths of partitions decide the condition alone, whole partitions go, and no row is read.
    """
    if (file is None) is (where is None):
        raise OptionError(
            "a delete takes either FILE or --where",
            culprit="--where",
            hint='lakeindex delete TABLE keys.csv, or lakeindex delete TABLE --where "amount < 0"',
        )
    if file is not None:
        _write(table, (file,), Operation.DELETE, **given)
    else:
        _change(table, Change.DELETE, str(where), **given)


@click.command()
@table_argument
@click.option(
    "--set",
    "set_",
    multiple=True,
    required=True,
    metavar="COLUMN=VALUE",
    help="New value of a column, an expression over the row as it was: --set \"status='closed'\". Repeatable.",
)
@_REQUIRED_WHERE
@_write_options
def update(table: str, set_: tuple[str, ...], where: str, **given: Any) -> None:
    """Set columns of the rows that meet a condition.

    Columns of the record key and of the partition path cannot be set.
    """
    _change(table, Change.UPDATE, where, values=_values(set_), **given)


@click.command("replace-where")
@table_argument
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@_REQUIRED_WHERE
@_write_options
def replace_where(table: str, inputs: tuple[str, ...], where: str, **given: Any) -> None:
    """Put a batch in the place of the rows that meet a condition, which all rows of the batch must meet.

    INPUT: as for upsert.
    """
    _change(table, Change.REPLACE, where, inputs=inputs, **given)


@click.command()
@table_argument
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option(
    "--on-conflict",
    type=click.Choice(["error", "ignore"]),
    help="What becomes of a row whose key is stored: it is a bad row (error, the default), or is left out (ignore).",
)
@_write_options
def insert(table: str, inputs: tuple[str, ...], on_conflict: OnConflict | None, **given: Any) -> None:
    """Insert new keys; a key that is stored is an error, or its row is left out.

    INPUT: as for upsert.
    """
    if on_conflict is not None:
        policy = {"error": "fail", "ignore": "drop"}[on_conflict]
        given["options"] = (*given["options"], f"{DUPLICATES_OPTION}={policy}")
    _write(table, inputs, Operation.INSERT, **given)


@click.command("bulk-insert")
@table_argument
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@_write_options
def bulk_insert(table: str, inputs: tuple[str, ...], **given: Any) -> None:
    """Load a batch into an empty table or empty partitions, without looking a key up.

    INPUT: as for upsert; no key may be in it twice.
    """
    _write(table, inputs, Operation.BULK_INSERT, **given)


@click.command()
@table_argument
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--whole-table", is_flag=True, help="All partitions are replaced, also those without a row in the batch.")
@_write_options
def overwrite(table: str, inputs: tuple[str, ...], whole_table: bool, **given: Any) -> None:
    """Put a batch in the place of all rows of the partitions that it has rows of.

    INPUT: as for upsert.
    """
    operation = Operation.INSERT_OVERWRITE_TABLE if whole_table else Operation.INSERT_OVERWRITE
    _write(table, inputs, operation, **given)


@click.command("delete-partitions")
@table_argument
@click.argument("partitions", nargs=-1, required=True, metavar="PARTITION...")
@_replace_options
def delete_partitions(table: str, partitions: tuple[str, ...], **given: Any) -> None:
    """Take whole partitions out of the table, without reading a row.

    PARTITION: a partition path, as `lakeindex inspect` lists them. The files are there until a clean deletes them.
    """
    _replace(table, partitions, **given)


@click.command()
@table_argument
@_replace_options
def truncate(table: str, **given: Any) -> None:
    """Take all rows out of the table, without reading one. Columns, index and properties stay."""
    _replace(table, None, **given)


def _replace(table: str, partitions: tuple[str, ...] | None, *, as_json: bool, **given: Any) -> None:
    arguments = _passed_on(**given)
    from lakeindex.api.run import run_delete_partitions

    say(run_delete_partitions(table, partitions, **arguments), as_json=as_json)


def _values(texts: tuple[str, ...]) -> dict[str, str]:
    """``--set`` texts, by column."""
    values: dict[str, str] = {}
    for text in texts:
        column, sign, value = text.partition("=")
        column = column.strip()
        if not sign or not column:
            raise OptionError(f"--set cannot be {text!r}", culprit=text, hint="write --set COLUMN=VALUE")
        if column in values:
            raise OptionError(f"column {column} is set twice", culprit=column, hint="give one value")
        values[column] = value
    return values


def _passed_on(*, batch_id: str | None, **given: Any) -> dict[str, Any]:
    arguments = passed_on(**given)
    if batch_id is not None and not batch_id.strip():
        raise OptionError("--batch-id cannot be empty", culprit="--batch-id", hint="name the batch, or leave it out")
    return {**arguments, "batch_id": batch_id}


def _write(table: str, inputs: tuple[str, ...], operation: Operation, **given: Any) -> None:
    """A batch."""

    def work(arguments: RunArguments) -> RunSummary:
        from lakeindex.api.run import run

        return run(table, list(inputs), operation, **arguments)

    _run(table, work, **given)


def _change(
    table: str,
    change: Change,
    where: str,
    *,
    values: dict[str, str] | None = None,
    inputs: tuple[str, ...] = (),
    **given: Any,
) -> None:
    """The rows that meet a condition."""

    def work(arguments: RunArguments) -> RunSummary:
        from lakeindex.api.run import run_where

        return run_where(table, change, where, values=values, data=list(inputs) or None, **arguments)

    _run(table, work, **given)


def _run(
    table: str, work: Callable[[RunArguments], RunSummary], *, memory: str | None, as_json: bool, **given: Any
) -> None:
    if memory is not None:
        given["options"] = (*given["options"], f"{MEMORY_OPTION}={memory}")
    arguments = _passed_on(**given)
    from lakeindex.tasks import fast_start

    # isort: split
    from lakeindex.pipeline import default_checkpoints
    from lakeindex.storage.paths import absolute

    fast_start.loaded()

    summary = work(cast("RunArguments", arguments))
    say(summary, as_json=as_json)
    if not as_json and not arguments["dry_run"]:
        named = default_checkpoints(table)
        beside = default_checkpoints(absolute(table))
        root = arguments["checkpoints"] or (named if absolute(named) == beside else beside)
        click.echo(f"more: lakeindex report {root}/{summary.run_id}")
