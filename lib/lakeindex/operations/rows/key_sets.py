"""Sets of record keys, as callers give them: texts, values of the key's columns, Arrow data, or a file."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import InputError, LakeIndexError, ObjectNotFoundError, first_line
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import one_array, plain_strings
from lakeindex.storage.paths import absolute
from lakeindex.table.handle import Table
from lakeindex.tasks.stores import storage_at
from lakeindex.write.base_file import RECORD_KEY
from lakeindex.write.keys.key_generators import KeySpec
from lakeindex.write.types.moments import MomentsFile
from lakeindex.write.types.type_fit import from_texts, is_text, python_problem, type_problem

OneKey: TypeAlias = str | Mapping[str, Any] | tuple[Any, ...]
"""A record key as it is stored, or the values of its columns: by name, or of a composite key in the key's order."""

KeySet: TypeAlias = (
    OneKey | os.PathLike[str] | Sequence[OneKey | os.PathLike[str]] | pa.Array | pa.ChunkedArray | pa.Table
)
"""One key, keys, an Arrow column or table of keys, or (as a path object) a file of keys."""


class KeysFile(Frozen):
    """A file of keys, by its path or URL."""

    path: str

    def __fspath__(self) -> str:
        return self.path


class KeyForm(Frozen):
    """What the record keys of a table look like.

    Attributes:
        spec: how they are made; None: that is not known, and texts are taken as they come.
    """

    spec: KeySpec | None
    schema: pa.Schema

    @property
    def fields(self) -> tuple[str, ...]:
        """Columns of the key; none if they are not known."""
        return () if self.spec is None else self.spec.record_key_fields

    def check(self, keys: pa.Array) -> pa.Array:
        """The keys.

        Raises:
            InputError: no record key of the table can look like one of them.
        """
        if self.spec is None:
            return keys
        if self.spec.has_named_parts:
            pattern = ",".join(f"{re.escape(field)}:.*" for field in self.fields)
            shown = ",".join(f"{field}:..." for field in self.fields)
        elif self.is_whole_number:
            pattern, shown = "0|-?[1-9][0-9]*", "a whole number, as it is printed"
        else:  # any text may be one
            return keys
        odd = next((key for key in keys.to_pylist() if re.fullmatch(pattern, key, re.DOTALL) is None), None)
        if odd is None:
            return keys
        columns = ", ".join(f"{field!r}: ..." for field in self.fields)
        raise InputError(
            f"{odd!r} is no record key of the table: its keys are {shown}",
            culprit=odd,
            hint=f"give it so, or the values of its columns: {{{columns}}}, at the command line "
            + " ".join(f"--key {field}=..." for field in self.fields),
        )

    @property
    def is_whole_number(self) -> bool:
        """Whether keys are the numbers of one column."""
        if self.spec is None or self.spec.has_named_parts:
            return False
        field = self.fields[0]
        return field in self.schema.names and pa.types.is_integer(self.schema.field(field).type)

    def of_values(self, columns: Mapping[str, Sequence[Any] | pa.ChunkedArray]) -> pa.Array:
        """Record keys by the values of their columns.

        Raises:
            InputError: a value that its column cannot have, or of which no key is made.
        """
        if self.spec is None:
            hint = "give them as they are stored"
            raise InputError("it is not known how the table makes its keys", culprit="key", hint=hint)
        from lakeindex.write.keys.key_generators import KeyGenerator  # not for keys that are given as they are stored

        typed: dict[str, Any] = {}
        for field in self.fields:
            kind = self._type_of(field)
            try:
                typed[field] = _typed(columns[field], kind)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise InputError(
                    f"column {field!r} of a key cannot be that: {first_line(error)}",
                    culprit=field,
                    hint=f"it is {kind}",
                ) from error
        keys, problems = KeyGenerator(self.spec).record_keys(pa.table(typed))
        if problems.null_count < len(problems):
            why = problems.drop_null()[0].as_py()
            raise InputError(f"no row has such a key: {why}", culprit=why, hint="give a value")
        return keys

    def _type_of(self, field: str) -> pa.DataType | None:
        first, *rest = [field] if field in self.schema.names else field.split(".")
        if first not in self.schema.names:
            return None
        kind = self.schema.field(first).type
        for name in rest:
            kind = kind.field(name).type
        return kind


