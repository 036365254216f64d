"""Combine duplicates of a batch and sort it: one row a key, the one that wins by the ordering field.

Ordering values are compared as in Hudi, which compares them as Java does: in one place for the batch and for stored
rows.

* Floats: ``Double.compare``. A NaN equals any other and is greater than all numbers, and -0.0 is less than 0.0.
* Bytes: ``ByteBuffer.compareTo``. Bytes have a sign: ``80`` is the least of all, ``7f`` the greatest.
* Texts by their UTF-8 bytes, all others by value, as Arrow sorts them.

Of several ordering fields the first in which two rows differ decides.

Hudi 0.15 and 1.2 agree in all of it, within a batch and against stored rows
(``tests/interop/test_ordering_values.py``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import SchemaMismatchError
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import one_array, sample_of, string_buffers
from lakeindex.pipeline import OP_DELETE, OP_REPLACE, STAGED_KEY, STAGED_OP, STAGED_PARTITION
from lakeindex.write.merge_rows import REPLACE, UpdateRule
from lakeindex.write.single_columns import replaced

_SIGN_AND_REST = {32: (np.int32, np.int32(0x7FFFFFFF)), 64: (np.int64, np.int64(0x7FFFFFFFFFFFFFFF))}


def check_ordering(names: Iterable[str], columns: pa.Schema) -> None:
    """Refuse ordering fields by whose values rows are not ordered here.

    Raises:
        SchemaMismatchError: there is no such column, as of a field of a struct, or it is a list, struct or map.
    """
    there = frozenset(columns.names)
    for name in names:
        if name not in there:
            why = "a field of a struct" if name.split(".")[0] in there else "no column of the table"
            raise SchemaMismatchError(
                f"ordering field {name!r} is {why}, and rows are ordered by columns alone",
                culprit=name,
                hint="order by a column of its own; a table of Hudi's that has such a field is written to with Hudi",
            )
        kind = columns.field(name).type
        if pa.types.is_nested(kind):
            raise SchemaMismatchError(
                f"ordering field {name!r} is {kind}, and such values have no order",
                culprit=name,
                hint="order by a number, time or text",
            )


def comparable(values: pa.Array) -> pa.Array:
    """Values whose order in Arrow is that of Java; equal ones are equal. Nulls stay null."""
    if pa.types.is_floating(values.type):
        return _whole_numbers(values)
    if any(test(values.type) for test in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)):
        return _without_signs(values)
    return values


def are_older(fields: Iterable[tuple[pa.Array, pa.Array]]) -> npt.NDArray[np.bool_] | None:
    """Whether incoming rows are older than stored ones.

    Args:
        fields: of each ordering field, the first one first, the incoming values and the stored ones.

    Returns:
        bool [n]; a row is not older where the field that would decide is null on one side. None: there is no field.
    """
    found: npt.NDArray[np.bool_] | None = None
    is_open: npt.NDArray[np.bool_] | None = None
    for incoming, stored in fields:
        one, other = comparable(incoming), comparable(stored)
        less = pc.fill_null(pc.less(one, other), fill_value=False).to_numpy(zero_copy_only=False)
        same = pc.fill_null(pc.equal(one, other), fill_value=False).to_numpy(zero_copy_only=False)
        found = less if found is None or is_open is None else found | (is_open & less)
        is_open = same if is_open is None else is_open & same
    return found


def _whole_numbers(values: pa.Array) -> pa.Array:
    whole, rest = _SIGN_AND_REST[values.type.bit_width]
    numbers = values.fill_null(0.0).to_numpy(zero_copy_only=False).copy()
    numbers[np.isnan(numbers)] = np.nan  # one NaN, without a sign
    bits = numbers.view(whole)
    ordered = np.where(bits < 0, bits ^ rest, bits)
    return pa.array(ordered, mask=values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None)


def _without_signs(values: pa.Array) -> pa.Array:
    """Bytes that are ordered without a sign like the values with one: all first bits are turned over."""
    plain = values.cast(pa.large_binary())
    valid, offsets, data = plain.buffers()
    turned = np.frombuffer(data, np.uint8) ^ np.uint8(0x80) if data is not None else np.zeros(0, np.uint8)
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(plain), [valid, offsets, pa.py_buffer(turned)], plain.null_count, plain.offset
    )


ARRIVAL = "_li_arrival"
_ORDERING = "_li_ordering_"
_STAYS = "_li_stays"
_SAMPLE_ROWS = 20_000
_MOSTLY_DISTINCT = 0.999
_ROWS_OF_A_PARTITION = 256


class Combining(Frozen):
    """Which rows are of one key, and which of them wins.

    The largest ordering values win (the first field in which rows differ decides) and, on a tie, the row that came
    last; without an ordering field the row that came last.

    Attributes:
        is_global: the lookup key is the record key alone; else (partition path, record key).
        ordering_fields: columns of ordering values if the merge mode goes by them, else none.
        rule: how a row and a newer one of its key become one; the newer one is kept as it is by default, and where one
            of the two is a delete.
        deletes_lose: a delete wins only if nothing else comes of its key: of a row that moved, it says where it was.
    """

    is_global: bool
    ordering_fields: tuple[str, ...]
    rule: UpdateRule = REPLACE
    deletes_lose: bool = False

    @property
    def looks_at_all(self) -> bool:
        """Whether what is kept is made of all rows of a key: they are combined at once."""
        return not self.rule.replaces

    @property
    def lookup(self) -> list[str]:
        """Columns of the lookup key."""
        return [STAGED_KEY] if self.is_global else [STAGED_PARTITION, STAGED_KEY]


class Combined(Frozen):
    """Rows, one a key, and how many older duplicates were dropped; whether they are all, in the order they came in."""

    rows: pa.Table
    combined: int
    as_they_came: bool = False


def combine(rows: pa.Table, rule: Combining) -> Combined:
    """Keep the winner of each key among a part of the batch's rows.

    Winners of parts, combined again, are the winners of the whole. Few duplicates are left to that:
    sorting costs more than they do.

    Args:
        rows: staged columns plus ``_li_arrival`` (int64, the place in the whole input).

    Returns:
        The rows with ``_li_arrival``; as they came if keys hardly repeat, else in no certain order.
    """
    if rule.deletes_lose:
        rows = _with_places_taken(rows, rule)
    keys = sample_of(rows.column(STAGED_KEY), _SAMPLE_ROWS)
    if pc.count_distinct(keys).as_py() >= len(keys) * _MOSTLY_DISTINCT:
        return Combined(rows, 0)
    winners = _winners(rows, rule)
    return Combined(rows.take(winners), rows.num_rows - len(winners))


def combine_and_sort(rows: pa.Table, rule: Combining) -> Combined:
    """Sort by the lookup key and keep the winner of each key. Keys sort by their UTF-8 bytes.

    Args:
        rows: staged columns plus ``_li_arrival`` (int64, the place in the whole input).

    Returns:
        The rows without ``_li_arrival``, each column in one piece; order: lookup key, ascending.
    """
    if rule.deletes_lose:
        rows = _with_places_taken(rows, rule)
    kept = rows.drop_columns([ARRIVAL])
    # most unsorted batches are found out by their first rows
    as_they_came = _is_sorted(rows.slice(0, _SAMPLE_ROWS), rule.lookup) and _is_sorted(rows, rule.lookup)
    if not as_they_came:
        if rule.rule.function is not None:
            kept = _folded(kept, rows, rule)
        elif rule.looks_at_all:
            kept = _filled(kept, rows, rule)
        else:
            kept = kept.take(_winners(rows, rule))
    columns = [one_array(column) for column in kept.columns]
    return Combined(pa.table(columns, schema=kept.schema), rows.num_rows - kept.num_rows, as_they_came)


def combine_with_stored(rows: pa.Table, rule: Combining) -> Combined:
    """The same, of rows that come and of stored rows that go: of one key the row that comes takes the other's place.

    Args:
        rows: staged columns plus ``_li_arrival``; stored rows that go are deletes.

    Returns:
        As :func:`combine_and_sort`; a row that takes the place of a stored one is marked so.
    """
    goes = pc.equal(rows.column(STAGED_OP), OP_DELETE)
    stored = combine_and_sort(rows.filter(goes), rule)
    coming = combine_and_sort(rows.filter(pc.invert(goes)), rule)
    joined = pa.concat_tables([stored.rows, coming.rows])
    keys = [(name, "ascending") for name in rule.lookup]
    joined = joined.take(pc.sort_indices(joined, sort_keys=[*keys, (STAGED_OP, "descending")]))
    is_last = _is_last_of_its_key([one_array(joined.column(name)) for name in rule.lookup])
    takes_place = np.zeros(len(is_last), np.bool_)
    takes_place[1:] = ~is_last[:-1]
    op = pc.if_else(takes_place, pa.scalar(OP_REPLACE, pa.int8()), one_array(joined.column(STAGED_OP)))
    kept = joined.set_column(joined.column_names.index(STAGED_OP), STAGED_OP, op).filter(pa.array(is_last))
    columns = [one_array(column) for column in kept.columns]
    return Combined(pa.table(columns, schema=kept.schema), rows.num_rows - kept.num_rows)


def _with_places_taken(rows: pa.Table, rule: Combining) -> pa.Table:
    """Rows, of which those that take the place of one that goes, in another partition perhaps, are marked so."""
    goes = pc.equal(rows.column(STAGED_OP), OP_DELETE)
    if not pc.any(goes).as_py():
        return rows
    names = [one_array(rows.column(name)).cast(pa.string()) for name in rule.lookup]
    lookup = pc.binary_join_element_wise(*names, "\0")
    takes = pc.and_(pc.invert(goes), pc.is_in(lookup, value_set=lookup.filter(one_array(goes))))
    op = pc.if_else(takes, pa.scalar(OP_REPLACE, pa.int8()), rows.column(STAGED_OP))
    return rows.set_column(rows.column_names.index(STAGED_OP), STAGED_OP, op)


def _is_sorted(rows: pa.Table, names: Sequence[str]) -> bool:
    """Whether each row's values are greater than those of the row before, the first column first."""
    count = max(rows.num_rows - 1, 0)
    is_greater, is_same = np.zeros(count, np.bool_), np.ones(count, np.bool_)
    for name in names:
        left, right = rows.column(name).slice(0, count), rows.column(name).slice(1)
        is_greater |= is_same & pc.less(left, right).to_numpy()
        is_same &= pc.equal(left, right).to_numpy()
    return bool(is_greater.all())


