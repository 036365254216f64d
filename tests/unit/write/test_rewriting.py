"""Rewriting a file in parts gives the rows that decoding all of it gives, and copies what it can."""

import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lakeindex.bloom import marks
from lakeindex.errors import InvariantError
from lakeindex.files.footers import footer_of, parse_footer
from lakeindex.model import BaseFile
from lakeindex.options.types import WriteConfig
from lakeindex.parquet.splice import footer_bytes
from lakeindex.pipeline import STAGED_KEY
from lakeindex.threads import having_cores
from lakeindex.write import rewrite as rewriting
from lakeindex.write import row_groups
from lakeindex.write.base_file import EncodedFile
from lakeindex.write.file_parts import ForeignSlice, OldSlice, WholeFile, open_slice
from lakeindex.write.keys.key_generators import KeySpec, PartitionKind
from lakeindex.write.merge_function import MergeFunction
from lakeindex.write.merge_rows import REPLACE, Changes, Merge, NewSlice, UpdateRule, merge_slices
from lakeindex.write.rewrite import NewFile, fixed_columns, make_together
from lakeindex.write.row_groups import Rewrite
from lakeindex.write.types.avro_schema import META_COLUMNS
from tests.base_files import encode_base_file
from tests.strategies import examples
from tests.unit.write.test_merging import OLD

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        ("v", pa.int64()),
        ("x", pa.float64()),
        ("note", pa.string()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("price", pa.decimal128(12, 2)),
        ("tags", pa.list_(pa.string())),
        ("at", pa.struct([pa.field("lat", pa.float64()), pa.field("names", pa.map_(pa.string(), pa.int32()))])),
    ]
)
NEW = NewSlice("p", "20260102000000000", "f_0-0-0_20260102000000000.parquet", 7)
GROUP = 8
CONFIG = WriteConfig(row_group_rows=GROUP)
REWRITE = Rewrite("orders", SCHEMA, CONFIG, frozenset({"id"}), NEW)


def rows_of(keys: list[str], value: int) -> dict[str, pa.Array]:
    numbers = [int.from_bytes(k.encode()[-2:]) for k in keys]
    columns = {
        "id": keys,
        "v": [None if n % 5 == 0 else value for n in numbers],
        "x": [math.nan if n % 3 == 0 else -0.0 if n % 3 == 1 else n / 7 for n in numbers],
        "note": [None if n % 4 == 0 else f"note {value} é" for n in numbers],
        "flag": [n % 2 == 0 for n in numbers],
        "day": [n + value for n in numbers],
        "price": [None if n % 9 == 0 else n for n in numbers],
        "tags": [None if n % 6 == 0 else ["a"] * (n % 4) for n in numbers],
        "at": [None if n % 8 == 0 else {"lat": n / 3, "names": [("n", value)]} for n in numbers],
    }
    return {f.name: pa.array(columns[f.name], f.type) for f in SCHEMA}


def old_rows(keys: list[str]) -> pa.Table:
    rows = len(keys)
    meta = [[OLD] * rows, [f"{OLD}_0_{i}" for i in range(rows)], keys, ["p"] * rows, ["old.parquet"] * rows]
    return pa.table(
        {**{n: pa.array(c, pa.string()) for n, c in zip(META_COLUMNS, meta, strict=True)}, **rows_of(keys, 0)}
    )


def staged(keys: list[str], value: int) -> pa.Table:
    return pa.table({STAGED_KEY: pa.array(keys, pa.string()), **rows_of(keys, value)})


def slice_of(data: bytes) -> OldSlice | ForeignSlice:
    return open_slice(WholeFile(data), SCHEMA, CONFIG)


def opened(rows: pa.Table, config: WriteConfig = CONFIG) -> OldSlice:
    return ours(encode_base_file(rows, "orders", SCHEMA, config))


def ours(data: bytes) -> OldSlice:
    old = slice_of(data)
    assert isinstance(old, OldSlice)
    return old


