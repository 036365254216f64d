"""A feed of changes as a batch of another table, and how far it is applied there."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeindex.commit.ledger import find_batch
from lakeindex.errors import InputError, ObjectNotFoundError, first_line
from lakeindex.hashing.arrow import plain_strings
from lakeindex.operations.changes.compare import Change
from lakeindex.operations.changes.feed import COMMIT_INSTANT
from lakeindex.pipeline import run_id_of
from lakeindex.run.feeds import Applied, applied, check_follows, mark_applied
from lakeindex.run.spec import RunSpec
from lakeindex.run.summary import RunSummary
from lakeindex.storage.paths import absolute
from lakeindex.storage.storage_file import StorageFile
from lakeindex.table.handle import Table
from lakeindex.tasks.stores import storage_at
from lakeindex.write.types.avro_schema import CHANGE_TYPE, DELETE_MARK

_GONE: Final = (str(Change.DELETE), str(Change.BEFORE))
_STAYS: Final = (str(Change.INSERT), str(Change.AFTER))
_BATCH_ROWS: Final = 65_536
_FORMATS: Final = "give what `lakeindex changes --out` writes, or another Parquet or Arrow file"


def applied_to(uri: str, source: str) -> Applied | None:
    """How far the changes of a source are applied to a table."""
    table = Table.at(uri)
    return applied(table.storage, table.load_timeline(), source)


def done_before(spec: RunSpec) -> RunSummary | None:
    """What is said of a feed whose changes are all applied; None if they are not. Raises: UsageError."""
    feed, table = spec.feed, Table.at(spec.table_uri)
    assert feed is not None  # this is what is applied
    timeline = table.load_timeline()
    done = check_follows(table.storage, timeline, feed)
    if done is None:
        return None
    note = f"nothing to do: the changes of {feed.source} are applied until {done.until}"
    entry = find_batch(table.storage, timeline, spec.batch_id)
    if entry is not None and entry.summary is not None:
        earlier = RunSummary.from_json(entry.summary)
        return replace(earlier, noop=True, notes=(*earlier.notes, note))
    run_id = spec.run_id or run_id_of(spec.batch_id)
    return RunSummary(done.instant or None, spec.batch_id, run_id, spec.operation, noop=True, notes=(note,))


def mark_empty(spec: RunSpec) -> None:
    """Of a feed with nothing to commit: it goes with the last one."""
    if spec.feed is not None and spec.feed.source:
        before = applied_to(spec.table_uri, spec.feed.source)
        mark_applied(storage_at(spec.table_uri), spec.feed, "" if before is None else before.instant)


def feed_in_files(paths: Sequence[str]) -> pa.RecordBatchReader:
    """The feed that some files hold. Raises: InputError: they hold none, or several."""
    opened = [_of_file(absolute(path)) for path in paths]
    first = opened[0][0]
    for path, (schema, _) in zip(paths, opened, strict=True):
        if schema.metadata != first.metadata or not schema.equals(first):
            raise InputError(
                f"{path!r} is of another feed than {paths[0]!r}", culprit=path, hint="apply one feed after the other"
            )
    return pa.RecordBatchReader.from_batches(first, (batch for _, batches in opened for batch in batches))


def _of_file(path: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Columns and batches of a file. Raises: InputError: it is not there, or none."""
    folder, name = posixpath.split(path)
    try:
        store = storage_at(folder)
        source = StorageFile(store, name, store.head(name).size_bytes)
        if name.lower().endswith((".arrow", ".feather", ".ipc")):
            arrow = pa.ipc.open_file(source)
            return arrow.schema, (arrow.get_batch(number) for number in range(arrow.num_record_batches))
        parquet = pq.ParquetFile(source)
        return parquet.schema_arrow, parquet.iter_batches(_BATCH_ROWS)
    except ObjectNotFoundError:
        raise InputError(f"no feed at {path!r}", culprit=path, hint="check the path") from None
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path!r} is no feed: {first_line(error)}", culprit=path, hint=_FORMATS) from error


def marked(rows: Any) -> Iterator[pa.RecordBatch]:
    """The feed as a batch: what is gone is marked as deleted. There is one record batch at least.

    Raises:
        InputError: it has no ``_change_type``.
    """
    if CHANGE_TYPE not in rows.schema.names:
        raise InputError(
            f"the feed has no column {CHANGE_TYPE!r}; it has: {', '.join(rows.schema.names)}",
            culprit=CHANGE_TYPE,
            hint="give what table.changes() or `lakeindex changes` gives; a batch without it is upserted",
        )
    kept = [field for field in rows.schema if field.name not in (CHANGE_TYPE, COMMIT_INSTANT, DELETE_MARK)]
    schema = pa.schema([*kept, pa.field(DELETE_MARK, pa.bool_())])

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([], schema)
        first = 0
        for batch in rows.to_batches() if isinstance(rows, pa.Table) else rows:
            gone = _gone(batch.column(CHANGE_TYPE), first)
            if DELETE_MARK in batch.schema.names:
                gone = _or_marked(gone, batch.column(DELETE_MARK))
            columns = [batch.column(batch.schema.get_field_index(field.name)) for field in kept]
            yield pa.RecordBatch.from_arrays([*columns, gone], schema=schema)
            first += batch.num_rows

    return batches()


def _gone(kinds: pa.Array, first: int) -> pa.Array:
    """Whether each row is gone by the change. Raises: InputError: a word that is none."""
    kinds = plain_strings(kinds).cast(pa.string())
    gone = pc.is_in(kinds, value_set=pa.array(_GONE))
    known = pc.or_(gone, pc.is_in(kinds, value_set=pa.array(_STAYS)))
    if not pc.all(known, min_count=0).as_py():
        row = int(np.flatnonzero(~known.to_numpy(zero_copy_only=False))[0])
        raise InputError(
            f"row {first + row} of the feed has the change type {kinds[row].as_py()!r}",
            culprit=str(first + row),
            hint=f"valid: {', '.join((*_STAYS, *_GONE))}",
        )
    return gone


def _or_marked(gone: pa.Array, mark: pa.Array) -> pa.Array:
    """The source has a column that marks rows as deleted, too."""
    return pc.or_(gone, pc.fill_null(mark.cast(pa.bool_()), fill_value=False))


def mark_expression() -> str:
    """The mark of a deleted row as Spark's SQL computes it; a word that is no change fails."""
    stays, gone = (", ".join(f"'{word}'" for word in words) for words in (_STAYS, _GONE))
    return (
        f"CASE WHEN {CHANGE_TYPE} IN ({stays}) THEN false WHEN {CHANGE_TYPE} IN ({gone}) THEN true "
        f"ELSE raise_error(concat('no change type: ', {CHANGE_TYPE})) END AS {DELETE_MARK}"
    )
