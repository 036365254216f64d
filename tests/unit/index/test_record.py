"""Shards, look-ups, resets and compaction of the RECORD index, against a dictionary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lakeindex.errors import IndexDamagedError, InvariantError
from lakeindex.hashing.java_strings import string_hashes
from lakeindex.index.locations import record_shards
from lakeindex.index.locations import record_shards as record_merge
from lakeindex.index.locations.change_log import (
    Built,
    ChangeLog,
    CoveredFile,
    Delta,
    LogState,
    catch_up_name,
    new_generation,
)
from lakeindex.index.locations.record import RecordStore, make_index
from lakeindex.index.locations.record_options import RecordOptions
from lakeindex.index.locations.record_shards import asked_by_shard, shard_count, shard_numbers
from lakeindex.index.locations.store_context import Completed, StoreContext
from lakeindex.index.locations.stored_index import DELTA_SCHEMA, Change, Found
from lakeindex.model import IndexSpec, IndexType
from lakeindex.options.parse import parse_options
from lakeindex.options.types import WriteConfig
from lakeindex.storage.memory import MemoryStorage
from lakeindex.storage.port import Storage
from tests.strategies import examples

EVERYTHING = Completed(frozenset(), "9" * 17)
"""All instants count."""


def java_hash(text: str) -> int:
    """``String.hashCode``, from its definition."""
    units = np.frombuffer(text.encode("utf-16-le"), "<u2").tolist()
    h = 0
    for unit in units:
        h = (31 * h + unit) & 0xFFFFFFFF
    return h - 2**32 if h >= 2**31 else h


def java_shard(h: int, shards: int) -> int:
    """``Math.abs(Math.abs(h) % shards)`` with Java's overflow and sign rules."""
    absolute = h if h == -(2**31) else abs(h)
    remainder = abs(absolute) % shards * (-1 if absolute < 0 else 1)
    return abs(remainder)


@pytest.mark.parametrize(
    ("key", "hashed", "shard"), [("polygenelubricants", -(2**31), 8), ("user123", -147178873, 3), ("", 0, 0)]
)
def test_shard_is_hudis(key: str, hashed: int, shard: int):
    hashes = string_hashes(pa.array([key]))
    assert (hashes[0], shard_numbers(hashes, 10)[0]) == (hashed, shard)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=20), st.integers(1, 2**20))
def test_shard_equals_its_definition(keys: list[str], shards: int):
    hashes = string_hashes(pa.array(keys, pa.string()))
    assert hashes.tolist() == [java_hash(key) for key in keys]
    assert shard_numbers(hashes, shards).tolist() == [java_shard(java_hash(key), shards) for key in keys]


@pytest.mark.parametrize(
    ("rows", "options", "expected"),
    [
        (0, {}, 10),
        (111_000_000, {}, 10),
        (200_000_000, {}, 17),
        (10**12, {}, 10_000),
        (10**9, {"min": "7", "max": "7"}, 7),
        (1_000, {"min": "1", "max.filegroup.size": "4800"}, 20),
    ],
)
def test_shard_count_is_hudis_formula(rows: int, options: dict[str, str], expected: int):
    prefix = "hoodie.metadata.record.index."
    named = {prefix + (name if "." in name else f"{name}.filegroup.count"): text for name, text in options.items()}
    assert shard_count(rows, parse_options(named)) == expected


def config_of(**given: Any) -> WriteConfig:
    return WriteConfig(areas=(RecordOptions(**{"min_shards": 3, "max_shards": 100, **given}),))


def store_of(
    storage: Storage, state: LogState, index: IndexType = IndexType.RECORD_INDEX, config: WriteConfig | None = None
) -> RecordStore:
    spec = IndexSpec(index)
    return make_index(spec).open(StoreContext(storage, "t", spec, config or config_of(), EVERYTHING, state.view))


