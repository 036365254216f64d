"""Rows of a batch that stay in its Parquet files: a checkpoint holds their keys and *addresses*, and whoever needs
their other columns takes these from the files.

An address is a number: the split that a row was read in, and its place there (:data:`ADDRESS`). Columns are read one at
a time, each row group once, whatever order the rows are wanted in.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, TypeAlias

import mmh3
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.errors import InputError, ObjectNotFoundError, first_line
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import one_array, without_dictionary
from lakeindex.showing.json_values import json_of
from lakeindex.storage.storage_file import StorageFile
from lakeindex.tasks.stores import storage_at
from lakeindex.write.single_columns import nulls_of
from lakeindex.write.types.moments import MomentsFile
from lakeindex.write.types.schema_fit import fit_column
from lakeindex.write.types.type_fit import decoded_type, from_texts

ADDRESS: Final = "_li_address"
"""Staged column, int64: the number of the row's split above :data:`ADDRESS_SHIFT` bits, its row of the split below."""
ADDRESS_SHIFT: Final = 40
INPUT_ROWS_TABLE: Final = "input_rows"
"""What the manifest of stage 1 calls the :class:`InputRows` of a batch that stays in its files."""
_HASH_STEP_BYTES: Final = 16 * 1024 * 1024
_SMALL_DICTIONARY: Final = 64 * 1024
_LARGEST_DICTIONARIES: Final = 16 * 1024 * 1024
"""Of all row groups: dictionaries that have more bytes are not joined."""
_MAGIC: Final = b"PAR1"
_FOOTER_END: Final = 8
"""Bytes behind a footer: its size, and the magic."""
_ARROW_SCHEMA: Final = b"ARROW:schema"
OF_VIEWS: Final = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
"""Types that columns of views are read in."""
_SORTED_PART: Final = 8
"""Of the batch's rows: fewer than one in so many are sorted."""
_LARGEST_JOINED: Final = 1024 * 1024 * 1024
"""A column of more bytes is not joined: Arrow's texts have offsets of 32 bits."""


Constants: TypeAlias = tuple[tuple[str, str | None], ...]
"""Columns that a file does not hold: names, and the one value of all rows, as text or null."""


def repeated_text(text: str | None, kind: pa.DataType, rows: int) -> pa.Array:
    """A column of one value that is given as text. Raises: ArrowInvalid: it is none of the type."""
    return pa.repeat(from_texts(pa.array([text], pa.string()), kind)[0], rows)


class InputChangedError(InputError):
    """A file of the batch is not what it was when its keys were computed. The run is that of what it was."""


def input_changed(root: str, path: str, how: str) -> InputChangedError:
    display = _display(root, path)
    return InputChangedError(
        f"input {display!r} {how} since its keys were computed",
        culprit=display,
        hint="nothing was published: put the file back as it was, or run the batch again, as it is now",
    )


def _display(root: str, path: str) -> str:
    return f"{root.rstrip('/')}/{path}"


def hash_content(root: str, path: str, size_bytes: int) -> str:
    """Digest of a file's bytes, which are read step by step."""
    store, hasher = storage_at(root), mmh3.mmh3_x64_128()
    for start in range(0, max(size_bytes, 1), _HASH_STEP_BYTES):
        hasher.update(store.read_range(path, start, min(_HASH_STEP_BYTES, size_bytes - start)))
    return str(hasher.digest().hex())


class KeyedFile(Frozen):
    """A Parquet file of the batch as it was when it was keyed; ``digest`` is :func:`hash_content` of it, ``constants``
    are columns that it does not hold.
    """

    root: str
    path: str
    size_bytes: int
    etag: str | None
    digest: str
    constants: Constants = ()

    def check_unchanged(self) -> None:
        """Make sure that its bytes are those that were keyed. Raises: InputChangedError: it is gone, or has others."""
        try:
            same = hash_content(self.root, self.path, self.size_bytes) == self.digest
            now = storage_at(self.root).head(self.path)
        except ObjectNotFoundError as error:
            raise input_changed(self.root, self.path, "is gone") from error
        except (OSError, ValueError):  # it became shorter
            same = False
        if not same or now.size_bytes != self.size_bytes:
            raise input_changed(self.root, self.path, "has changed")

    @property
    def display(self) -> str:
        return _display(self.root, self.path)

    def reader(self, **how: Any) -> MomentsFile:
        return MomentsFile(StorageFile(storage_at(self.root), self.path, self.size_bytes), **how)


