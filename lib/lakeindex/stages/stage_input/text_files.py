"""CSV and JSON files of the batch, read in pieces. The table's columns say what their texts and numbers are.

Numbers are exact: the text of a number never becomes a float on the way. What is no value of its column's type is null,
and the problem is reported with its row.
"""

from __future__ import annotations

import io
import itertools
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import PurePosixPath
from typing import Any, BinaryIO, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from lakeindex.errors import InputError, SchemaMismatchError
from lakeindex.options.types import CsvFormat
from lakeindex.stages.stage_input.inputs import PACKINGS, InputFile
from lakeindex.storage.storage_file import StorageFile
from lakeindex.tasks.memory_bound import MIB
from lakeindex.tasks.stores import storage_at
from lakeindex.write.types.avro_schema import DELETE_MARK
from lakeindex.write.types.type_fit import from_texts

Bad: TypeAlias = dict[int, str]
"""Rows whose value is none of its type, and the value as the file has it."""

_WIDE: Final = pa.decimal128(38, 18)
"""Holds every int64, and tells a fraction."""
_DAY: Final = "1970-01-01T"
_ZONED: Final = r"[T ].*(Z|[+-]\d\d(:?\d\d)?)$"
_MORE_DIGITS: Final = (r"(\.\d{6})0+", r"\1")
_SHOWN: Final = 60


class Number(str):
    """A number of a JSON file, as it is written there."""

    __slots__ = ()


def values_of_texts(texts: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Bad]:
    """Texts as values of a column's type: as Arrow reads them, and ``9.0`` and ``9e0`` as the integer 9.

    Spaces around what is no text do not count, and nothing between them is null. Of timestamps those with a zone are
    for columns with one; without one they are UTC there.
    """
    if is_text_or_bytes(kind):
        return texts.cast(kind), {}
    trimmed = pc.utf8_trim_whitespace(texts)
    trimmed = pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)
    bad: Bad = {}

    def parsed(first: int, end: int) -> list[pa.Array]:
        some = trimmed.slice(first, end - first)
        try:
            return [_cast(some, kind)]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            if end - first == 1:
                bad[first] = texts[first].as_py()
                return [pa.nulls(1, kind)]
        middle = (first + end) // 2
        return parsed(first, middle) + parsed(middle, end)

    return pa.concat_arrays(parsed(0, len(texts))), bad


def is_text_or_bytes(kind: pa.DataType) -> bool:
    """Whether any text is a value of the type: bytes are those of its UTF-8."""
    return pa.types.is_string(kind) or pa.types.is_binary(kind)