def foreign(rows: pa.Table) -> ForeignSlice:
    """The same rows as another writer leaves them: row groups as it likes, no mark."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, rows.schema, store_schema=False) as writer:
        writer.write_table(rows, row_group_size=max(rows.num_rows * 2 // 3, 1))
    old = slice_of(sink.getvalue().to_pybytes())
    assert isinstance(old, ForeignSlice)
    return old


def made(
    old: OldSlice | ForeignSlice | None, changes: Changes, rewrite: Rewrite = REWRITE
) -> tuple[bytes, EncodedFile]:
    new = NewFile(old, changes, rewrite)
    data = b"".join(new)
    file = BaseFile("p", "f", rewrite.new.instant, "0-0-0", len(data))
    known = footer_of(new.encoded.row_group_rows, new.encoded.key_entries)
    if rewrite.virtual is None:
        assert known == replace(parse_footer(footer_bytes(data), file), key_value={})
    assert (new.encoded.size, data[-len(new.encoded.tail) :]) == (len(data), new.encoded.tail)
    assert new.rows == pq.read_metadata(pa.BufferReader(data)).num_rows
    return data, new.encoded


def rows_in(old: OldSlice | ForeignSlice | None) -> pa.Table | None:
    if old is None or not old.rows:
        return None
    return next(old.windows(old.rows)) if isinstance(old, ForeignSlice) else old.decode(range(len(old.parts.rows)))


def change(keys: list[str], update: list[int], delete: list[int], insert: list[str], value: int = 1) -> Changes:
    return Changes(
        staged([keys[i] for i in update], value),
        np.array(update, np.int64),
        np.array(delete, np.int64),
        staged(insert, 2),
    )


def read(data: bytes) -> pa.Table:
    return pq.read_table(pa.BufferReader(data))


def by_key(table: pa.Table) -> list[tuple[object, ...]]:
    """Rows by key, floats as text: a NaN is a NaN, -0.0 is not 0.0; without sequence numbers."""
    rows = table.drop_columns(["_hoodie_commit_seqno"]).to_pylist()
    return sorted((r["_hoodie_record_key"].encode(), repr(r)) for r in rows)


def check(old: OldSlice | ForeignSlice | None, changes: Changes, rewrite: Rewrite = REWRITE) -> OldSlice | ForeignSlice:
    """Rewrite, compare with a merge of all rows, open the result."""
    stored = rows_in(old)
    data, _ = made(old, changes, rewrite)
    rows = read(data)
    merge = Merge(0 if stored is None else stored.num_rows, changes, rewrite.new)
    (expected,) = merge_slices(stored, [merge], SCHEMA)
    assert by_key(rows) == by_key(expected.cast(rows.schema))
    numbers = rows.column("_hoodie_commit_seqno").to_pylist()
    assert len(set(numbers)) == len(numbers)
    before = dict(zip(column(stored, "_hoodie_record_key"), column(stored, "_hoodie_commit_seqno"), strict=True))
    for row in rows.to_pylist():
        key, number = row["_hoodie_record_key"], row["_hoodie_commit_seqno"]
        if row["_hoodie_commit_time"] == rewrite.new.instant:
            assert number.startswith(f"{rewrite.new.instant}_{rewrite.new.task}_")
        else:
            assert number == before[key]
    entries = pq.read_metadata(pa.BufferReader(data)).metadata
    from_keys = marks.footer_of_keys(pa.array(column(rows, "_hoodie_record_key"), pa.string()), CONFIG)
    if rows.num_rows and marks.MIN_KEY.encode() in entries:
        assert entries[marks.MIN_KEY.encode()].decode() <= from_keys[marks.MIN_KEY]
        assert entries[marks.MAX_KEY.encode()].decode() >= from_keys[marks.MAX_KEY]
    again = slice_of(data)
    assert isinstance(again, OldSlice) or not rows.num_rows
    largest = max(old.parts.rows, default=0) if isinstance(old, OldSlice) else 0
    assert all(g.num_rows <= max(GROUP, largest) for g in groups_of(data))
    return again


def column(rows: pa.Table | None, name: str) -> list[str]:
    return [] if rows is None else rows.column(name).to_pylist()


KEYS = [f"k{n:03d}" for n in range(40)]
AS_NEW = UpdateRule(function=MergeFunction("as_new", lambda _, new: new), deciding=frozenset({"id"}))


@settings(max_examples=examples(50))
@given(st.data())
def test_any_changes_three_times(data: st.DataObject):
    keys = data.draw(st.lists(st.text("abcé中", min_size=1, max_size=3), unique=True, min_size=1, max_size=40))
    kinds = {"ours": opened, "foreign": foreign, "none": lambda _: None}
    old = kinds[data.draw(st.sampled_from(list(kinds)))](old_rows(keys))
    for turn in range(3):
        stored = rows_in(old)
        keys = column(stored, "_hoodie_record_key")
        fates = [data.draw(st.sampled_from(["keep", "keep", "update", "delete"])) for _ in keys]
        fresh = data.draw(st.lists(st.text("xyz", min_size=1, max_size=2), unique=True, max_size=12))
        update = data.draw(st.permutations([i for i, f in enumerate(fates) if f == "update"]))
        delete = data.draw(st.permutations([i for i, f in enumerate(fates) if f == "delete"]))
        changes = change(keys, update, delete, [f"{key}{turn}" for key in fresh], turn)
        new = NewSlice("p", f"2026010{turn + 2}000000000", f"f_{turn}.parquet", turn)
        part = data.draw(st.sampled_from([3.0, 1.0, 0.6, 0.001]))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rewriting, "_BYTES_AT_ONCE", data.draw(st.sampled_from([1, 2**28])))
            old = check(old, changes, replace(REWRITE, new=new, part=part))


@settings(max_examples=examples(50))
@given(st.data())
def test_files_made_together_are_the_same_as_made_alone(data: st.DataObject):
    """So a retry that divides the work in another way writes the same bytes under the same names."""
    kinds = {"ours": opened, "foreign": foreign, "none": lambda _: None}
    rule = data.draw(st.sampled_from([REPLACE, UpdateRule(filled=frozenset({"v", "note"})), AS_NEW]))
    files = []
    for number in range(data.draw(st.integers(1, 5))):
        keys = [f"k{n:03d}" for n in data.draw(st.lists(st.integers(0, 99), unique=True, min_size=1, max_size=30))]
        old = kinds[data.draw(st.sampled_from(["ours", "ours", "ours", "foreign", "none"]))](old_rows(keys))
        fates = [data.draw(st.sampled_from(["keep", "keep", "update", "delete"])) for _ in keys if old is not None]
        update = [i for i, f in enumerate(fates) if f == "update"]
        delete = [i for i, f in enumerate(fates) if f == "delete" and data.draw(st.booleans())]
        fresh = data.draw(st.lists(st.text("xyz", min_size=1, max_size=2), unique=True, max_size=4))
        changes = change(keys, update, delete, fresh, data.draw(st.sampled_from([0, 1])))
        new = NewSlice(f"p{number}", NEW.instant, f"f{number}.parquet", number)
        files.append((old, changes, replace(REWRITE, new=new, rule=rule)))
    together = [NewFile(*file) for file in files]
    make_together(together)
    cores = data.draw(st.sampled_from([1, 3]))
    for file, new in zip(files, together, strict=True):
        alone = NewFile(*file)
        with having_cores(lambda: cores):
            assert b"".join(new) == b"".join(alone)
        assert new.encoded == alone.encoded  # how many chunks were copied, too


def test_columns_that_stay_are_copied_whatever_changes_in_a_file_that_is_made_beside() -> None:
    """One file gets the values that it has, the other ones others."""
    files = []
    for value in (0, 1):
        new = NewSlice(f"p{value}", NEW.instant, f"f{value}.parquet", value)
        files.append((opened(old_rows(KEYS)), change(KEYS, [3], [], [], value), replace(REWRITE, new=new)))
    together = [NewFile(*file) for file in files]
    make_together(together)
    for file, new_file in zip(files, together, strict=True):
        alone = NewFile(*file)
        assert b"".join(new_file) == b"".join(alone)
        assert new_file.encoded == alone.encoded
    assert together[0].encoded.chunks_copied > together[1].encoded.chunks_copied


@pytest.mark.parametrize("update", [[0, 2], []])
def test_rows_of_files_that_are_made_together_stay_those_of_their_own_file(update: list[int]) -> None:
    """Small files get new rows, so that each is one row group, which is made with those of the others."""
    files, wanted = [], []
    for number in range(2):
        keys = [f"{number}{n}" for n in range(3)]
        rows, changes = old_rows(keys), change(keys, update, [], ["z"])
        notes = pa.array([f"note of {key}" for key in keys])
        rows = rows.set_column(rows.column_names.index("note"), "note", notes)
        nulls = pa.nulls(len(update), pa.string())
        updates = changes.updates.slice(0, len(update))
        updates = updates.set_column(updates.column_names.index("note"), "note", nulls)
        new = NewSlice(f"p{number}", NEW.instant, f"f{number}.parquet", number)
        rewrite = replace(REWRITE, new=new, rule=UpdateRule(filled=frozenset({"note"})))
        files.append(NewFile(opened(rows), replace(changes, updates=updates), rewrite))
        wanted.append({**dict(zip(keys, notes.to_pylist(), strict=True)), "z": column(staged(["z"], 2), "note")[0]})
    make_together(files)
    found = [read(b"".join(new)) for new in files]
    assert [dict(zip(column(one, "id"), column(one, "note"), strict=True)) for one in found] == wanted


def test_row_groups_are_made_by_all_cores_that_are_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rows by each; by one core all that there is room for."""
    changes, asked, real = change(KEYS, list(range(40)), [], []), [], row_groups.decode_together
    whole, _ = made(opened(old_rows(KEYS)), changes)
    monkeypatch.setattr(row_groups, "decode_together", lambda some, *rest: asked.append(len(some)) or real(some, *rest))
    for cores in (1, 2, 9):
        with having_cores(lambda: cores):  # noqa: B023 - called at once
            assert made(opened(old_rows(KEYS)), changes)[0] == whole
        assert sorted(asked, reverse=True) == {1: [5], 2: [2, 2, 1], 9: [1] * 5}[cores]
        asked.clear()


