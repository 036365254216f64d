"""Rows that a caller holds: what counts as a table in memory, and what is read batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from lakeindex.errors import InputError, first_line
from lakeindex.frozen import Frozen
from lakeindex.options.option import PARTIAL_OPTION
from lakeindex.options.types import PartialUpdate
from lakeindex.time_spent import loading
from lakeindex.write.types.avro_schema import DELETE_MARK, META_COLUMNS
from lakeindex.write.types.type_fit import decoded_schema, decoded_table, python_problem

ROWS_HINT: Final = (
    "give an Arrow table, reader or dataset, record batches (a list or a generator), rows as a list of dicts, "
    "a pandas, Polars, DuckDB or Spark frame, what has __arrow_c_stream__, or paths of files; "
    "rows, and keys to delete, are given as columns, for example pyarrow.table({'id': ['a', 'b']})"
)
_SCAN_ROWS: Final = 65_536


class RowStream(Frozen):
    """Rows that come batch by batch, and once.

    Attributes:
        schema: their columns.
        batches: record batches of these columns.
    """

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]


def rows_in(data: Any) -> pa.Table | RowStream:
    """Rows in memory as a table; what is not in memory as a stream, of which nothing but the columns is read yet.

    Raises:
        InputError: it is nothing that has rows, or its rows do not have one type a column.
    """
    for kind in (_in_memory, _from_library, _from_protocol):
        found = kind(data)
        if found is not None:
            return found if isinstance(found, pa.Table) else _plain(found)
    raise _no_batch(data)


def _in_memory(data: Any) -> pa.Table | None:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if _is_of("pandas", data):
        return _from_pandas(data)
    return _from_list(data) if isinstance(data, (list, tuple)) and data else None


def _from_protocol(data: Any) -> pa.Table | RowStream | None:
    if isinstance(data, pa.RecordBatchReader) or hasattr(data, "__arrow_c_stream__"):
        try:
            reader = data if isinstance(data, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(data)
        except pa.ArrowInvalid as error:  # the stream of a single column
            raise _no_batch(data) from error
        return RowStream(reader.schema, _not_used_up(data, _guarded(reader)))
    if hasattr(data, "__arrow_c_array__"):
        return pa.Table.from_batches([pa.record_batch(data)])
    return _from_iterator(data) if isinstance(data, Iterator) else None


def _is_of(library: str, data: Any) -> bool:
    """Whether a type of the library is among those that the data have: scans give datasets of a type of ours."""
    return any(kind.__module__.partition(".")[0].lstrip("_") == library for kind in type(data).__mro__)


def all_rows(data: Any) -> pa.Table:
    """The rows as a table; a stream is read to its end. Raises: as :func:`rows_in`."""
    found = rows_in(data)
    return found if isinstance(found, pa.Table) else pa.Table.from_batches(found.batches, found.schema)


def _no_batch(data: Any) -> InputError:
    name = type(data).__name__
    return InputError(f"a batch cannot be a {name}", culprit=name, hint=ROWS_HINT)


def _from_library(data: Any) -> pa.Table | RowStream | None:
    """Frames that stream in a way of their own; None for what is none of them."""
    if _is_of("pyarrow", data):
        return _from_dataset(data)
    if _is_of("polars", data):
        if hasattr(data, "collect_schema") and hasattr(data, "collect"):
            return _from_lazy_polars(data)
        return _of_polars(data) if hasattr(data, "height") else None  # a frame; a series has no columns
    if _is_of("duckdb", data):
        read = getattr(data, "to_arrow_reader", None) or getattr(data, "fetch_arrow_reader", None)
        reader = read(_SCAN_ROWS) if read is not None else None
        if reader is not None:
            return RowStream(reader.schema, _guarded(reader))
        if read is not None:  # a connection whose result was fetched
            raise _used_up(data)
    return None


def _from_dataset(data: Any) -> RowStream | None:
    """A dataset one file after the other: Arrow would read 16 batches of each of 4 files ahead."""
    with loading():
        import pyarrow.dataset as ds

        from lakeindex.storage.arrow_files import reader_of

    if isinstance(data, ds.Dataset):
        scanner = data.scanner(batch_size=_SCAN_ROWS, batch_readahead=1, fragment_readahead=1, use_threads=False)
    elif isinstance(data, ds.Scanner):
        scanner = data
    else:
        return None
    reader = reader_of(scanner)
    return RowStream(reader.schema, _guarded(reader))


def _from_lazy_polars(data: Any) -> pa.Table | RowStream:
    if not hasattr(data, "collect_batches"):  # Polars before 1.34
        return _of_polars(data.collect())
    # an empty frame of these columns says what Arrow will call them
    columns = _of_polars(data.collect_schema().to_frame()).schema

    def batches() -> Iterator[pa.RecordBatch]:
        for frame in data.collect_batches(chunk_size=_SCAN_ROWS, maintain_order=True):
            yield from pa.table(frame).to_batches()

    return RowStream(columns, batches())


def _of_polars(frame: Any) -> pa.Table:
    """A frame as a table. Raises: InputError: Arrow has no type for a column, or takes it for bytes (objects)."""
    name = next((name for name, kind in frame.schema.items() if str(kind) == "Object"), None)
    if name is None:
        try:
            return pa.table(frame)
        except pa.ArrowException:
            name = next((name for name in frame.columns if not _is_known_to_arrow(frame.select(name))), None)
            if name is None:
                raise
    raise InputError(
        f"column {name} of the frame is {frame.schema[name]}, for which Arrow has no type",
        culprit=name,
        hint="cast it before the write, for example to a decimal or a text",
    )


def _is_known_to_arrow(frame: Any) -> bool:
    try:
        return pa.table(frame.clear()) is not None
    except pa.ArrowException:
        return False


def _from_list(data: Sequence[Any]) -> pa.Table:
    if all(isinstance(one, (pa.RecordBatch, pa.Table)) for one in data):
        tables = [one if isinstance(one, pa.Table) else pa.Table.from_batches([one]) for one in data]
        for number, one in enumerate(tables):
            _check_columns(tables[0].schema, one.schema, number)
        return pa.concat_tables([one.replace_schema_metadata(tables[0].schema.metadata) for one in tables])
    if all(isinstance(one, Mapping) for one in data):
        return _from_dicts(data)
    raise _no_batch(data)


def check_same_names(data: Any) -> None:
    """Make sure that rows of dicts update the same columns, as the files of a partial update do; a delete has none.

    Raises:
        InputError: a row leaves out what others have, and a null would be stored.
    """
    if not isinstance(data, list | tuple) or not all(isinstance(one, Mapping) for one in data):
        return
    names = dict.fromkeys(name for name in chain.from_iterable(data) if name not in (*META_COLUMNS, DELETE_MARK))
    for number, row in enumerate(data):
        lacking = next((name for name in names if name not in row), None)
        if lacking is not None and not row.get(DELETE_MARK):
            raise InputError(
                f"row number {number} of the batch lacks column {lacking!r}, which others have, and "
                f"{PARTIAL_OPTION}={PartialUpdate.OVERWRITE} would store a null",
                culprit=str(lacking),
                hint=f"make a batch of each set of columns, or give {PARTIAL_OPTION}={PartialUpdate.KEEP}: nulls keep "
                "what is stored",
            )


def _from_dicts(rows: Sequence[Mapping[Any, Any]]) -> pa.Table:
    """Rows as they are written in Python; a name that a row leaves out is null in it."""
    names = list(dict.fromkeys(chain.from_iterable(rows)))
    columns: list[pa.Array] = []
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"a column cannot be named {name!r}", culprit=repr(name), hint="names must be texts")
        values = [row.get(name) for row in rows]
        try:
            columns.append(pa.array(values))
            _check_one_kind(values, columns[-1].type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"column {name} of the rows has no one type: {first_line(error)}",
                culprit=name,
                hint="give each column one type, or give an Arrow table",
            ) from error
    return pa.table(columns, names=names)


def _check_one_kind(values: Iterable[Any], kind: pa.DataType, where: str = "") -> None:
    """Arrow takes a time among dates for a date, and leaves zones out of times among such without one.

    Raises:
        ArrowInvalid: there is one.
    """
    said = str(kind)
    for value in values if "date" in said or "timestamp" in said else ():
        problem = python_problem(value, kind)
        if problem is not None:
            raise pa.ArrowInvalid(f"{where}{value!r} is among values of the type {kind}: {problem}")


def _from_iterator(items: Iterator[Any]) -> RowStream:
    first = next(items, None)
    if first is None:
        raise InputError(
            "the generator gave no batch, and so no columns",
            culprit=type(items).__name__,
            hint="where there is nothing to write, leave the write out, or yield one batch without rows",
        )
    schema = _batches_of(first, 0).schema

    def batches() -> Iterator[pa.RecordBatch]:
        for number, item in enumerate(chain([first], items)):
            some = _batches_of(item, number)
            _check_columns(schema, some.schema, number)
            yield from some.to_batches()

    return RowStream(schema, batches())


def _batches_of(item: Any, number: int) -> pa.Table:
    """What a generator gave, as a table. Raises: InputError: it is no batch."""
    is_batch = isinstance(item, (pa.Table, pa.RecordBatch)) or hasattr(item, "__arrow_c_stream__")
    if is_batch or type(item).__module__.startswith("pandas."):
        return all_rows(item)
    raise InputError(
        f"a generator of batches gave a {type(item).__name__} as number {number}",
        culprit=type(item).__name__,
        hint="yield record batches, Arrow tables or frames; rows as dicts, and paths, are given as a list",
    )


def _check_columns(schema: pa.Schema, other: pa.Schema, number: int) -> None:
    if other.equals(schema):
        return
    one, two = ({field.name: str(field.type) for field in fields} for fields in (schema, other))
    odd = [
        f"{name} is {two.get(name, 'not there')}, was {one.get(name, 'not there')}"
        for name in dict.fromkeys([*one, *two])
        if one.get(name) != two.get(name)
    ]
    raise InputError(
        f"batch number {number} has other columns than the first: {'; '.join(odd) or 'another order or nullability'}",
        culprit=f"batch {number}",
        hint="give every batch the same columns, in one order",
    )


def _plain(stream: RowStream) -> RowStream:
    """Without encodings, which an Arrow file cannot change from batch to batch."""
    schema = decoded_schema(stream.schema)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in stream.batches:
            # not by a cast: one to the same type loses where a slice of runs begins
            rows = decoded_table(pa.Table.from_batches([batch]))
            yield from pa.table(rows.columns, schema=schema).to_batches()

    return RowStream(schema, batches())


def _not_used_up(data: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches of what may be readable once. Raises: InputError: there is none, and it cannot be read again."""
    first = next(batches, None)
    if first is None:
        try:
            if isinstance(data, pa.RecordBatchReader):
                raise _used_up(data)
            pa.RecordBatchReader.from_stream(data)
        except (pa.ArrowException, RuntimeError, ValueError, OSError):
            raise _used_up(data) from None
        return
    yield first
    yield from batches