def _typed(given: Sequence[Any] | pa.ChunkedArray, kind: pa.DataType | None) -> pa.Array | pa.ChunkedArray:
    """Values, converted to the type of their column. Raises: ValueError: a part of a time would be left out."""
    if isinstance(given, pa.ChunkedArray):
        if kind is not None and pa.types.is_timestamp(given.type) and (problem := type_problem(given.type, kind)):
            raise ValueError(f"its type is {given.type}: {problem}")
        if kind is not None and is_text(given.type):
            return from_texts(plain_strings(given), kind)
        return given if kind is None else given.cast(kind)
    if kind is None:
        return pa.array(given)
    return pa.concat_arrays([pa.array([], kind), *(_value(one, kind) for one in given)])


def _value(one: Any, kind: pa.DataType) -> pa.Array:
    if (problem := python_problem(one, kind)) is not None:
        raise ValueError(f"{one!r}: {problem}")
    return from_texts(pa.array([one]), kind) if isinstance(one, str) else pa.array([one]).cast(kind)


def key_set(keys: KeySet, form: KeyForm) -> pa.Array:
    """Distinct keys, ascending by UTF-8 bytes.

    Args:
        keys: texts as they are stored; values of the key's columns, a dict or (of a composite key) a tuple; a list of
            these; Arrow strings or integers; a table with the column ``_hoodie_record_key``, with the columns of the
            key, or with one column only; a path object: see :func:`keys_of_file`.

    Raises:
        InputError: no such column, a null, a type that is no key, or a text that is none of the table.
    """
    if isinstance(keys, os.PathLike):
        found = keys_of_file(os.fspath(keys), form)
    elif isinstance(keys, pa.Table):
        found = _of_table(keys, "the table of keys", form)
    elif isinstance(keys, (pa.Array, pa.ChunkedArray)):
        found = form.check(_as_text(keys))
    else:
        is_single = isinstance(keys, (str, Mapping)) or not isinstance(keys, Iterable)
        found = _of_list([keys] if is_single or _is_one_key(keys, form) else [*keys], form)
    distinct = found.unique()
    return distinct.take(pc.sort_indices(distinct))


def _is_one_key(keys: Any, form: KeyForm) -> bool:
    """Whether a tuple is the values of one composite key, and not several keys as they are stored."""
    if not isinstance(keys, tuple) or len(form.fields) < 2 or any(isinstance(one, (tuple, Mapping)) for one in keys):
        return False
    return not (keys and all(isinstance(one, str) and one.startswith(f"{form.fields[0]}:") for one in keys))


def keys_of_file(path: str, form: KeyForm) -> pa.Array:
    """Keys of a file: a Parquet file (``.parquet``) with a column ``_hoodie_record_key``, the columns of the key, or
    one column only; else UTF-8 text, one key a line.

    Raises:
        InputError: the file is not there, or cannot be read as that.
    """
    folder, name = posixpath.split(absolute(path))
    try:
        data = storage_at(folder).read(name)
        if name.lower().endswith(".parquet"):
            return _of_table(MomentsFile(pa.BufferReader(data)).read(), path, form)
        lines = data.decode("utf-8-sig").split("\n")
    except ObjectNotFoundError:
        raise InputError(f"no file of keys at {path!r}", culprit=path, hint="check the path") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"the file of keys {path!r} cannot be read: {first_line(error)}",
            culprit=path,
            hint="give UTF-8 text with one key a line, or a Parquet file",
        ) from error
    return form.check(pa.array([key for line in lines if (key := line.removesuffix("\r"))], pa.string()))