def test_files_made_together_are_decoded_and_encoded_at_once(monkeypatch: pytest.MonkeyPatch):
    written = []
    real = pq.ParquetWriter.write_table
    monkeypatch.setattr(
        pq.ParquetWriter, "write_table", lambda self, *a, **k: written.append(self) or real(self, *a, **k)
    )
    keys = [f"k{i}" for i in range(8)]
    olds = [opened(old_rows(keys)) for _ in range(6)]
    files = []
    for n, old in enumerate(olds):
        files.append(NewFile(old, change(keys, [3], [4] if n % 2 else [], []), REWRITE))
        old.decode = None  # type: ignore[method-assign, assignment] # nobody decodes it alone
    written.clear()
    make_together(files)
    assert len(written) == 6
    assert len(set(written)) == 2
    for file in files:
        assert read(b"".join(file)).num_rows == file.rows


def test_a_damaged_file_is_named_by_its_own_making():
    whole, bad = opened(old_rows(KEYS)), old_rows(KEYS)
    data = bytearray(encode_base_file(bad, "orders", SCHEMA, CONFIG))
    start = ours(bytes(data)).parts.text.chunks[0][6].start
    data[start + 30] ^= 0xFF
    files = [NewFile(old, change(KEYS, [3], [], []), REWRITE) for old in (whole, ours(bytes(data)))]
    make_together(files)
    assert read(b"".join(files[0])).num_rows == len(KEYS)
    with pytest.raises(OSError, match="row group 0"):
        b"".join(files[1])