def _winners(rows: pa.Table, rule: Combining) -> pa.Array:
    """Row numbers of the winners, sorted by lookup key."""
    told = _order_by_words(rows, rule.lookup)
    if told is None:
        told = _order_by_texts(rows, rule.lookup)
    if told is not None:
        return pa.array(told)
    order, is_last = _in_order(rows, rule)
    return order.filter(pa.array(is_last))


def _in_order(rows: pa.Table, rule: Combining) -> tuple[pa.Array, np.ndarray]:
    """Row numbers by lookup key, the rows of a key from the oldest to the winner, and whether each is the winner."""
    ordering = [f"{_ORDERING}{number}" for number in range(len(rule.ordering_fields))]
    names = [*rule.lookup, *ordering, ARRIVAL]
    for name, field in zip(ordering, rule.ordering_fields, strict=True):
        rows = rows.append_column(name, comparable(one_array(rows.column(field))))
    if rule.deletes_lose:
        rows = rows.append_column(_STAYS, pc.not_equal(rows.column(STAGED_OP), OP_DELETE).cast(pa.int8()))
        names.insert(len(rule.lookup), _STAYS)
    order = pc.sort_indices(rows.select(names), sort_keys=[(name, "ascending") for name in names])
    sorted_lookup = [rows.column(name).take(order).combine_chunks() for name in rule.lookup]
    return order, _is_last_of_its_key(sorted_lookup)