def _used_up(data: Any) -> InputError:
    name = type(data).__name__
    return InputError(
        f"the {name} gave no record batch: it was read to its end before, or never had one",
        culprit=name,
        hint="make it anew for every write; where there is nothing to write, leave the write out, "
        "or give an Arrow table without rows",
    )


def _guarded(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The batches of a reader. Raises: InputError: it fails."""
    number = 0
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"the batch's stream failed after {number} record batches: {first_line(error)}",
                culprit=type(reader).__name__,
                hint="nothing was published; give the batch again",
            ) from error
        yield batch
        number += 1


def _from_pandas(frame: Any) -> pa.Table:
    """A frame whose columns have one type each; levels of its index that have names are columns.

    Raises:
        InputError: a column has not, or a level is named like a column.
    """
    if not hasattr(frame, "columns"):  # a series
        raise _no_batch(frame)
    named = [name for name in frame.index.names if name is not None]
    both = next((name for name in named if name in frame.columns), None)
    if both is not None:
        raise InputError(
            f"the frame has a column {both!r}, and its index is called so, too",
            culprit=str(both),
            hint="rename one, or drop the index with frame.reset_index(drop=True)",
        )
    if named:
        frame = frame.reset_index(level=named)
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
        for place, field in enumerate(table.schema):
            if frame.dtypes.iloc[place] == "object":
                _check_one_kind(frame.iloc[:, place], field.type, f"column {field.name} has no one type: ")
        return table
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        told = [str(one) for one in error.args]
        raise InputError(
            f"the frame cannot be made an Arrow table: {'; '.join(reversed(told)) or type(error).__name__}",
            culprit=next((name for name in map(str, frame.columns) if f"column {name} " in " ".join(told)), None),
            hint="give each column one type, for example with frame.astype({'id': 'string'})",
        ) from error