def chunks(old: OldSlice, changes: Changes) -> tuple[int, int]:
    _, encoded = made(old, changes)
    return encoded.chunks_copied, encoded.chunks_encoded


LEAVES = len(META_COLUMNS) + 11
"""8 flat columns and lists of one leaf, a struct of three."""


def test_only_the_file_name_of_a_clean_row_group_is_encoded():
    old = opened(old_rows(KEYS))
    assert len(old.parts.columns) == LEAVES
    # one update in the second of five groups; x, flag and price of a key are the same whatever the value
    copied, encoded = chunks(old, change(KEYS, [11], [], []))
    patched = {"_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name", "v", "note", "day", "tags", "at"}
    leaves = len(patched) + 2
    assert encoded == 4 + leaves
    assert copied + encoded == 5 * LEAVES


def test_columns_that_did_not_change_are_copied():
    old = opened(old_rows(KEYS))
    copied, encoded = chunks(old, change(KEYS, [11], [], [], value=0))
    # nested columns are not compared
    assert encoded == 4 + 3 + 4
    assert copied == 5 * LEAVES - encoded


def test_new_rows_get_a_group_of_their_own_and_the_next_join_them():
    old = opened(old_rows(KEYS))
    first, encoded = made(old, change(KEYS, [], [], ["n1"]))
    assert [g.num_rows for g in groups_of(first)] == [8, 8, 8, 8, 8, 1]
    assert encoded.chunks_encoded == 5 + LEAVES
    place = old.parts.columns.index("_hoodie_file_name")
    sizes = [[chunk.size for chunk in group] for group in old.parts.text.chunks]
    assert encoded.bytes_copied == sum(sum(group) - group[place] for group in sizes)
    second, _ = made(ours(first), change(KEYS, [], [], ["n0", "n2"]))
    assert [g.num_rows for g in groups_of(second)] == [8, 8, 8, 8, 8, 3]
    assert read(second)["id"].to_pylist()[-3:] == ["n0", "n1", "n2"]