def _cast(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Raises: ArrowInvalid, ArrowNotImplementedError: a text is no value of the type, or the type has no texts."""
    if pa.types.is_integer(kind):
        try:
            return from_texts(texts, kind)
        except pa.ArrowInvalid:
            return texts.cast(_WIDE).cast(kind)
    if pa.types.is_floating(kind):
        return _checked_floats(texts, texts.cast(kind))
    if pa.types.is_timestamp(kind):
        return _timestamps(pc.replace_substring_regex(texts, *_MORE_DIGITS), kind)
    if pa.types.is_time(kind):
        return pc.binary_join_element_wise(_DAY, texts, "").cast(pa.timestamp(kind.unit)).cast(kind)
    return texts.cast(kind)


def _checked_floats(texts: pa.Array, values: pa.Array) -> pa.Array:
    endless = pc.and_(pc.is_inf(values), pc.invert(pc.match_substring(texts, "inf", ignore_case=True)))
    if pc.any(endless).as_py():
        raise pa.ArrowInvalid("a number is too large")
    return values


def _timestamps(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    if kind.tz is None:
        return texts.cast(kind)
    has_zone, none = pc.match_substring_regex(texts, _ZONED), pa.scalar(None, pa.string())
    plain = pc.if_else(has_zone, none, texts).cast(pa.timestamp(kind.unit)).cast(kind)
    return pc.coalesce(pc.if_else(has_zone, texts, none).cast(kind), plain)


def values_of_json(given: Sequence[Any], kind: pa.DataType) -> tuple[pa.Array, Bad]:
    """Values of JSON as those of a column's type; numbers are :class:`Number`.

    A number is one of milliseconds in a column of timestamps and of days in one of dates, since 1970. A map is an
    object, or a list of pairs or of objects with ``key`` and ``value``.
    """
    if pa.types.is_struct(kind):
        return _structs(given, kind)
    if pa.types.is_map(kind):
        return _maps(given, kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(given, kind)
    bad: Bad = {}
    texts = [_text_of(value, kind, row, bad) for row, value in enumerate(given)]
    values, more = values_of_texts(pa.array(texts, pa.string()), kind)
    return values, bad | {row: shown(given[row]) for row in more}


def shown(value: Any) -> str:
    """A value of JSON as it is written, if it is not long."""
    text = value if isinstance(value, Number) else json.dumps(_with_numbers(value), ensure_ascii=False)
    text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _text_of(value: Any, kind: pa.DataType, row: int, bad: Bad) -> str | None:
    if value is None:
        return None
    found: str | None = None
    if isinstance(value, Number):
        found = _text_of_number(value, kind)
    elif isinstance(value, bool):
        found = str(value).lower() if pa.types.is_boolean(kind) else None
    elif isinstance(value, str) and _is_whole(value):
        found = value
    if found is None:
        bad[row] = shown(value)
    return found


def _is_whole(text: str) -> bool:
    """Whether a text has no half of a character, as one has that was cut by UTF-16's units."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
    return True


def _text_of_number(value: Number, kind: pa.DataType) -> str | None:
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return str(value)
    try:
        if pa.types.is_timestamp(kind):
            micros = Decimal(value) * 1000
            stamp = np.datetime64(int(micros), "us")
            return str(stamp) if micros == int(micros) else None
        if pa.types.is_date(kind):
            days = Decimal(value)
            return str(np.datetime64(int(days), "D")) if days == int(days) else None
    except (InvalidOperation, OverflowError, ValueError):
        return None
    return None


def _structs(given: Sequence[Any], kind: pa.StructType) -> tuple[pa.Array, Bad]:
    bad = {row: shown(one) for row, one in enumerate(given) if one is not None and not isinstance(one, dict)}
    rows = [one if isinstance(one, dict) else {} for one in given]
    children, fields = [], list(kind)
    for field in kind:
        values, more = values_of_json([one.get(field.name) for one in rows], field.type)
        children.append(values)
        bad |= {row: shown(given[row]) for row in more}
    known = {field.name for field in kind}
    for name in dict.fromkeys(name for one in rows for name in one if name not in known):
        children.append(inferred([one.get(name) for one in rows]))
        fields.append(pa.field(name, children[-1].type))
    gone = pa.array([one is None or row in bad for row, one in enumerate(given)], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=fields, mask=gone), bad


def _lists(given: Sequence[Any], kind: pa.DataType) -> tuple[pa.Array, Bad]:
    rows = [one if isinstance(one, list) else [] for one in given]
    bad = {row: shown(one) for row, one in enumerate(given) if one is not None and not isinstance(one, list)}
    values, more = values_of_json([value for one in rows for value in one], kind.value_type)
    offsets, gone = _places(rows, given, bad, more)
    maker, width = (pa.LargeListArray, np.int64) if pa.types.is_large_list(kind) else (pa.ListArray, np.int32)
    found = pa.list_(kind.value_field.with_type(values.type)) if width is np.int32 else pa.large_list(values.type)
    return maker.from_arrays(pa.array(offsets.astype(width)), values, type=found, mask=gone), bad


def _maps(given: Sequence[Any], kind: pa.MapType) -> tuple[pa.Array, Bad]:
    bad: Bad = {}
    rows = [_pairs(one, row, bad) for row, one in enumerate(given)]
    keys, odd_keys = values_of_json([key for one in rows for key, _ in one], kind.key_type)
    items, odd_items = values_of_json([value for one in rows for _, value in one], kind.item_type)
    offsets, gone = _places(rows, given, bad, odd_keys | odd_items)
    found = pa.map_(kind.key_type, kind.item_field.with_type(items.type))
    return pa.MapArray.from_arrays(pa.array(offsets.astype(np.int32)), keys, items, type=found, mask=gone), bad


def _pairs(value: Any, row: int, bad: Bad) -> list[tuple[Any, Any]]:
    if value is None:
        return []
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, list):
        found = [
            (one["key"], one["value"]) if isinstance(one, dict) and one.keys() == {"key", "value"}
            else tuple(one) if isinstance(one, list) and len(one) == 2
            else (None, None)
            for one in value
        ]  # fmt: skip
        if all(isinstance(key, str) and not isinstance(key, Number) for key, _ in found):
            return found
    bad[row] = shown(value)
    return []


