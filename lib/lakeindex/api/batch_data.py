"""What a caller hands over as a batch: frames in memory, paths, Spark's tables; made into files that a run reads."""

from __future__ import annotations

import os
import posixpath
import re
import uuid
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from lakeindex.errors import UsageError
from lakeindex.options.types import PartialUpdate
from lakeindex.pipeline import TABLE_PREFIX, default_checkpoints
from lakeindex.storage.paths import absolute

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeindex.run.spec import RunSpec
    from lakeindex.tasks.runner import Runner

_IN_MEMORY_BYTES = 64 * 1024 * 1024

PointInTime: TypeAlias = str | date
"""An instant or ISO time as text, a datetime, or a date (its first moment)."""

BatchData: TypeAlias = Any
"""Arrow tables, readers, datasets and record batches, generators of batches, dicts, pandas, Polars, DuckDB and Spark
frames, what has ``__arrow_c_stream__``, or a path or paths of files: the table of docs/api.md."""


PathText: TypeAlias = str | os.PathLike[str]
"""A path or a URL as text, or a path."""


def uri_text(uri: Any, what: str = "a table") -> str:
    """A path or URL of a table, or of something else, as text.

    Raises:
        UsageError: it is neither text nor a path.
    """
    text = os.fspath(uri) if isinstance(uri, (str, os.PathLike)) else uri
    if not isinstance(text, str):
        hint = "give a path, or a URL such as s3://bucket/folder"
        raise UsageError(f"{what} cannot be at {uri!r}", culprit=repr(uri), hint=hint)
    return text


def run_folders(checkpoints: PathText | None, table_uri: str) -> str:
    """The root of the run folders: as given, else beside the table. Raises: UsageError: it is no path."""
    return uri_text(checkpoints, "run folders") if checkpoints else default_checkpoints(absolute(table_uri))


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


def names_of(given: Any, what: str) -> tuple[str, ...] | None:
    """Names as a caller gives them; None if there are none. Raises: UsageError: a single text, or what is no text."""
    if given is None:
        return None
    names = None if isinstance(given, (str, bytes)) or not isinstance(given, Iterable) else tuple(given)
    if names is None or not all(isinstance(name, str) for name in names):
        example = given if isinstance(given, str) and re.fullmatch(r"[\w=/-]+", given) else "a"
        hint = f"give a list of texts, such as {what}=['{example}']"
        raise UsageError(f"{what} cannot be {given!r}", culprit=what, hint=hint)
    return names


def name_of(given: Any, what: str) -> str | None:
    """A name as a caller gives it. Raises: UsageError: it is no text."""
    if given is not None and not isinstance(given, str):
        raise UsageError(f"{what} cannot be {given!r}", culprit=what, hint="give a text")
    return given


def with_inputs(spec: RunSpec, data: BatchData, runner: Runner) -> RunSpec:
    """The run with its inputs named; rows that are no files are written to the run folder first, in pieces.

    A stream is read once, here. Whatever of the run is done again reads the pieces.
    """
    paths = paths_in(data)
    if paths is not None:
        return _with_paths(spec, paths, runner)
    folder = f"{spec.run_id}/input/{uuid.uuid4().hex[:12]}"
    if is_spark_frame(data):
        from lakeindex.runners.spark import SparkRunner, write_pieces

        if not isinstance(runner, SparkRunner):
            raise UsageError("a Spark DataFrame needs the Spark runner", hint="pass runner='spark'")
        return _with_pieces(spec, write_pieces(data, spec.checkpoints_uri, folder))
    import pyarrow as pa

    from lakeindex.api.given_rows import check_same_names, rows_in

    if spec.config.partial_update is PartialUpdate.OVERWRITE:
        check_same_names(data)
    rows = rows_in(data)
    if isinstance(rows, pa.Table):
        return replace(spec, inputs=_write_in_memory(spec, rows, folder))
    from lakeindex.run import row_pieces
    from lakeindex.tasks.stores import storage_at

    blocks = row_pieces.in_blocks(rows.batches)
    written = row_pieces.write_pieces(storage_at(spec.checkpoints_uri), f"{folder}/", rows.schema, blocks)
    return _with_pieces(spec, [path for path, _ in written])


def _with_pieces(spec: RunSpec, paths: Sequence[str]) -> RunSpec:
    return replace(spec, inputs=tuple(posixpath.join(spec.checkpoints_uri, path) for path in paths))


def _with_paths(spec: RunSpec, paths: Sequence[str], runner: Runner) -> RunSpec:
    """Paths made absolute; ``table:NAME`` is a table of the Spark session."""
    if not any(p.startswith(TABLE_PREFIX) for p in paths):
        return replace(spec, inputs=tuple(absolute(p) for p in paths))
    from lakeindex.runners.spark import SparkRunner, with_tables_written

    if not isinstance(runner, SparkRunner):
        raise UsageError(f"{paths[0]!r} is a Spark table, which needs the Spark runner", hint="--runner spark")
    inputs = tuple(p if p.startswith(TABLE_PREFIX) else absolute(p) for p in paths)
    return with_tables_written(replace(spec, inputs=inputs), runner)


def is_spark_frame(data: Any) -> bool:
    """Whether it is a DataFrame of Spark; asked without loading Spark."""
    return type(data).__module__.startswith("pyspark.") and hasattr(data, "mapInArrow")


def paths_in(data: BatchData) -> list[str] | None:
    """The paths that are given as a batch; None if it is something else."""
    if isinstance(data, (str, os.PathLike)):
        data = [data]
    if isinstance(data, Sequence) and data and all(isinstance(d, (str, os.PathLike)) for d in data):
        return [os.fspath(d) for d in data]
    return None


def schema_of(data: BatchData) -> pa.Schema:
    """The columns of a batch in memory; nothing of a stream is read but them.

    Raises:
        InputError: it is nothing that has rows.
    """
    if is_spark_frame(data):
        from lakeindex.runners.spark import frame_schema

        return frame_schema(data)
    from lakeindex.api.given_rows import rows_in

    return rows_in(data).schema


def _write_in_memory(spec: RunSpec, table: pa.Table, folder: str) -> tuple[str, ...]:
    """Write rows as Arrow files of a fixed size: the batch's digest must not depend on options."""
    from lakeindex.storage import open_storage

    store = open_storage(spec.checkpoints_uri)
    rows = max(-(-table.num_rows // max(-(-table.nbytes // _IN_MEMORY_BYTES), 1)), 1)
    paths = []
    for number, start in enumerate(range(0, max(table.num_rows, 1), rows)):
        path = f"{folder}/{number:05d}.arrow"
        store.write(path, _arrow_file(table.slice(start, rows)))
        paths.append(posixpath.join(spec.checkpoints_uri, path))
    return tuple(paths)


def _arrow_file(rows: pa.Table) -> bytes:
    """The bytes of an Arrow file, with the rows as they come if it can hold them so: it cannot, if two record batches
    have different dictionaries.
    """
    import pyarrow as pa

    from lakeindex.write.types.type_fit import decoded_table

    sink = pa.BufferOutputStream()
    try:
        with pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        sink, rows = pa.BufferOutputStream(), decoded_table(rows)
        with pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows)
    content: bytes = sink.getvalue().to_pybytes()
    return content