def groups_of(data: bytes) -> list[pq.RowGroupMetaData]:
    metadata = pq.read_metadata(pa.BufferReader(data))
    return [metadata.row_group(g) for g in range(metadata.num_row_groups)]


def test_many_new_rows_are_cut():
    old = opened(old_rows(KEYS))
    data, _ = made(old, change(KEYS, [], [], [f"n{i:02d}" for i in range(20)]))
    assert [g.num_rows for g in groups_of(data)] == [8, 8, 8, 8, 8, 8, 8, 4]


def test_a_group_that_lost_most_rows_is_joined_with_its_neighbour():
    old = opened(old_rows(KEYS[:24]))
    data, _ = made(old, change(KEYS, [], [*range(8, 15), *range(16, 20)], []))
    assert [g.num_rows for g in groups_of(data)] == [8, 5]


@pytest.mark.parametrize("kind", [opened, foreign])
@pytest.mark.parametrize("part", [3.0, 0.001])
def test_all_rows_deleted(kind: Callable[[pa.Table], OldSlice | ForeignSlice], part: float):
    rewrite = replace(REWRITE, part=part)
    data, _ = made(kind(old_rows(KEYS[:10])), change(KEYS, [], list(range(10)), []), rewrite)
    assert (read(data).num_rows, groups_of(data)) == (0, [])


def test_a_full_filter_is_built_from_all_keys():
    fresh = [f"n{i:02d}" for i in range(30)]
    assert check(opened(old_rows(KEYS[:4])), change(KEYS, [1], [2], fresh)).rows == 33