def _places(rows: Sequence[Sequence[Any]], given: Sequence[Any], bad: Bad, odd: Bad) -> tuple[np.ndarray, pa.Array]:
    """Where each row's values begin, and which rows are null. Rows of odd values become bad."""
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in rows], dtype=np.int64)])
    for place in odd:
        row = int(np.searchsorted(offsets, place, "right")) - 1
        bad[row] = shown(given[row])
    return offsets, pa.array([one is None or row in bad for row, one in enumerate(given)], pa.bool_())


def inferred(given: Sequence[Any]) -> pa.Array:
    """Values of JSON that no column gives a type, in that which Arrow's reader would give them.

    Raises:
        ArrowInvalid: they have no one type.
    """
    try:
        values = pa.array([_with_numbers(value) for value in given])
    except UnicodeEncodeError as error:
        raise pa.ArrowInvalid(str(error)) from None
    if pa.types.is_string(values.type):
        for unit in ("s", "ns"):
            try:
                return values.cast(pa.timestamp(unit))
            except pa.ArrowInvalid:
                continue
    return values


def _with_numbers(value: Any) -> Any:
    if isinstance(value, Number):
        return int(value) if value.lstrip("-").isdigit() else float(value)
    if isinstance(value, Mapping):
        return {name: _with_numbers(one) for name, one in value.items()}
    return [_with_numbers(one) for one in value] if isinstance(value, list) else value


BAD_VALUE: Final = "lakeindex: bad value"
"""Column of a piece, if a row of it has a value that is none of its column's type: text per row or null."""
_CSV_BLOCK: Final = MIB
_WHOLE: Final = 2**62
_RAGGED_SHOWN: Final = 200


def read_csv(file: InputFile, schema: pa.Schema, limit: int, form: CsvFormat) -> Iterator[pa.Table]:
    """The rows of a CSV file; columns that the table has not got have types of Arrow's guess, or are texts. A row with
    more or fewer fields than the header has no values, and a problem.

    Raises:
        ArrowInvalid: the file is no CSV.
    """
    known = {field.name: field.type for field in [*schema, pa.field(DELETE_MARK, pa.bool_())]}
    options = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(known, pa.string()),
        null_values=list(form.nulls),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    block = pa.csv.ReadOptions(block_size=_CSV_BLOCK, column_names=_names(file, schema, form))
    whole = _whole(file, limit)
    ragged = _Ragged(form)
    if whole is not None:
        try:
            rows = pa.csv.read_csv(io.BytesIO(whole), block, _parsing(form), options)
        except pa.ArrowInvalid:  # on one thread Arrow knows which row it is
            block.use_threads = False
            rows = pa.csv.read_csv(io.BytesIO(whole), block, _parsing(form, ragged.keep), options)
        yield from (_typed(*placed, known) for part in _single_chunks(rows) for placed in ragged.placed(part))
        return
    with pa.csv.open_csv(_unpacked(file), block, _parsing(form, ragged.leave)) as first:
        there = first.schema.names
    options.column_types = dict.fromkeys((*there, *known), pa.string())  # what the table has not got is never used
    given = 0
    try:
        with pa.csv.open_csv(_unpacked(file), block, _parsing(form), options) as reader:
            for batch in reader:
                yield _typed(pa.Table.from_batches([batch]), {}, known)
                given += batch.num_rows
    except pa.ArrowInvalid:
        block.use_threads = False
        with pa.csv.open_csv(_unpacked(file), block, _parsing(form, ragged.keep), options) as reader:
            last = reader.schema.empty_table()  # what is left out behind the last rows comes with no batch
            for part in itertools.chain((pa.Table.from_batches([batch]) for batch in reader), [last]):
                for rows, problems in ragged.placed(part):
                    skipped = min(given, rows.num_rows)
                    given -= skipped
                    left = {row - skipped: text for row, text in problems.items() if row >= skipped}
                    if skipped < rows.num_rows:
                        yield _typed(rows.slice(skipped).combine_chunks(), left, known)