def _of_table(table: pa.Table, where: str, form: KeyForm) -> pa.Array:
    names = table.column_names
    if RECORD_KEY in names:
        return form.check(_as_text(table.column(RECORD_KEY)))
    if form.fields and all(field in names for field in form.fields):
        return form.of_values({field: table.column(field) for field in form.fields}).cast(pa.string())
    if table.num_columns == 1:
        return form.check(_as_text(table.column(0)))
    raise InputError(
        f"{where} has columns {', '.join(names) or 'none'}: which one holds the keys?",
        culprit=where,
        hint=f"name it {RECORD_KEY}, give that column only, or the columns of the key: {', '.join(form.fields)}",
    )


def _of_list(keys: Sequence[Any], form: KeyForm) -> pa.Array:
    texts: list[str] = []
    rows: list[Mapping[str, Any]] = []
    files: list[pa.Array] = []
    for key in keys:
        if isinstance(key, str):
            texts.append(key)
        elif isinstance(key, os.PathLike):
            files.append(keys_of_file(os.fspath(key), form))
        elif isinstance(key, Mapping):
            rows.append(_checked(key, form))
        elif isinstance(key, tuple) and form.fields:
            if len(key) != len(form.fields):
                raise _no_key(key, f"the table's keys have {len(form.fields)} columns: {', '.join(form.fields)}")
            rows.append(dict(zip(form.fields, key, strict=True)))
        elif isinstance(key, int) and not isinstance(key, bool) and form.is_whole_number:
            rows.append({form.fields[0]: key})
        else:
            raise _no_key(key, "give a text as it is stored, or the values of its columns as a dict")
    try:
        found = [form.check(pa.array(texts, pa.string())), *files]
    except UnicodeEncodeError as error:
        raise _no_key(error.object, "half of a character is no text") from None
    if rows:
        made = form.of_values({name: [row[name] for row in rows] for name in form.fields or rows[0]})
        found.append(made.cast(pa.string()))
    return pa.concat_arrays(found)


def _checked(row: Mapping[str, Any], form: KeyForm) -> Mapping[str, Any]:
    """Values of a key's columns. Raises: InputError: they are not those of the table's keys."""
    lacking = [name for name in form.fields if name not in row]
    other = [name for name in row if form.fields and name not in form.fields]
    if lacking or other:
        what = f"it has no {lacking[0]!r}" if lacking else f"{other[0]!r} is not part of it"
        raise _no_key(dict(row), f"{what}: the table's keys have the columns {', '.join(form.fields)}")
    return row


def _no_key(key: Any, hint: str) -> InputError:
    return InputError(f"a record key cannot be {key!r}", culprit=repr(key), hint=hint)


def _as_text(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise InputError(f"key {row} is null", culprit=str(row), hint="leave it out: no row has a null key")
    kind = column.type
    if pa.types.is_integer(kind):
        array = one_array(column) if isinstance(column, pa.ChunkedArray) else column
        return array.cast(pa.string())
    if not is_text(kind):
        raise InputError(f"record keys cannot be {kind}", culprit=str(kind), hint="give texts or whole numbers")
    return plain_strings(column).cast(pa.string())


def key_spec_of(table: Table) -> KeySpec | None:
    """How the table makes keys and partition paths; None if that is not known here."""
    try:
        return KeySpec.from_properties(table.key_properties())
    except LakeIndexError:
        return None


def knows_keys(table: Table, spec: KeySpec) -> bool:
    """Whether it is known how a value becomes a record key; releases differ over complex keys of one field, which those
    of a table without a named generator may be.
    """
    if table.binding is not None and table.binding.complex_key_new_encoding is not None:
        return True
    is_named = table.binding is not None or bool(table.properties.key_generator_name)
    return is_named and not spec.encoding_is_open