def test_a_file_without_keys_has_no_mark_of_ours():
    assert isinstance(slice_of(encode_base_file(old_rows([]), "orders", SCHEMA, CONFIG)), ForeignSlice)


def test_files_of_others_are_sorted_as_a_whole_if_there_is_room_else_window_by_window():
    order = [KEYS[n * 7 % 40] for n in range(40)]
    changes = change(order, [3], [5], ["k0005", "k0305"])
    whole, encoded = made(foreign(old_rows(order)), changes, replace(REWRITE, part=3.0))
    keys = read(whole)["_hoodie_record_key"].to_pylist()
    assert keys == sorted(keys)
    assert (len(keys), encoded.chunks_copied) == (41, 0)
    assert [g.num_rows for g in groups_of(whole)] == [8, 8, 8, 8, 8, 1]
    cut, encoded = made(foreign(old_rows(order)), changes, replace(REWRITE, part=1.2))
    assert [g.num_rows for g in groups_of(cut)] == [8, 7, 8, 8, 8, 2]
    found = read(cut)["_hoodie_record_key"].to_pylist()
    windows = [order[:16], order[16:32], order[32:], ["k0005", "k0305"]]
    windows[0].remove(order[5])
    assert found == [key for window in windows for key in sorted(window)]
    assert encoded.chunks_copied == 0


def test_no_more_rows_are_decoded_at_once_than_arrow_can_join(monkeypatch: pytest.MonkeyPatch):
    changes = change(KEYS, [3, 17, 30], [], [])
    whole, _ = made(opened(old_rows(KEYS)), changes)
    asked = []
    plain = row_groups.decode_together
    monkeypatch.setattr(
        row_groups, "decode_together", lambda some, *rest: asked.append(len(some)) or plain(some, *rest)
    )
    assert made(opened(old_rows(KEYS)), changes)[0] == whole
    monkeypatch.setattr(rewriting, "_BYTES_AT_ONCE", 1)
    assert made(opened(old_rows(KEYS)), changes)[0] == whole
    assert asked == [3, 1, 1, 1]
    by_window, _ = made(foreign(old_rows(KEYS)), change(KEYS, [3], [5], ["k0005"]))
    assert [g.num_rows for g in groups_of(by_window)] == [7, 8, 8, 8, 8, 1]


@pytest.mark.parametrize(("rule", "part"), [(REPLACE, 0.4), (AS_NEW, 1.25)])
def test_a_file_in_parts_is_made_while_it_is_written(rule: UpdateRule, part: float):
    """With room for two row groups, no more than two are decoded and encoded before a piece of them is given out.
    A merge function sees all columns, which takes more room.
    """
    old = opened(old_rows(KEYS))
    decoded: list[int] = []
    real = old.decode
    old.decode = lambda groups, *more: decoded.extend(groups) or real(groups, *more)  # type: ignore[method-assign]
    new = NewFile(old, change(KEYS, list(range(40)), [], []), replace(REWRITE, part=part, rule=rule))
    seen = [(len(decoded), len(piece)) for piece in new]
    steps = sorted({count for count, _ in seen})
    assert steps == [0, 2, 4, 5]


def test_a_file_is_not_used_before_it_is_whole():
    new = NewFile(opened(old_rows(KEYS)), change(KEYS, [1], [], []), REWRITE)
    next(iter(new))
    with pytest.raises(InvariantError, match="before it was whole"):
        _ = new.encoded


def test_a_file_of_an_older_schema_is_decoded():
    narrow = pa.schema(list(SCHEMA)[:-1])
    data = encode_base_file(old_rows(KEYS).drop_columns(["at"]), "orders", narrow, CONFIG)
    old = slice_of(data)
    assert isinstance(old, ForeignSlice)
    for part in (3.0, 0.3):
        rewritten, _ = made(old, change(KEYS, [3], [], []), replace(REWRITE, part=part))
        assert [row is None for row in read(rewritten)["at"].to_pylist()].count(False) == 1
    required = pa.schema([f.with_nullable(nullable=False) if f.name == "day" else f for f in SCHEMA])
    data = encode_base_file(old_rows(KEYS), "orders", required, CONFIG)
    assert isinstance(slice_of(data), ForeignSlice)