class _Ragged:
    """Rows with more or fewer fields than the header, in the order in which a reader on one thread finds them."""

    def __init__(self, form: CsvFormat) -> None:
        self._found: deque[tuple[int, str]] = deque()
        self._first = 2 if form.header else 1
        self._next = 0

    def keep(self, row: pa.csv.InvalidRow) -> str:
        text = row.text if len(row.text) <= _RAGGED_SHOWN else f"{row.text[:_RAGGED_SHOWN]}..."
        said = f"{row.actual_columns} fields, not {row.expected_columns}: {text!r}"
        self._found.append((row.number - self._first, said))
        return "skip"

    @staticmethod
    def leave(_: pa.csv.InvalidRow) -> str:
        return "skip"

    def placed(self, rows: pa.Table) -> Iterator[tuple[pa.Table, dict[int, str]]]:
        """The rows with those that were left out, which are null, at their places, and what is wrong with them."""
        here: list[tuple[int, str]] = []
        end = self._next + rows.num_rows
        while self._found and self._found[0][0] <= end + len(here):
            here.append(self._found.popleft())
        first, self._next = self._next, end + len(here)
        if not here:
            yield rows, {}
            return
        problems = {number - first: text for number, text in here}
        numbers = iter(range(rows.num_rows))
        places = [None if row in problems else next(numbers) for row in range(rows.num_rows + len(here))]
        yield rows.take(pa.array(places, pa.int64())).combine_chunks(), problems


def csv_columns(file: InputFile, schema: pa.Schema, form: CsvFormat) -> pa.Schema:
    """The columns of a CSV file in the table's types; Arrow guesses those of others by the first block."""
    options = pa.csv.ConvertOptions(null_values=list(form.nulls), strings_can_be_null=True)
    options.quoted_strings_can_be_null = False
    block = pa.csv.ReadOptions(block_size=_CSV_BLOCK, column_names=_names(file, schema, form))
    with pa.csv.open_csv(_unpacked(file), block, _parsing(form, _Ragged.leave), options) as reader:
        known = {field.name: field.type for field in schema}
        return pa.schema([field.with_type(known.get(field.name, field.type)) for field in reader.schema])


def _names(file: InputFile, schema: pa.Schema, form: CsvFormat) -> list[str] | None:
    """The columns of a file without a header: the table's but those that its folders say; None: it has a header."""
    if form.header:
        return None
    said = {name for name, _ in file.constants}
    names = [name for name in schema.names if name not in said]
    if not names:
        raise InputError(
            f"{file.place!r} has no header that names its columns",
            culprit=file.place,
            hint="name them: --like 'a BIGINT, b STRING, ...' (like=), in the order of the file",
        )
    return names


def _parsing(form: CsvFormat, ragged: Callable[[pa.csv.InvalidRow], str] | None = None) -> pa.csv.ParseOptions:
    return pa.csv.ParseOptions(
        delimiter=form.delimiter,
        quote_char=form.quote or False,
        newlines_in_values=bool(form.quote),
        invalid_row_handler=ragged,
    )


def _single_chunks(rows: pa.Table) -> list[pa.Table]:
    return [pa.Table.from_batches([batch]) for batch in rows.to_batches()] or [rows]


def _typed(rows: pa.Table, ragged: Mapping[int, str], known: dict[str, pa.DataType]) -> pa.Table:
    columns, problems = [], _Problems(rows.num_rows, ragged)
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        kind = known.get(name)
        if kind is not None and pa.types.is_nested(kind):
            columns.append(_no_nested(column, name, kind))
            continue
        if kind is None or not column.num_chunks:
            columns.append(column if kind is None else column.cast(kind))
            continue
        values, bad = values_of_texts(column.chunk(0), kind)
        problems.add(name, kind, {row: repr(text) for row, text in bad.items()})
        columns.append(values)
    return problems.beside(pa.table(columns, names=rows.column_names))