def _filled(kept: pa.Table, rows: pa.Table, rule: Combining) -> pa.Table:
    """The winners, with values of rows before them where they have none; deletes neither give nor take any."""
    order, is_last = _in_order(rows, rule)
    count = len(order)
    if is_last.all():
        return kept.take(order)
    numbers = np.arange(count, dtype=np.int64)
    is_delete = pc.equal(rows.column(STAGED_OP).take(order), OP_DELETE).to_numpy()
    # A row's values may come from rows of its key behind the last delete.
    begins = np.concatenate([[True], is_last[:-1]]) | is_delete | np.concatenate([[False], is_delete[:-1]])
    first = np.maximum.accumulate(np.where(begins, numbers, 0))
    winners = order.filter(pa.array(is_last))
    columns = []
    for name, column in zip(kept.column_names, kept.columns, strict=True):
        if name not in rule.rule.filled:
            columns.append(column.take(winners))
            continue
        is_there = column.take(order).is_valid().to_numpy()
        newest = np.maximum.accumulate(np.where(is_there, numbers, -1))
        picked = np.where(newest >= first, newest, numbers)[is_last]
        columns.append(column.take(order.take(pa.array(picked))))
    return pa.table(columns, schema=kept.schema)


def _folded(kept: pa.Table, rows: pa.Table, rule: Combining) -> pa.Table:
    """The winners, each made of the rows of its key one after the other; a delete takes nothing, and leaves nothing."""
    order, is_last = _in_order(rows, rule)
    kept = kept.take(order)
    firsts = np.flatnonzero(np.concatenate([[True], is_last[:-1]])[: len(order)])
    sizes = np.diff(np.append(firsts, len(order)))
    keys = np.arange(len(firsts))
    current, done, numbers = kept.take(pa.array(firsts)), [], []
    for step in range(1, int(sizes.max(initial=0)) + 1):
        is_whole = sizes[keys] == step
        done.append(current.filter(pa.array(is_whole)))
        numbers.append(keys[is_whole])
        keys, current = keys[~is_whole], current.filter(pa.array(~is_whole))
        if len(keys):
            current = _over(current, kept.take(pa.array(firsts[keys] + step)), rule.rule)
    if not done:
        return kept
    return pa.concat_tables(done).take(pa.array(np.argsort(np.concatenate(numbers))))