TEXTS = pa.schema(
    [("a", pa.string()), ("b", pa.string()), ("n", pa.int32()), ("t", pa.timestamp("us")), ("f", pa.float64())]
)


@pytest.mark.parametrize(
    ("keys", "partitions", "path", "fixed"),
    [
        (["a"], [], "", {"a"}),
        (["n"], ["b"], "x", {"n", "b"}),
        (["n"], ["b"], "b=x", {"n", "b"}),
        (["t"], ["f"], "1.0", set()),  # more values than texts
        (["a", "b"], [], "", set()),  # a,b can be cut in two ways
        (["a"], ["b"], "__HIVE_DEFAULT_PARTITION__", {"a"}),  # null or the text itself
        (["a"], ["b", "n"], "x/1", {"a", "b", "n"}),
        (["a"], ["b", "n"], "x/y/1", {"a"}),
        (["a"], ["s.b"], "x", {"a"}),
        (["a"], ["b"], None, {"a"}),  # a global index: the incoming row may name another partition
    ],
)
def test_fixed_columns(keys: list[str], partitions: list[str], path: str | None, fixed: set[str]):
    spec = KeySpec(tuple(keys), tuple((name, PartitionKind.SIMPLE) for name in partitions))
    assert fixed_columns(spec, TEXTS, path) == fixed


def test_a_partition_by_time_is_not_fixed():
    spec = KeySpec(("a",), (("t", PartitionKind.SIMPLE), ("b", PartitionKind.SIMPLE)))
    assert fixed_columns(spec, TEXTS, "2026/x") == {"a"}


def test_dictionaries_hold_what_the_rows_hold_however_often_a_file_is_rewritten():
    """Text columns are patched in their dictionaries: values that no row has any more must leave them."""
    keys = [f"k{i:02d}" for i in range(GROUP)]
    old = opened(old_rows(keys).set_column(8, "note", pa.array(["same"] * GROUP)))
    for turn in range(5):
        new = replace(NEW, instant=f"2026010{turn + 3}000000000")
        updated = change(keys, [1, 4], [], [], value=turn)
        data, _ = made(old, updated, replace(REWRITE, new=new))
        file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=["_hoodie_commit_time", "note"])
        times = file.read_row_group(0).column("_hoodie_commit_time").chunk(0)
        assert sorted(times.dictionary.to_pylist()) == [OLD, new.instant]
        assert times.to_pylist() == [new.instant if row in (1, 4) else OLD for row in range(GROUP)]
        old = check(old, updated, replace(REWRITE, new=new))


def said(chunk: pq.ColumnChunkMetaData) -> str | None:
    return None if chunk.statistics is None else str(chunk.statistics.to_dict())