def _no_nested(column: pa.ChunkedArray, name: str, kind: pa.DataType) -> pa.Array:
    """Nulls, if nothing else is there. Raises: SchemaMismatchError: there is a text."""
    if column.null_count == len(column):
        return pa.nulls(len(column), kind)
    raise SchemaMismatchError(
        f"column {name!r} is {kind} in the table, and a text in the CSV file",
        culprit=name,
        hint="CSV has no lists, maps and structs: write the batch as JSON lines or Parquet, or leave the column out",
    )


class _Problems:
    """What is wrong with rows."""

    def __init__(self, rows: int, known: Mapping[int, str] | None = None) -> None:
        self._rows = rows
        self._of_row = dict(known or {})

    def add(self, name: str, kind: pa.DataType, bad: Bad) -> None:
        for row, text in bad.items():
            self._of_row.setdefault(row, f"column {name!r} cannot be {text}: it is {kind} in the table")

    def beside(self, rows: pa.Table) -> pa.Table:
        """The rows, with a column of what is wrong if anything is."""
        if not self._of_row:
            return rows
        told = [self._of_row.get(row) for row in range(self._rows)]
        return rows.append_column(BAD_VALUE, pa.array(told, pa.string()))


def without_bad_values(piece: pa.Table, file: InputFile, first: int) -> tuple[pa.Table, pa.Array]:
    """A piece of a file from its row ``first`` on as the table has its columns, and of each row what is wrong with a
    value of it (else null).
    """
    if BAD_VALUE not in piece.column_names:
        return piece, pa.nulls(piece.num_rows, pa.string())
    told = piece.column(BAD_VALUE).to_pylist()
    problems = [text and f"row {first + row} of {file.display}: {text}" for row, text in enumerate(told)]
    return piece.drop_columns([BAD_VALUE]), pa.array(problems, pa.string())


def read_json(file: InputFile, schema: pa.Schema, limit: int, *, known_only: bool) -> Iterator[pa.Table]:
    """The rows of a file of JSON objects, one a line; fields that the table has not got have types of Arrow's guess.

    Raises:
        ArrowInvalid: something is no JSON object; names the row.
    """
    whole = _whole(file, limit)
    blocks = _line_blocks(_unpacked(file), limit) if whole is None else iter([whole])
    filled = (block for block in blocks if block.strip())
    first = next(filled, None)
    if first is None:
        yield schema.empty_table()
        return
    row = 0
    for block in itertools.chain([first], filled):
        known = [field.with_nullable(True) for field in schema]
        if DELETE_MARK.encode() in block and DELETE_MARK not in schema.names:
            known.append(pa.field(DELETE_MARK, pa.bool_()))
        rows = _by_arrow(block, known)
        if rows is None:
            rows = _by_value(block, known, row, known_only=known_only)
        yield rows
        row += rows.num_rows


def _by_arrow(block: bytes, known: Sequence[pa.Field]) -> pa.Table | None:
    """The rows as Arrow's reader takes them, whose texts are then what they are in CSV; None if it does not take them
    as they are, or might not.
    """
    read = [field if _is_arrows(field.type) else field.with_type(pa.string()) for field in known]
    of_texts = {field.name: field.type for field in known if not _is_arrows(field.type)}
    if any(pa.types.is_nested(kind) and name.encode() in block for name, kind in of_texts.items()):
        return None
    try:
        rows = pa.json.read_json(
            io.BytesIO(block),
            pa.json.ReadOptions(block_size=len(block) + 1),
            pa.json.ParseOptions(explicit_schema=pa.schema(read)),
        )
    except pa.ArrowInvalid:
        return None
    if any(_is_endless(chunk) for column in rows.columns for chunk in column.chunks):
        return None  # a number that no float of 32 bits holds
    for name, kind in of_texts.items():
        place = rows.schema.get_field_index(name)
        if pa.types.is_nested(kind):
            if rows.column(place).null_count < rows.num_rows:
                return None  # a text, behind a name with escapes
            rows = rows.set_column(place, name, pa.nulls(rows.num_rows, kind))
            continue
        values, bad = values_of_texts(pa.concat_arrays(rows.column(place).chunks), kind)
        if bad:
            return None
        rows = rows.set_column(place, name, values)
    return rows