@lru_cache(maxsize=64)
def _footer(file: KeyedFile) -> pq.FileMetaData:
    """Of a file whose Arrow schema says views the footer without this schema, if it says nothing else: Arrow takes no
    rows of views, and to make texts of them costs more than to read them as such.
    """
    reader = file.reader()
    said, footer = reader.schema_arrow, reader.metadata
    if not any(kind in OF_VIEWS for kind in said.types):
        return footer
    size = footer.serialized_size + _FOOTER_END
    tail = bytes(storage_at(file.root).read_range(file.path, file.size_bytes - size, size))
    plain = pq.read_metadata(pa.BufferReader(_MAGIC + tail.replace(_ARROW_SCHEMA, _ARROW_SCHEMA.lower())))
    wanted = pa.schema([field.with_type(OF_VIEWS.get(field.type, field.type)) for field in said])
    return plain if plain.schema.to_arrow_schema().equals(wanted) else footer


class RowGroup(Frozen):
    """Rows of the batch: a row group of one of its files (by number), and the address of its first row."""

    file: int
    number: int
    address: int
    rows: int


class InputRows(Frozen):
    """The rows of a batch, where they are.

    Attributes:
        groups: by address.
        schema: the columns and types that they get, nullable or not.
        widths: bytes of a value of each column in memory, about.
    """

    files: tuple[KeyedFile, ...]
    groups: tuple[RowGroup, ...]
    schema: pa.Schema
    widths: Mapping[str, float]

    @property
    def count(self) -> int:
        return sum(group.rows for group in self.groups)

    def to_bytes(self) -> pa.Buffer:
        """As JSON."""
        schema = base64.b64encode(self.schema.serialize()).decode()
        said = {"files": self.files, "groups": self.groups, "schema": schema, "widths": dict(self.widths)}
        return pa.py_buffer(json.dumps(json_of(said)).encode())

    def places_of(self, address: np.ndarray) -> np.ndarray:
        """Of these rows their places in the batch, if its splits stood behind each other: int64 [n]."""
        starts = np.cumsum([0, *(group.rows for group in self.groups)])
        splits = np.array([group.address >> ADDRESS_SHIFT for group in self.groups], np.int64)
        numbers, first = np.unique(splits, return_index=True)
        start_of = np.zeros(int(numbers[-1]) + 1 if len(numbers) else 0, np.int64)
        start_of[numbers] = starts[first]
        return start_of[address >> ADDRESS_SHIFT] + (address & ((1 << ADDRESS_SHIFT) - 1))

    def check_unchanged(self) -> None:
        """Make sure that all files are what they were. Raises: InputChangedError: one is not."""
        for file in self.files:
            file.check_unchanged()

    def columns_at(self, address: np.ndarray, names: Sequence[str]) -> dict[str, pa.Array]:
        """Columns of the rows at these addresses, in their order, in the table's types.

        Raises:
            InputChangedError: a file is not what it was.
            InputError: a value cannot be read.
        """
        places = Places(self, address)
        found = {name: places.column(name).taken(places.rank) for name in names}
        self.check_unchanged()
        return found


@lru_cache(maxsize=8)
def input_rows(text: bytes) -> InputRows:
    """Inverse of :meth:`InputRows.to_bytes`."""
    said = json.loads(text)
    return InputRows(
        tuple(KeyedFile(**{**one, "constants": tuple(map(tuple, one["constants"]))}) for one in said["files"]),
        tuple(RowGroup(**one) for one in said["groups"]),
        pa.ipc.read_schema(pa.py_buffer(base64.b64decode(said["schema"]))),
        said["widths"],
    )


