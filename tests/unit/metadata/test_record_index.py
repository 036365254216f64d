"""The record index: its records, and look-ups in base files and logs of its file groups."""

from __future__ import annotations

import random
import threading
import uuid

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeindex.errors import TableCorruptError
from lakeindex.metadata import compaction, delta_commit
from lakeindex.metadata.build import Building, NewPartition, add_partition, free_instant
from lakeindex.metadata.metadata_changes import KeyRun, PartitionChange, change_of_files
from lakeindex.metadata.metadata_records import decode_record, encode_record, own_schema
from lakeindex.metadata.metadata_table import RECORD_INDEX, RecordType, file_id
from lakeindex.metadata.record_index import RecordLocation, location_of, location_record
from lakeindex.model import Instant, InstantState
from lakeindex.storage import parallel
from lakeindex.storage.memory import Call
from tests.strategies import examples
from tests.unit.metadata.located import located
from tests.unit.metadata.test_upkeep import Kept, time_of

KEYS = ["a", "é", "\uffee", "\U0001f600", "\ue000", "x" * 300, "id:1,name:n", *(f"k{number}" for number in range(90))]


def run_of(partition: str, file_id: str, keys: list[str], put: bool = True) -> KeyRun:
    record = location_record(RecordLocation(partition, file_id, 7)) if put else None
    return KeyRun(partition, pa.array(keys, pa.string()), record)


@pytest.mark.parametrize("version", [6, 9])
@given(
    file=st.one_of(
        st.uuids().map(str), st.uuids().map(lambda one: f"{one}-3"), st.text(min_size=1), st.just("A" * 36 + "-0")
    ),
    partition=st.text(),
    at=st.integers(-(2**40), 2**44),
)
def test_a_location_is_what_its_record_says(version: int, file: str, partition: str, at: int) -> None:
    location = RecordLocation(partition, file, at)
    schema = own_schema(version)
    record = decode_record(encode_record(location_record(location), schema), schema, "x")
    assert location_of(record, "x") == location


def test_file_ids_are_stored_as_hudi_stores_them() -> None:
    """The halves are signed; what is no UUID with a number stays a text."""
    high = location_record(RecordLocation("p", "ffffffff-0000-0000-8000-000000000001-12", 5))["recordIndexMetadata"]
    assert (high["fileIdHighBits"], high["fileIdLowBits"], high["fileIndex"]) == (-(2**32), -(2**63) + 1, 12)
    assert (high["fileId"], high["fileIdEncoding"]) == ("", 0)
    text = location_record(RecordLocation("p", "00000001-bucket-0", 5))["recordIndexMetadata"]
    assert (text["fileIdHighBits"], text["fileIdLowBits"], text["fileIndex"]) == (-1, -1, -1)
    assert (text["fileId"], text["fileIdEncoding"]) == ("00000001-bucket-0", 1)


@pytest.mark.parametrize("info", [None, {"fileIdEncoding": 2}, {"fileIdEncoding": 1, "fileId": ""}])
def test_a_record_without_a_location_is_told(info: dict[str, object] | None) -> None:
    whole = location_record(RecordLocation("p", str(uuid.UUID(int=1)), 1))
    damaged = {**whole, "recordIndexMetadata": None if info is None else {**whole["recordIndexMetadata"], **info}}
    with pytest.raises(TableCorruptError, match="damaged record"):
        location_of(damaged, "x")


def test_a_record_of_another_kind_is_no_location() -> None:
    whole = location_record(RecordLocation("p", str(uuid.UUID(int=1)), 1))
    with pytest.raises(TableCorruptError, match="damaged record"):
        location_of({**whole, "type": int(RecordType.COLUMN_STATS)}, "x")


class Indexed(Kept):
    """A table without rows whose metadata table has a record index, global or partitioned."""

    def __init__(self, layout: int, *, partitioned: bool, groups: int = 3) -> None:
        super().__init__(layout)
        self.partitioned = partitioned
        self.table = type(self.table)(self.store, self.table.version, self.table.layout, ("files", RECORD_INDEX))
        ids = [file_id(RECORD_INDEX, number, "p/1" if partitioned else None) for number in range(groups)]
        what = Building(None, self.end(3), own_schema(self.table.version))
        new = NewPartition(RECORD_INDEX, tuple(ids), PartitionChange())
        add_partition(self.table, what, new, free_instant(self.table, what))

    def change(self, number: int, *runs: KeyRun, complete: bool = True) -> None:
        time = time_of(number)
        change = {**change_of_files({"p/1": {f"f{number}": 1}}), RECORD_INDEX: PartitionChange(runs=runs)}
        view = self.view
        delta_commit.write(view, delta_commit.prepare(view, time, change), self.end(number + 1))
        if complete:
            self.done.append(Instant(time, "commit", InstantState.COMPLETED, self.end(number + 2)))


@pytest.mark.parametrize("layout", [1, 2])
@pytest.mark.parametrize("partitioned", [False, True])
@settings(max_examples=examples(8), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_random_story_of_keys(layout: int, partitioned: bool, seed: int) -> None:
    """Keys come, move and go, in partitions that are new, too; look-ups say what a dictionary does."""
    chance = random.Random(seed)
    kept = Indexed(layout, partitioned=partitioned)
    model: dict[tuple[str, str], str] = {}
    for number in range(10, 200, 10):
        where = chance.choice(["p/1", "p/2", "p_1"])
        scope = where if partitioned else ""
        keys = chance.sample(KEYS, chance.randint(1, 40))
        half = len(keys) // 2
        group = f"{uuid.UUID(int=number)}-0"
        gone, put = keys[:half], keys[half - 1 if half else 0 :]
        kept.change(number, run_of(where, group, gone, put=False), run_of(where, group, put))
        for key in gone:
            model.pop((scope, key), None)
        model.update({(scope, key): group for key in put})
        if chance.random() < 0.2:
            kept.compact()
            compaction.clean(kept.view)
    kept.change(300, run_of("p/1", "never", KEYS), complete=False)
    view = kept.view
    kept.done.append(Instant(time_of(300), "commit", InstantState.INFLIGHT))
    view = kept.view
    for scope in ("p/1", "p/2", "p_1", "none") if partitioned else ("",):
        wanted = chance.sample(KEYS, 60)
        found = located(view, wanted, scope if partitioned else None)
        known = {key: model[scope, key] for key in wanted if (scope, key) in model}
        assert {key: one.file_id for key, one in found.items()} == known


def test_logs_of_many_file_groups_are_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store far away answers each of them late."""
    monkeypatch.setattr(parallel, "_ALONE_S", -1)
    kept = Indexed(2, partitioned=False, groups=12)
    two = threading.Barrier(2, timeout=20)

    def wait(call: Call) -> None:
        if call.name == "create" and f"/{RECORD_INDEX}/" in call.path:
            two.wait()

    kept.store.hook = wait
    keys = [f"key {number}" for number in range(200)]
    kept.change(10, run_of("p/1", "f", keys))
    kept.store.hook = None
    assert {key: one.file_id for key, one in located(kept.view, keys).items()} == dict.fromkeys(keys, "f")