def test_a_row_group_that_loses_rows_says_of_the_others_what_one_made_of_them_says():
    """Rows, statistics to the byte, and nothing in a dictionary that no row has; a column stands in one if it did."""
    rng, size = np.random.default_rng(3), 60
    config, keys = WriteConfig(row_group_rows=size), [f"k{n:03d}" for n in range(3 * size)]
    rows = old_rows(keys)
    for name, values in (
        ("_hoodie_commit_time", [f"2026010{n}000000000" for n in rng.integers(1, 4, len(keys))]),
        ("v", [[None, 7, -7, 2**62][n] for n in rng.integers(0, 4, len(keys))]),
        ("x", [[None, -0.0, 0.5, 1.5][n] for n in rng.integers(0, 4, len(keys))]),
        ("note", [[None, "", "é", "z" * 40, f"{n}"][n % 5] for n in rng.integers(0, 40, len(keys))]),
    ):
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, name, pa.array(values, rows.schema.field(name).type))
    old = opened(rows, config)
    rewrite = replace(REWRITE, config=config)
    for share in (0.02, 0.3, 0.5):
        gone = np.flatnonzero(rng.random(len(keys)) < share)
        data, _ = made(old, change(keys, [], gone.tolist(), []), rewrite)
        kept = rows.filter(pa.array(~np.isin(np.arange(len(keys)), gone)))
        assert by_key(read(data)) == by_key(
            kept.set_column(4, "_hoodie_file_name", pa.array([NEW.file_name] * len(kept)))
        )
        for number, group in enumerate(groups_of(data)):
            rest = [n for n in range(number * size, (number + 1) * size) if n not in set(gone.tolist())]
            named = rows.take(rest).set_column(4, "_hoodie_file_name", pa.array([NEW.file_name] * len(rest)))
            (anew,) = groups_of(encode_base_file(named, "orders", SCHEMA, config))
            before = pq.read_metadata(old._file.reader()).row_group(number)
            for leaf in range(group.num_columns):
                one, other, was = group.column(leaf), anew.column(leaf), before.column(leaf)
                assert one.num_values == other.num_values, one.path_in_schema
                assert said(one) == said(other), one.path_in_schema
                assert one.has_dictionary_page == was.has_dictionary_page, one.path_in_schema
        coded = pq.ParquetFile(pa.BufferReader(data), read_dictionary=["note", "_hoodie_commit_time"])
        for number in range(coded.num_row_groups):
            for name in ("note", "_hoodie_commit_time"):
                chunk = coded.read_row_group(number, columns=[name]).column(0).chunk(0)
                assert set(chunk.dictionary.to_pylist()) == set(chunk.to_pylist()) - {None}


@pytest.mark.parametrize(("update", "delete"), [((2, 7, 30), ()), ((), (1, 5)), ((2, 7, 30), (1, 3, 5))])
def test_columns_stand_in_dictionaries_as_they_did_whatever_happens_to_their_rows(
    update: tuple[int, ...], delete: tuple[int, ...]
):
    """Or a table grows with its upserts. An updated row counts from where it stands in the new file."""
    config, keys = WriteConfig(row_group_rows=40), [f"k{n:02d}" for n in range(40)]
    rows = old_rows(keys)
    for name, values in (("note", ["a", None, "b", "c"]), ("v", [None, 7, -7, 2**62]), ("price", [1, 2, None, 3])):
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, name, pa.array(values * 10, rows.schema.field(name).type))
    old, rewrite = opened(rows, config), replace(REWRITE, config=config)
    changes = change(keys, [*update], [*delete], [])
    check(old, changes, rewrite)
    data, _ = made(old, changes, rewrite)
    ((group,), before) = groups_of(data), pq.read_metadata(old._file.reader()).row_group(0)
    had, has = (
        {c.path_in_schema for n in range(g.num_columns) if (c := g.column(n)).has_dictionary_page}
        for g in (before, group)
    )
    assert has == had > {"note", "v", "price"}
    numbers = read(data).column("_hoodie_commit_seqno").to_pylist()
    kept = [n for n in range(40) if n not in delete]
    assert [numbers[kept.index(n)] for n in update] == [f"{NEW.instant}_{NEW.task}_{kept.index(n)}" for n in update]


def test_the_footer_of_a_file_that_is_not_in_memory_is_read_once_before_it_is_parsed() -> None:
    class Counted(WholeFile):
        def __getitem__(self, span: slice) -> memoryview:
            spans.append(span.indices(len(self))[:2])
            return super().__getitem__(span)

    spans: list[tuple[int, int]] = []
    data = encode_base_file(old_rows(["a", "b"]), "orders", SCHEMA, CONFIG)
    assert isinstance(open_slice(Counted(data), SCHEMA, CONFIG), OldSlice)
    assert len(spans) == len({*spans}) == 2  # its length, and the footer
