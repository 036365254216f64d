"""What a caller hands over as a batch: frames in memory, paths, Spark's tables; made into files that a run reads."""

from __future__ import annotations

import os
import posixpath
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from lakeindex.errors import InputError, UsageError
from lakeindex.storage.paths import absolute

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeindex.run.spec import RunSpec
    from lakeindex.tasks.runner import Runner

ROWS_HINT = "rows, and keys to delete, are given as columns, for example pyarrow.table({'id': ['a', 'b']})"
_IN_MEMORY_BYTES = 64 * 1024 * 1024

PointInTime: TypeAlias = str | date
"""An instant or ISO time as text, a datetime, or a date (its first moment)."""

BatchData: TypeAlias = Any
"""An Arrow table or record batches, a pandas or Polars frame, a Spark DataFrame, or a path or paths of files."""


def uri_text(uri: Any) -> str:
    """A table's path or URL as text.

    Raises:
        UsageError: it is neither text nor a path.
    """
    text = os.fspath(uri) if isinstance(uri, (str, os.PathLike)) else uri
    if not isinstance(text, str):
        raise UsageError(
            f"a table cannot be at {uri!r}", culprit=repr(uri), hint="give its path, or a URL such as s3://bucket/table"
        )
    return text


def point_text(point: Any, name: str) -> str | None:
    """A point in time as text: an instant, an ISO time, a datetime (UTC if it has no zone) or a date.

    Raises:
        UsageError: it is none of these.
    """
    if isinstance(point, datetime):
        return point.isoformat()
    if isinstance(point, date):
        return point.isoformat()
    if point is None or isinstance(point, str):
        return point
    raise UsageError(
        f"{name} cannot be {point!r}", culprit=name, hint="give an instant or an ISO time as text, or a datetime"
    )


def with_inputs(spec: RunSpec, data: BatchData, runner: Runner) -> RunSpec:
    """The run with its inputs named; data in memory is written to the run folder first, in pieces."""
    if isinstance(data, (str, os.PathLike)):
        data = [data]
    if isinstance(data, Sequence) and data and all(isinstance(d, (str, os.PathLike)) for d in data):
        return _with_paths(spec, [os.fspath(d) for d in data], runner)
    folder = f"{spec.run_id}/input/{uuid.uuid4().hex[:12]}"
    if type(data).__module__.startswith("pyspark.") and hasattr(data, "mapInArrow"):
        from lakeindex.runners.spark import SparkRunner, write_pieces

        if not isinstance(runner, SparkRunner):
            raise UsageError("a Spark DataFrame needs the Spark runner", hint="pass runner='spark'")
        paths = write_pieces(data, spec.checkpoints_uri, folder)
        return replace(spec, inputs=tuple(posixpath.join(spec.checkpoints_uri, p) for p in paths))
    return replace(spec, inputs=_write_in_memory(spec, arrow_table(data), folder))


def _with_paths(spec: RunSpec, paths: Sequence[str], runner: Runner) -> RunSpec:
    """Paths made absolute; ``table:NAME`` is a table of the Spark session."""
    if not any(p.startswith("table:") for p in paths):
        return replace(spec, inputs=tuple(absolute(p) for p in paths))
    from lakeindex.runners.spark import SparkRunner, with_tables_written

    if not isinstance(runner, SparkRunner):
        raise UsageError(f"{paths[0]!r} is a Spark table, which needs the Spark runner", hint="--runner spark")
    inputs = tuple(p if p.startswith("table:") else absolute(p) for p in paths)
    return with_tables_written(replace(spec, inputs=inputs), runner)


def arrow_table(data: BatchData) -> pa.Table:
    """Data in memory as an Arrow table.

    Raises:
        InputError: it is nothing that can be one.
    """
    import pyarrow as pa

    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, (pa.RecordBatchReader,)):
        return data.read_all()
    if type(data).__module__.startswith("pandas."):
        return _from_pandas(data)
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    raise InputError(
        f"a batch cannot be a {type(data).__name__}",
        culprit=type(data).__name__,
        hint=f"give an Arrow table, a pandas, Polars or Spark frame, or paths of files; {ROWS_HINT}",
    )


def _from_pandas(frame: Any) -> pa.Table:
    """A frame whose columns have one type each. Raises: InputError: one has not."""
    import pyarrow as pa

    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        told = [str(one) for one in error.args]
        raise InputError(
            f"the frame cannot be made an Arrow table: {'; '.join(reversed(told)) or type(error).__name__}",
            culprit=next((name for name in map(str, frame.columns) if f"column {name} " in " ".join(told)), None),
            hint="give each column one type, for example with frame.astype({'id': 'string'})",
        ) from error


def _write_in_memory(spec: RunSpec, table: pa.Table, folder: str) -> tuple[str, ...]:
    """Write rows as Arrow files of a fixed size: the batch's digest must not depend on options."""
    import pyarrow as pa

    from lakeindex.storage import open_storage

    store = open_storage(spec.checkpoints_uri)
    rows = max(-(-table.num_rows // max(-(-table.nbytes // _IN_MEMORY_BYTES), 1)), 1)
    paths = []
    for number, start in enumerate(range(0, max(table.num_rows, 1), rows)):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table.slice(start, rows))
        path = f"{folder}/{number:05d}.arrow"
        store.write(path, sink.getvalue().to_pybytes())
        paths.append(posixpath.join(spec.checkpoints_uri, path))
    return tuple(paths)