class Column(Frozen, eq=False):
    """A column of some rows, ordered by address, as it was read: texts may stand in dictionaries."""

    field: pa.Field
    chunks: pa.ChunkedArray

    def picked(self, rows: np.ndarray) -> pa.Array:
        """Values of these rows, in this order, as they were read."""
        if self.chunks.num_chunks == 1:
            return self.chunks.chunk(0).take(pa.array(rows))
        return _taken_apart(self.chunks, rows)

    def taken(self, rows: np.ndarray) -> pa.Array:
        """The same in the field's type. Raises: InputError: one must not be null."""
        fitted = one_array(fit_column(pa.chunked_array([without_dictionary(self.picked(rows))]), self.field))
        if fitted.null_count and not self.field.nullable:
            raise InputError(
                f"column {self.field.name!r} of the batch has nulls, and its footer says that it has none",
                culprit=self.field.name,
                hint="write the file again with another writer; nothing was published",
            )
        return fitted


def _taken_apart(chunks: pa.ChunkedArray, rows: np.ndarray) -> pa.Array:
    order = np.argsort(rows, kind="stable")
    ends = np.cumsum([0, *(len(chunk) for chunk in chunks.chunks)])
    cuts = np.searchsorted(rows[order], ends)
    found = [
        chunk.take(pa.array(rows[order[a:b]] - end))
        for chunk, end, a, b in zip(chunks.chunks, ends, cuts, cuts[1:], strict=False)
        if b > a
    ]
    place = np.empty(len(rows), np.int64)
    place[order] = np.arange(len(rows))
    return pa.concat_arrays(found).take(pa.array(place)) if found else pa.array([], chunks.type)


class Places:
    """Where some rows are in the files of the batch.

    Args:
        parts: of each column its parts, by address, if they were read before.

    Attributes:
        rank: place of each row among them by address: int64 [n].
    """

    def __init__(
        self, rows: InputRows, address: np.ndarray, parts: Mapping[str, Sequence[pa.Array]] | None = None
    ) -> None:
        self._rows, self._read_before = rows, parts
        self.rank, ordered = _ranked(rows, address)
        starts = np.array([group.address for group in rows.groups], np.int64)
        cuts = [*np.searchsorted(ordered, starts).tolist(), len(ordered)]
        self._picked: list[tuple[RowGroup, np.ndarray | None]] = []
        for group, a, b in zip(rows.groups, cuts, cuts[1:], strict=False):
            if b > a:
                mine = None if b - a == group.rows else (ordered[a:b] - group.address).astype(np.int32)
                self._picked.append((group, mine))

    def check_unchanged(self) -> None:
        """Make sure that the files with these rows are what they were. Raises: InputChangedError: one is not."""
        if self._read_before is None:
            for file, _ in self._by_file():
                file.check_unchanged()

    def column(self, name: str) -> Column:
        """One column of these rows.

        Raises:
            InputChangedError: a file is not what it was.
            InputError: a value cannot be read.
        """
        field = self._rows.schema.field(name)
        found = self._parts(name, field) if self._read_before is None else self._read_before.get(name, ())
        parts = list(found) or [pa.array([], field.type)]
        if sum(part.dictionary.nbytes for part in parts if pa.types.is_dictionary(part.type)) > _LARGEST_DICTIONARIES:
            parts = [without_dictionary(part) for part in parts]
        kinds = dict.fromkeys(part.type for part in parts)
        if len(kinds) > 1:  # files differ
            kind = field.with_nullable(True)
            parts = [one_array(fit_column(pa.chunked_array([without_dictionary(p)]), kind)) for p in parts]
        values = pa.chunked_array(parts)
        if pa.types.is_dictionary(values.type):
            values = values.unify_dictionaries()
        if sum(part.nbytes for part in parts) <= _LARGEST_JOINED:
            values = pa.chunked_array([one_array(values)])
        return Column(field, values)

    def _parts(self, name: str, field: pa.Field) -> Iterator[pa.Array]:
        for file, picked in self._by_file():
            with _said_of(file):
                footer = _footer(file)
                if footer.schema.to_arrow_schema().get_field_index(name) < 0:
                    counts = [group.rows if some is None else len(some) for group, some in picked]
                    if name in dict(file.constants):
                        text = dict(file.constants)[name]
                        yield from (repeated_text(text, field.type, count) for count in counts)
                    else:
                        yield from (nulls_of(count, field.type) for count in counts)
                    continue
                coded = [name] if _is_coded(footer, name, picked) else []
                reader = file.reader(metadata=footer, read_dictionary=coded)
                for group, some in picked:
                    rows = reader.read_row_group(group.number, columns=[name], use_threads=False)
                    check_values(rows)
                    values = _indexable(one_array(rows.column(name)), field)
                    yield values if some is None else values.take(pa.array(some))

    def _by_file(self) -> Iterator[tuple[KeyedFile, list[tuple[RowGroup, np.ndarray | None]]]]:
        of_file: dict[int, list[tuple[RowGroup, np.ndarray | None]]] = {}
        for group, some in self._picked:
            of_file.setdefault(group.file, []).append((group, some))
        # Splits of a file are neighbours, so files come by address.
        for number, picked in of_file.items():
            yield self._rows.files[number], picked