def _is_endless(values: pa.Array) -> bool:
    """Whether an infinite number is among them, which JSON has not."""
    if pa.types.is_float32(values.type):
        return bool(pc.any(pc.is_inf(values)).as_py())
    if pa.types.is_struct(values.type):
        return any(map(_is_endless, values.flatten()))
    return pa.types.is_list(values.type) and _is_endless(values.flatten())


def _is_arrows(kind: pa.DataType) -> bool:
    """Whether Arrow's JSON reader takes values of the type as they are meant, and no others."""
    if pa.types.is_struct(kind):
        return all(_is_arrows(field.type) for field in kind)
    if pa.types.is_list(kind):
        return _is_arrows(kind.value_type)
    return pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind) or kind == pa.string()


def _by_value(block: bytes, known: Sequence[pa.Field], first_row: int, *, known_only: bool) -> pa.Table:
    """The rows value by value: what Arrow's reader does not take, and what is wrong with it."""
    objects = list(_objects(block.decode("utf-8-sig"), first_row))
    problems, columns = _Problems(len(objects)), {}
    for field in known:
        values, bad = values_of_json([one.get(field.name) for one in objects], field.type)
        problems.add(field.name, field.type, bad)
        columns[field.name] = values
    more = () if known_only else dict.fromkeys(name for one in objects for name in one if name not in columns)
    for name in more:
        columns[name] = inferred([one.get(name) for one in objects])
    return problems.beside(pa.table(columns))


def _objects(text: str, first_row: int) -> Iterator[dict[str, Any]]:
    decoder = json.JSONDecoder(
        parse_int=Number, parse_float=Number, parse_constant=Number, object_pairs_hook=_object
    )  # fmt: skip
    place, row, end = 0, first_row, len(text)
    while True:
        while place < end and text[place] in " \t\r\n":
            place += 1
        if place == end:
            return
        try:
            value, place = decoder.raw_decode(text, place)
        except ValueError as error:
            raise pa.ArrowInvalid(f"row {row} is no JSON: {error}") from None
        if not isinstance(value, dict):
            raise pa.ArrowInvalid(f"row {row} is {shown(value)}, not an object: each line is to be one")
        yield value
        row += 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is there twice")
    if not _is_whole("".join(found)):
        raise ValueError(f"{next(name for name in found if not _is_whole(name))!r} is no text")
    return found


def _line_blocks(source: BinaryIO, limit: int) -> Iterator[bytes]:
    """Whole lines, half of ``limit`` at a time: parsed values stand beside the text."""
    step = max(limit // 2, 1)
    rest = b""
    while data := source.read(step):
        head, newline, tail = data.rpartition(b"\n")
        if newline:
            yield rest + head + newline
            rest = tail
        else:
            rest += tail
    yield rest


def _unpacked(file: InputFile) -> pa.NativeFile:
    """The file's text as a stream; what is packed by its name is unpacked."""
    source = pa.PythonFile(StorageFile(storage_at(file.root), file.path, file.size_bytes), mode="r")
    packing = _packing(file)
    return pa.BufferedInputStream(source, MIB) if packing is None else pa.CompressedInputStream(source, packing)


def _packing(file: InputFile) -> str | None:
    return PACKINGS.get(PurePosixPath(file.path.lower()).suffix)


def _whole(file: InputFile, limit: int) -> bytes | None:
    """The file's text, fetched with one request; None if it is larger than ``limit``."""
    if file.size_bytes > limit:
        return None
    data = storage_at(file.root).read(file.path)
    packing = _packing(file)
    if packing is None:
        return data
    text: bytes = pa.CompressedInputStream(pa.BufferReader(data), packing).read(min(limit, _WHOLE) + 1)
    return text if len(text) <= limit else None