def table_of(rows: Iterable[tuple[str, str, str | None, Change]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [[], [], [], []]
    return pa.table(
        [pa.array([*c], f.type) for c, f in zip(columns, DELTA_SCHEMA, strict=True)], schema=DELTA_SCHEMA
    ).sort_by([("key", "ascending"), ("partition", "ascending")])


def answer_of(keys: list[str], found: Found) -> dict[str, tuple[str, str]]:
    assert not len(found.unknown)
    assert found.rows.tolist() == sorted(set(found.rows.tolist()))
    places = zip(found.partition.to_pylist(), found.file_id.to_pylist(), strict=True)
    return {keys[row]: place for row, place in zip(found.rows.tolist(), places, strict=True)}


_numbers = count(1)


def new_storage() -> MemoryStorage:
    """A store with a URI of its own: what was decoded is kept by URI and path."""
    return MemoryStorage(f"record-{next(_numbers)}")


@dataclass
class Simulated:
    """A table of file groups with keys, and the index that follows it."""

    index: IndexType
    storage: MemoryStorage = field(default_factory=new_storage)
    groups: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    versions: dict[tuple[str, str], int] = field(default_factory=dict)
    time: int = 0
    shards: int = 3

    def __post_init__(self) -> None:
        self.log = ChangeLog(self.storage, self.index)
        generation = new_generation(1)
        self.store.build(generation, ())
        self.log.put_built(Built(1, generation, (), frozenset(), 0))

    @property
    def state(self) -> LogState:
        return self.log.load(EVERYTHING)

    @property
    def store(self) -> RecordStore:
        return store_of(self.storage, self.state, self.index, config_of(min_shards=self.shards))

    @property
    def is_global(self) -> bool:
        return self.index is IndexType.RECORD_INDEX

    def commit(self, changes: dict[tuple[str, str], tuple[str, str] | None]) -> None:
        """Our own commit: (partition, key) -> file group it is in afterwards."""
        self.time += 1
        rows, touched = [], set()
        for (partition, key), target in changes.items():
            before = self._group_of(partition, key)
            if target is None and before is None:
                continue
            touched |= {g for g in (before, target) if g is not None}
            if before is not None:
                self.groups[before].discard(key)
            if target is None:
                assert before is not None
                rows.append((key, before[0], None, Change.DELETE))
            else:
                self.groups.setdefault(target, set()).add(key)
                rows.append((key, *target, Change.INSERT if before is None else Change.MOVE))
        old = self._names(touched)
        for group in touched:
            self.versions[group] = self.time
        files = [replace(f, replaces=old.get(f.group)) for f in self._files(touched)]
        inserted = sum(r[3] is Change.INSERT for r in rows)
        removed = sum(r[3] is Change.DELETE for r in rows)
        self._put(Delta(self._instant, tuple(files), inserted=inserted, removed=removed), table_of(rows))

    def rewritten_by_others(self, contents: dict[tuple[str, str], set[str] | None]) -> None:
        """A commit that the index did not see, and the catch-up."""
        self.time += 1
        for group, keys in contents.items():
            for other, held in self.groups.items():
                if self.is_global or other[0] == group[0]:
                    if held & (keys or set()):
                        self.versions[other] = self.time
                    held.difference_update(keys or set())
            self.versions[group] = self.time
            self.groups[group] = keys or set()
            if keys is None:
                del self.groups[group], self.versions[group]
        covered = {g: f.name for g, f in self.state.coverage.items()}
        live = self._names(self.groups)
        stale = [g for g, name in live.items() if covered.get(g) != name]
        gone = tuple(sorted(g for g in covered if g not in live))
        rows = [(key, *g, Change.FOUND) for g in stale for key in self.groups[g]]
        delta = Delta(catch_up_name(self._instant, self.log.names()), tuple(self._files(stale)), gone, tuple(stale))
        self._put(delta, table_of(rows))

    def overwritten(self, group: tuple[str, str], keys: set[str]) -> None:
        """Our own commit that takes a file group away, and makes another one of these keys: nobody has counted those that go."""
        self.time += 1
        gone = (group,) if group in self.groups else ()
        self.groups.pop(group, None)
        self.versions.pop(group, None)
        new = (group[0], f"{group[0]}-{self.time}")
        kept = {key for key in keys if self._group_of(group[0], key) is None}
        self.groups[new], self.versions[new] = kept, self.time
        rows = [(key, *new, Change.INSERT) for key in kept]
        self._put(Delta(self._instant, tuple(self._files([new])), gone, inserted=len(rows)), table_of(rows))

    def fold(self) -> None:
        state = self.state
        store = self.store
        generation = store.fold()
        folded = frozenset(d.name for d in state.in_force)
        built = Built(state.next_number, generation, tuple(state.coverage.values()), folded, state.rows)
        assert self.log.put_built(built)
        self.log.tidy()
        store.retire(generation)

    def check(self, keys: list[str], partitions: list[str]) -> None:
        state, store = self.state, self.store
        assert {g: f.name for g, f in state.coverage.items()} == self._names(self.groups)
        expected = {(g[0], key): g for g, held in self.groups.items() for key in held}
        if self.is_global:
            answer = answer_of(keys, store.look_up(pa.array(keys, pa.string()), None))
            assert answer == {key: g for (_, key), g in expected.items() if key in keys}
        else:
            for partition in partitions:
                answer = answer_of(keys, store.look_up(pa.array(keys, pa.string()), partition))
                assert answer == {key: g for (p, key), g in expected.items() if p == partition and key in keys}
        entries = [tuple(row.values()) for table in store.entries() for row in table.to_pylist()]
        assert sorted(entries) == sorted((key, *g) for (_, key), g in expected.items())
        held_keys = store.count()
        assert held_keys in (None, len(expected))
        assert (held_keys is None) == any(d.is_catch_up or d.gone for d in state.in_force)

    @property
    def _instant(self) -> str:
        return f"{self.time:017d}"

    def _group_of(self, partition: str, key: str) -> tuple[str, str] | None:
        here = (g for g, held in self.groups.items() if key in held and (self.is_global or g[0] == partition))
        return next(here, None)

    def _names(self, groups: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
        return {g: f"{g[1]}_0_{self.versions[g]:017d}.parquet" for g in groups if g in self.versions}

    def _files(self, groups: Iterable[tuple[str, str]]) -> list[CoveredFile]:
        names = self._names(groups)
        return [CoveredFile(*g, names[g], len(self.groups[g])) for g in sorted(names)]

    def _put(self, delta: Delta, rows: pa.Table) -> None:
        store = self.store
        self.log.put(delta, make_index(IndexSpec(self.index)).arrange(rows, store._context))


KEYS = ["a", "b", "cé", "d中", "e\U0001f600", "f￿", "g"]
PARTITIONS = ["x", "y"]
GROUPS = [(p, f"{p}{n}") for p in PARTITIONS for n in range(2)]


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(["commit", "others", "overwrite", "fold", "shards"]))
        if kind == "commit":
            targets = st.one_of(st.none(), st.integers(0, 1))
            chosen = draw(st.dictionaries(st.sampled_from(KEYS), st.tuples(st.sampled_from(PARTITIONS), targets)))
            found.append((kind, chosen))
        elif kind == "others":
            keys = draw(st.lists(st.sampled_from(KEYS), unique=True))
            cut = draw(st.integers(0, len(keys)))
            first, second = draw(st.lists(st.sampled_from(GROUPS), min_size=2, max_size=2, unique=True))
            gone = draw(st.booleans())
            found.append((kind, {first: set(keys[:cut]), second: None if gone else set(keys[cut:])}))
        elif kind == "overwrite":
            found.append((kind, (draw(st.sampled_from(GROUPS)), draw(st.sets(st.sampled_from(KEYS))))))
        else:
            found.append((kind, draw(st.integers(1, 5))))
    return found


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(steps(), st.sampled_from([IndexType.RECORD_INDEX, IndexType.RECORD_LEVEL_INDEX]))
@example([("commit", {"a": ("x", 0), "b": ("x", 0)}), ("overwrite", (("x", "x0"), {"b"}))], IndexType.RECORD_INDEX)
def test_index_follows_any_sequence_of_commits(sequence: list[tuple[str, Any]], index: IndexType):
    table = Simulated(index)
    for kind, what in sequence:
        if kind == "commit":
            changes = {(p, key): None if n is None else (p, f"{p}{n}") for key, (p, n) in what.items()}
            table.commit(changes)
        elif kind == "others":
            table.rewritten_by_others(what)
        elif kind == "overwrite":
            table.overwritten(*what)
        elif kind == "fold":
            table.fold()
        else:
            table.shards = what
        table.check([*KEYS, "never"], PARTITIONS)
    table.fold()
    table.check([*KEYS, "never"], PARTITIONS)
    assert table.store.count() is not None


def test_key_whose_move_is_void_is_gone_not_back_where_it_was():
    table = Simulated(IndexType.RECORD_INDEX)
    table.commit({("x", "k"): ("x", "x0")})
    table.fold()
    table.commit({("x", "k"): ("y", "y0")})
    table.rewritten_by_others({("y", "y0"): {"other"}})
    table.check(["k", "other"], PARTITIONS)


def test_late_stale_catch_up_does_not_hide_where_a_key_is():
    """A slow writer enters what a group held before it was replaced; the next one finds that group gone."""
    table = Simulated(IndexType.RECORD_INDEX)
    table.commit({("x", "k"): ("x", "x0")})
    table.rewritten_by_others({("x", "x1"): {"k"}, ("x", "x0"): None})
    stale = CoveredFile("x", "x0", "x0_0_old.parquet", 1)
    name = catch_up_name(table._instant, table.log.names())
    table._put(Delta(name, (stale,), (), (("x", "x0"),)), table_of([("k", "x", "x0", Change.FOUND)]))
    table.rewritten_by_others({})
    table.check(["k"], PARTITIONS)


def build(
    storage: Storage, rows: pa.Table, config: WriteConfig, index: IndexType = IndexType.RECORD_INDEX
) -> RecordStore:
    state = LogState(ChangeLog(storage, index).folder, None)
    generation = new_generation(1)
    store = store_of(storage, state, index, config)
    store = RecordStore(replace(store._context, expected_rows=rows.num_rows))
    pieces = [rows.slice(start, 700) for start in range(0, rows.num_rows, 700)]
    assert store.build(generation, pieces) == rows.num_rows
    return store_of(storage, replace(state, built=Built(1, generation, (), frozenset(), rows.num_rows)), index, config)


def many(rows: int) -> pa.Table:
    return table_of((f"k{n:06d}", f"p{n % 3}", f"f{n % 7}", Change.FOUND) for n in range(rows))


@pytest.mark.parametrize("spill", [1 << 40, 10_000])
def test_build_of_any_order_answers_everything_also_from_spilled_rows(monkeypatch: pytest.MonkeyPatch, spill: int):
    monkeypatch.setattr(record_merge, "_SPILL_BYTES", spill)
    monkeypatch.setattr(record_merge, "ROW_GROUP_ROWS", 64)
    storage = new_storage()
    rows = many(5_000).take(pa.array(np.random.default_rng(1).permutation(5_000)))
    store = build(storage, rows, config_of())
    keys = [f"k{n:06d}" for n in range(5_000)]
    answer = answer_of(keys, store.look_up(pa.array(keys), None))
    assert answer == {f"k{n:06d}": (f"p{n % 3}", f"f{n % 7}") for n in range(5_000)}
    assert store.count() == 5_000
    assert not [one.path for one in storage.list() if "spill" in one.path]
    assert len([one.path for one in storage.list() if "record-index-" in one.path]) == 3


@pytest.mark.parametrize("index", [IndexType.RECORD_INDEX, IndexType.RECORD_LEVEL_INDEX])
def test_look_up_reads_only_shards_and_row_groups_that_may_hold_the_keys(
    monkeypatch: pytest.MonkeyPatch, index: IndexType
):
    monkeypatch.setattr(record_merge, "ROW_GROUP_ROWS", 50)
    store = build(new_storage(), many(3_000), config_of(), index)
    read: list[tuple[str, int]] = []
    plain = record_shards.RowGroups.read

    def noted(self: record_shards.RowGroups, number: int) -> pa.Table:
        read.append((self._path, number))
        return plain(self, number)

    monkeypatch.setattr(record_shards.RowGroups, "read", noted)
    found = store.look_up(pa.array(["k000007"]), "p1" if index is IndexType.RECORD_LEVEL_INDEX else None)
    assert answer_of(["k000007"], found) == {"k000007": ("p1", "f0")}
    assert len(read) == 1


def test_of_many_keys_those_at_the_ends_of_row_groups_are_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record_merge, "ROW_GROUP_ROWS", 2)
    monkeypatch.setattr(record_merge, "_BISECT_BELOW", 1)
    store = build(new_storage(), many(6), config_of(min_shards=1, max_shards=1))
    keys = ["k000001", "k000002"]  # the last of one row group, and the first of the next
    assert answer_of(keys, store.look_up(pa.array(keys), None)) == {"k000001": ("p1", "f1"), "k000002": ("p2", "f2")}


def test_look_up_by_key_alone_in_several_partitions_is_unknown_only_where_it_must_be():
    rows = table_of([("a", "x", "f1", Change.FOUND), ("a", "y", "f2", Change.FOUND), ("b", "x", "f1", Change.FOUND)])
    store = build(new_storage(), rows, config_of(), IndexType.RECORD_LEVEL_INDEX)
    found = store.look_up(pa.array(["a", "b", "c"]), None)
    assert (found.unknown.tolist(), found.rows.tolist()) == ([0], [1])
    assert found.file_id.to_pylist() == ["f1"]


def test_build_of_a_key_that_is_there_twice_names_it_under_a_global_index():
    rows = table_of([("a", "x", "f1", Change.FOUND), ("a", "y", "f2", Change.FOUND), ("b", "x", "f1", Change.FOUND)])
    with pytest.raises(InvariantError, match=r"whole table.*'a' in 'x' \(f1\) and 'y' \(f2\)") as caught:
        build(new_storage(), rows, config_of())
    assert caught.value.culprit == "a"


@pytest.mark.parametrize("what", ["cut", "gone", "list"])
def test_damaged_shard_is_an_error_that_names_it(what: str):
    storage = new_storage()
    store = build(storage, many(100), config_of())
    paths = [one.path for one in storage.list()]
    in_force = Built(1, store._context.view.generation or "", (), frozenset(), 100)
    assert ChangeLog(storage, IndexType.RECORD_INDEX).put_built(in_force)
    path = next(p for p in paths if (".json" in p) == (what == "list"))
    if what == "gone":
        storage.delete(path)
    else:
        storage.write(path, storage.read(path)[:-7])
    store = RecordStore(store._context)
    with pytest.raises(IndexDamagedError, match="index build") as caught:
        store.look_up(pa.array([f"k{n:06d}" for n in range(100)]), None)
    assert caught.value.culprit == path


def test_retire_keeps_what_is_in_use_and_what_is_still_being_built():
    table = Simulated(IndexType.RECORD_INDEX)
    table.commit({("x", "k"): ("x", "x0")})
    folder = f"{table.log.folder}/base"
    dead, coming = new_generation(2), new_generation(9)
    for name in (dead, coming):
        table.storage.write(f"{folder}/{name}/record-index-0000-0.parquet", b"x")
    before = table.state.view.generation
    table.fold()
    left = {path.rpartition("/")[2] for path in table.storage.list_folder(folder).folders}
    assert left == {before, table.state.view.generation, coming}
    table.store.drop()
    assert not table.storage.list(folder)


def test_asked_keys_are_split_over_all_shards_once():
    keys = pa.array([f"k{n}" for n in range(100)])
    parts = dict(asked_by_shard(keys, string_hashes(keys), 7))
    assert sorted(row for asked in parts.values() for row in asked.rows.tolist()) == list(range(100))
    assert all(shard_numbers(string_hashes(a.keys), 7).tolist() == [n] * len(a.keys) for n, a in parts.items())