def _over(older: pa.Table, newer: pa.Table, rule: UpdateRule) -> pa.Table:
    """Newer rows, made one with older ones where neither is a delete."""
    deletes = [pc.equal(table.column(STAGED_OP), OP_DELETE).to_numpy() for table in (older, newer)]
    both = np.flatnonzero(~deletes[0] & ~deletes[1])
    if not len(both):
        return newer
    picked = pa.array(both)
    staged = (STAGED_PARTITION, STAGED_KEY, STAGED_OP)
    body = pa.schema([f.with_nullable(f.name not in rule.required) for f in newer.schema if f.name not in staged])
    made, there = rule.updated(older.take(picked), newer.take(picked), body, "the batch"), frozenset(body.names)
    columns = [
        replaced(one_array(column), both, one_array(made.column(name))) if name in there else one_array(column)
        for name, column in zip(newer.column_names, newer.columns, strict=True)
    ]
    return pa.table(columns, schema=newer.schema)


def _order_by_words(rows: pa.Table, lookup: Sequence[str]) -> np.ndarray | None:
    """Row numbers by lookup key where eight bytes tell record keys of one length apart (a fifth of
    sorting texts), else None.
    """
    words = _telling_words(one_array(rows.column(STAGED_KEY)))
    if words is None:
        return None
    order = np.argsort(words)
    sorted_by = [words]
    if STAGED_PARTITION in lookup:
        sorted_by.append(_ranks(rows.column(STAGED_PARTITION)))
        order = order[np.argsort(sorted_by[-1][order], kind="stable")]
    is_same = [numbers[order][1:] == numbers[order][:-1] for numbers in sorted_by]
    return None if np.logical_and.reduce(is_same).any() else order


def _ranks(partitions: pa.ChunkedArray) -> np.ndarray:
    """Of each row the place of its partition path among all, which are sorted: int32 [n]."""
    encoded = one_array(partitions).dictionary_encode()
    ranks = np.argsort(pc.array_sort_indices(encoded.dictionary).to_numpy()).astype(np.int32)
    return np.asarray(ranks[encoded.indices.to_numpy()])


def _order_by_texts(rows: pa.Table, lookup: Sequence[str]) -> np.ndarray | None:
    """Row numbers by lookup key where each is there once and partitions are large, else None: keys of one partition
    after the other are sorted in a fraction of the time that both columns take together.
    """
    keys = one_array(rows.column(STAGED_KEY))
    ranks = _ranks(rows.column(STAGED_PARTITION)) if STAGED_PARTITION in lookup else np.zeros(len(keys), np.int32)
    count = int(ranks.max(initial=0)) + 1
    if len(keys) < count * _ROWS_OF_A_PARTITION:
        return None
    order = np.argsort(ranks.astype(np.min_scalar_type(count)), kind="stable")
    ends = np.cumsum([0, *np.bincount(ranks, minlength=count)])
    for start, stop in itertools.pairwise(ends.tolist()):
        mine = keys if count == 1 else keys.take(pa.array(order[start:stop]))
        places = pc.array_sort_indices(mine)
        ordered = mine.take(places)
        if len(mine) > 1 and pc.any(pc.equal(ordered.slice(1), ordered.slice(0, len(mine) - 1))).as_py():
            return None
        order[start:stop] = order[start:stop][places.to_numpy()]
    return order


def _telling_words(keys: pa.Array) -> np.ndarray | None:
    """The eight bytes from where keys begin to differ, as numbers that sort like them: uint64 [n];
    None if lengths differ.
    """
    buffers = string_buffers(keys)
    offsets = buffers.offsets
    width = int(offsets[1] - offsets[0]) if len(keys) else 0
    if not width or (np.diff(offsets) != width).any():
        return None
    texts = buffers.data[offsets[0] : offsets[-1]].reshape(len(keys), width)
    first = int((texts != texts[0]).any(axis=0).argmax())
    words = np.zeros((len(keys), 8), np.uint8)
    words[:, : width - first] = texts[:, first : first + 8]
    return words.view(">u8")[:, 0].astype(np.uint64)


def _is_last_of_its_key(columns: list[pa.Array]) -> np.ndarray:
    """Bool per sorted row: the next row has another key."""
    rows = len(columns[0])
    last = np.ones(rows, np.bool_)
    if rows < 2:
        return last
    differs = np.zeros(rows - 1, np.bool_)
    for column in columns:
        differs |= pc.not_equal(column.slice(0, rows - 1), column.slice(1)).to_numpy(zero_copy_only=False)
    last[:-1] = differs
    return last