def _ranked(rows: InputRows, address: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each address how many are before it, and the addresses in order. A large part of the batch is marked and
    counted, which is faster than to sort it.
    """
    kind = np.int64 if len(address) > np.iinfo(np.int32).max else np.int32
    if len(address) > rows.count // _SORTED_PART:
        places = rows.places_of(address)
        is_wanted = np.zeros(rows.count, np.bool_)
        is_wanted[places] = True
        before = np.cumsum(is_wanted, dtype=kind)
        if before[-1] == len(address):  # each once
            ordered = np.empty_like(address)
            rank = before[places] - kind(1)
            ordered[rank] = address
            return rank, ordered
    order = np.argsort(address)
    rank = np.empty(len(order), kind)
    rank[order] = np.arange(len(order), dtype=kind)
    return rank, address[order]


def _indexable(values: pa.Array, field: pa.Field) -> pa.Array:
    """Values that Arrow can take rows of: of views and encodings, in whatever depth, it cannot. Texts stay coded."""
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if decoded_type(kind) == kind:
        return values
    return one_array(fit_column(pa.chunked_array([values]), field.with_nullable(True)))


def check_values(piece: pa.Table) -> None:
    """Readers of Parquet and Arrow files do not look whether a text is UTF-8.

    Raises:
        ArrowInvalid: a value is not what its type says; names the column.
    """
    for name, column in zip(piece.column_names, piece.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(f"column {name!r}: {first_line(error)}") from error


def _is_coded(footer: pq.FileMetaData, name: str, picked: Sequence[tuple[RowGroup, Any]]) -> bool:
    """Whether a text column has dictionaries that are small in all these row groups."""
    place = next((n for n in range(footer.num_columns) if footer.schema.column(n).path == name), None)
    if place is None or footer.schema.column(place).physical_type != "BYTE_ARRAY":
        return False
    if footer.schema.column(place).logical_type.type != "STRING":
        return False
    chunks = (footer.row_group(group.number).column(place) for group, _ in picked)
    return all(
        chunk.has_dictionary_page
        and chunk.dictionary_page_offset is not None
        and 0 < chunk.data_page_offset - chunk.dictionary_page_offset <= _SMALL_DICTIONARY
        for chunk in chunks
    )


@contextmanager
def _said_of(file: KeyedFile) -> Iterator[None]:
    """What goes wrong is said of the file: that it changed, if it did."""
    try:
        yield
    except (pa.ArrowException, ObjectNotFoundError, OSError, IndexError) as error:
        file.check_unchanged()
        raise InputError(
            f"input {file.display!r} cannot be read: {first_line(error)}",
            culprit=file.display,
            hint="write the file again; nothing was published",
        ) from error
