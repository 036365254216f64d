"""Record index and bloom filters beside everything that moves keys: after each step they say what the files do."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from lakeindex.api.table import LakeTable
from lakeindex.errors import MetadataTableError
from lakeindex.lock.write_context import WriteContext
from lakeindex.metadata.indexed_columns import is_partitioned_index, read_definitions
from lakeindex.metadata.metadata_keys import bloom_filter_key
from lakeindex.metadata.metadata_table import BLOOM_FILTERS, RECORD_INDEX
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.metadata_upkeep.keeping import keep_commit, prepare_upkeep
from lakeindex.operations.rescale import rescale_table
from lakeindex.options.types import WriteConfig
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from lakeindex.table.host import this_host
from lakeindex.table.properties import metadata_table_of
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.timeline.verdicts import Outcome, Verdict
from tests.builders import Row, batch_of, make_table
from tests.scheduling import some_of
from tests.unit.metadata.located import located

EVERYTHING = ("files", "column_stats", "bloom_filters", "record_index")
KEYS = [f"k{number:03d}" for number in range(120)] + ["é", "\U0001f600", "a:b,c"]


def view_of(table: LakeTable) -> tuple[Table, MetadataView]:
    opened = Table.open(open_storage(table.uri))
    metadata = metadata_table_of(opened.storage, opened.properties)
    assert metadata is not None
    return opened, MetadataView.load(metadata, opened.load_timeline())


def check_indexes(table: LakeTable) -> int:
    """Every key is where the index says, no other is known, each file has the filter of its footer, and each delta
    commit was completed before its commit: of how many both ends are known.
    """
    opened, view = view_of(table)
    ends = {one.time: one.completion_time for one in view.data.completed_writes if one.completion_time}
    deltas = {one.time: one.completion_time or "" for one in view.timeline.completed_writes if one.time in ends}
    assert all(end < ends[time] for time, end in deltas.items())
    there: dict[str, tuple[str, str]] = {}
    filters: dict[str, bytes] = {}
    snapshot = opened.snapshot()
    for partition in snapshot.partitions():
        listed = snapshot.files_of(partition)
        for file in (*listed.live, *listed.older):
            read = pq.ParquetFile(Path(table.uri) / file.path)
            filters[bloom_filter_key(partition, file.name)] = read.metadata.metadata[b"org.apache.hudi.bloomfilter"]
            if file in listed.live:
                keys = read.read(["_hoodie_record_key"]).column(0).to_pylist()
                assert not there.keys() & set(keys)
                there.update(dict.fromkeys(keys, (partition, file.file_id)))
    records = {key for one in view.slices(RECORD_INDEX) for key in view.records(one)}
    assert records == there.keys()
    found = located(view, [*there, "nowhere"])
    assert {key: (one.partition, one.file_id) for key, one in found.items()} == there
    stored = {key: it for one in view.slices(BLOOM_FILTERS) for key, it in view.records(one).items()}
    assert {key: it["BloomFilterMetadata"]["bloomFilter"] for key, it in stored.items()} == filters
    return len(deltas)


def batch(chance: random.Random, version: int, day: str | None = None) -> pa.Table:
    keys = chance.sample(KEYS, chance.randint(1, 50))
    days = [day or f"2026-01-{chance.randint(1, 3):02d}" for _ in keys]
    return pa.table({"id": keys, "day": days, "ts": [version] * len(keys), "v": ["x" * version] * len(keys)})


GLOBAL = {"hoodie__index__type": "GLOBAL_SIMPLE"}
MOVING = {"hoodie.simple.index.update.partition.path": "true"}


WRITE = {"lakeindex.table.version10": "write"}


@pytest.mark.parametrize(
    ("version", "seed"),
    some_of([("6", 1), ("8", 3), ("9", 4), ("10", 4)], lambda case: case[0] in "69", pytest.mark.slow),
)
@pytest.mark.few(1)
def test_a_random_story(version: str, seed: int, tmp_path: Path) -> None:
    """Inserts, updates, moves between partitions, deletes, roll-backs before and after compactions, cleans."""
    chance = random.Random(seed)
    asked = {name.replace(".", "__"): value for name, value in WRITE.items()}
    table = make_table(tmp_path / "t", **GLOBAL, **asked, hoodie__write__table__version=version)
    small = WRITE | MOVING | ({"hoodie.parquet.small.file.limit": "0"} if seed % 2 else {})
    table.upsert(batch(chance, 1), options=small)
    table.metadata_build(EVERYTHING, options=WRITE)
    compared = check_indexes(table)
    instant = ""
    for turn in range(2, 14):
        act = chance.random()
        if act < 0.55:
            instant = table.upsert(batch(chance, turn), options=small).instant or ""
        elif act < 0.75:
            instant = table.delete(batch(chance, turn).select(["id", "day"]), options=WRITE).instant or ""
        elif act < 0.9 and instant:
            if chance.random() < 0.6:
                table.maintain(["metadata"], options=WRITE)
            table.rollback(instant, options=WRITE)
            instant = ""
        else:
            table.clean(2, options=WRITE)
            table.maintain(["metadata", "archive"], options=WRITE)
        compared += check_indexes(table)
    assert (compared > 0) == (version != "6")


def test_buckets_are_rescaled(tmp_path: Path) -> None:
    """A replacecommit moves every key; taking it back moves them back, compacted or not."""
    bucket = {"hoodie__index__type": "BUCKET", "hoodie__bucket__index__num__buckets": "2"}
    table = make_table(tmp_path / "t", partitions=(), **bucket)
    rows = pa.table({"id": KEYS, "day": ["d"] * len(KEYS), "ts": [1] * len(KEYS), "v": ["a"] * len(KEYS)})
    table.upsert(rows)
    table.metadata_build(EVERYTHING)
    for compact in (False, True):
        done = rescale_table(table.uri, LocalRunner(1), buckets=4)
        check_indexes(table)
        if compact:
            table.maintain(["metadata"])
        table.rollback(done.instant or "")
        check_indexes(table)


def test_a_replacement_and_a_delete_are_taken_back_together(tmp_path: Path) -> None:
    """Of what both changed, the one everywhere and the other in a file group that is older."""
    table = make_table(tmp_path / "t", **GLOBAL)
    first = table.upsert(batch_of([Row("a", "x", 1, "v"), Row("b", "y", 1, "v"), Row("c", "y", 1, "v")])).instant
    table.metadata_build(EVERYTHING)
    table.delete(batch_of([Row("c", "y", 2, "v")]).select(["id", "day"]))
    table.insert_overwrite(batch_of([Row("d", "x", 1, "v")]))
    table.maintain(["metadata"])
    check_indexes(table)
    table.restore(first or "")
    check_indexes(table)
    assert (table.metadata_verify().ok, table.count()) == (True, 3)


def row(key: str, day: str, version: int = 1) -> pa.Table:
    return pa.table({"id": [key], "day": [day], "ts": [version], "v": [f"v{version}"]})


@pytest.mark.parametrize("version", ["6", "8", "9"])
def test_keys_of_a_partition_have_no_global_record_index(version: str, tmp_path: Path) -> None:
    """A key may come into a second partition in a commit of its own, and be deleted there."""
    kinds: dict[str, dict[str, str]] = {
        "BLOOM": {},
        "SIMPLE": {},
        "BUCKET": {"hoodie__bucket__index__num__buckets": "1"},
        "INMEMORY": {},
        "STATE": {"index__global__enabled": "false"},
    }
    for kind, more in kinds.items() if version == "9" else list(kinds.items())[:3]:
        options = {"hoodie__index__type": kind, "hoodie__write__table__version": version, **more}
        table = make_table(tmp_path / kind, **options)
        if kind == "STATE":
            table.metadata_build(["files", "record_index"])
            assert is_partitioned_index(read_definitions(open_storage(table.uri)))
            continue
        table.upsert(row("a", "x"))
        if version != "9":
            with pytest.raises(MetadataTableError, match=f"cannot have a record index .* index {kind} needs it"):
                table.metadata_build(["files", "record_index"])
            assert not table.metadata_status().partitions, kind
            continue
        table.metadata_build(["files", "record_index"])
        assert is_partitioned_index(read_definitions(open_storage(table.uri))), kind
        table.upsert(row("a", "y"))
        assert (table.metadata_verify().ok, table.check().ok) == (True, True), kind
        table.delete(row("a", "y").select(["id", "day"]))
        assert (table.metadata_verify().ok, table.check().ok, table.count()) == (True, True, 1), kind


def test_the_cure_of_the_refusal_works_and_the_index_follows_another_change_of_the_tables(tmp_path: Path) -> None:
    """Under a global index it is built; where a key becomes unique in its partition only, it allows no second place."""
    table = make_table(tmp_path / "t", hoodie__write__table__version="6")
    table.upsert(pa.concat_tables([row("a", "x"), row("b", "y"), row("c", "x")]))
    with pytest.raises(MetadataTableError) as caught:
        table.metadata_build(EVERYTHING)
    assert "index migrate TABLE --to GLOBAL_BLOOM" in str(caught.value)
    table.index_migrate("GLOBAL_BLOOM")
    table.metadata_build(EVERYTHING)
    check_indexes(table)
    table.index_migrate("SIMPLE")
    before, fresh = table.read(meta=True), pa.concat_tables([row("n", "x"), row("a", "y", 2)])
    for second in (row("a", "y", 2), fresh):  # alone, and beside a key that is new
        with pytest.raises(MetadataTableError, match=r"record key 'a' is in y/.*parquet and in file group .* 'x'"):
            table.upsert(second)
        assert table.read(meta=True) == before
    check_indexes(table)
    table.upsert(pa.concat_tables([row("a", "x", 3), row("d", "z", 3)]))
    table.delete(row("a", "x").select(["id", "day"]))
    table.upsert(row("a", "y", 4))  # it is nowhere else now
    table.insert_overwrite(pa.concat_tables([row("a", "y", 5), row("b", "y", 5)]))
    check_indexes(table)
    assert (table.metadata_verify().ok, table.check().ok) == (True, True)
    table.metadata_drop(["record_index"])
    table.upsert(row("a", "x", 6))
    assert (table.metadata_verify().ok, table.check().ok) == (True, True)


def put_past_the_index(tmp_path: Path) -> tuple[LakeTable, str]:
    """A table whose record index has key a in x, and the instant at which a writer that keeps none put it into y, too."""
    table = make_table(tmp_path / "t", **GLOBAL, hoodie__write__table__version="6")
    table.upsert(row("a", "x"))
    table.metadata_build(["files", "record_index"])
    table.index_migrate("SIMPLE")
    properties = tmp_path / "t/.hoodie/hoodie.properties"
    whole = properties.read_text()
    properties.write_text(whole.replace("partitions=files,record_index", "partitions=files"))
    time = table.upsert(row("a", "y")).instant or ""
    properties.write_text(whole)
    return table, time


def test_a_key_that_another_writer_put_into_two_partitions_stays_where_it_is_said_to_be(tmp_path: Path) -> None:
    """It is deleted, or its commit taken back, where the index does not have it."""
    table, _ = put_past_the_index(tmp_path)
    assert [one.kind for one in table.metadata_verify().examples] == ["key"]
    table.delete(row("a", "y").select(["id", "day"]))
    assert (table.metadata_verify().ok, table.read(meta=False)["day"].to_pylist()) == (True, ["x"])


def test_what_was_decided_is_done_whatever_an_index_says_by_then(tmp_path: Path) -> None:
    """A writer was killed between his verdict and his delta commit; who finishes it cannot refuse it any more."""
    table, time = put_past_the_index(tmp_path)
    metadata = tmp_path / "t/.hoodie/metadata"
    left = [path for path in (metadata / ".hoodie").iterdir() if path.name.startswith(time)]
    for path in left:
        path.unlink()
    opened = Table.open(open_storage(table.uri))
    context, data = (
        WriteContext(opened, this_host(), WriteConfig()),
        (tmp_path / f"t/.hoodie/{time}.commit").read_bytes(),
    )
    commit = opened.properties.timeline_layout.decode_commit(data, "commit")
    with pytest.raises(MetadataTableError, match="record key 'a' is in y/"):
        prepare_upkeep(context, opened.properties, time, commit)
    assert not [path for path in left if path.exists()]
    keep_commit(context, Verdict(time, Outcome.COMMITTED, "token", commit=data))
    assert all(path.exists() for path in left)
    _, view = view_of(table)
    assert sum(map(len, view.listing().files.values())) == 2


def test_an_update_writes_nothing_into_the_record_index(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", **GLOBAL)
    rows = pa.table({"id": KEYS, "day": ["d"] * len(KEYS), "ts": [1] * len(KEYS), "v": ["a"] * len(KEYS)})
    table.upsert(rows)
    table.metadata_build(EVERYTHING)
    folder = tmp_path / "t/.hoodie/metadata/record_index"
    before = {path.name for path in folder.iterdir()}
    table.upsert(rows.set_column(2, "ts", pa.array([2] * len(KEYS))))
    assert {path.name for path in folder.iterdir()} == before
    _, view = view_of(table)
    since = {one.since_ms for one in located(view, KEYS).values()}
    table.upsert(pa.table({"id": ["new"], "day": ["d"], "ts": [3], "v": ["a"]}))
    assert len({path.name for path in folder.iterdir()} - before) == 1
    _, view = view_of(table)
    assert since == {located(view, ["k001"])["k001"].since_ms}
    assert located(view, ["new"])["new"].since_ms > next(iter(since))
    assert replace(located(view, ["new"])["new"], since_ms=0).partition == "d"


def test_what_an_index_says_wrongly_is_found_and_mended_as_told(tmp_path: Path) -> None:
    """Each partition of the metadata table is what it was a commit ago; each fault says what to do about it."""
    table = make_table(tmp_path / "t", hoodie__write__table__version="9")
    rows = pa.table({"id": KEYS[:60], "day": ["d"] * 60, "ts": [1] * 60, "v": ["m"] * 60})
    table.upsert(rows)
    table.metadata_build([*EVERYTHING, "partition_stats"])
    assert table.metadata_verify().ok
    root = tmp_path / "t/.hoodie/metadata"
    wrong = {"column_stats": "statistics", "partition_stats": "statistics", "bloom_filters": "filter"}
    wrong |= {"record_index": "key"}
    before = {path.relative_to(root) for path in root.rglob("*")}
    table.upsert(pa.table({"id": KEYS[55:70], "day": ["d"] * 15, "ts": [2] * 15, "v": ["z"] * 15}))
    for name, kind in wrong.items():
        logs = [path for path in (root / name).iterdir() if path.relative_to(root) not in before]
        held = {path: path.read_bytes() for path in logs}
        assert held
        for path in logs:
            path.unlink()
        found = table.metadata_verify()
        if name == "column_stats":  # what nothing is said of is read
            assert found.ok
        else:
            assert {one.kind for one in found.examples} == {kind}, found
            assert all(f"--partition {name}`" in one.mend for one in found.examples)
            assert {one.kind for one in table.check().violations} == {"metadata_table"}
            table.metadata_drop([name])
            table.metadata_build([name])
        assert table.metadata_verify().ok


@pytest.mark.parametrize("version", ["8", "9"])
def test_a_column_that_a_commit_adds_has_statistics_from_then_on(tmp_path: Path, version: str) -> None:
    """Else the next writer defines them, and readers skip the files of before, which have none."""
    table = make_table(tmp_path / "t", hoodie__write__table__version=version)
    rows = batch_of([Row("a", "x", 1, "1")])
    table.upsert(rows)
    table.metadata_build(["column_stats"])
    store = open_storage(table.uri)

    def defined() -> list[str]:
        return json.loads(read_definitions(store) or "")["indexDefinitions"]["column_stats"]["sourceFields"]

    before = defined()
    assert "more" not in before
    table.upsert(rows.append_column("more", pa.array([7], pa.int64())), schema_mode="add")
    assert defined() == [*before, "more"]
    assert table.scan(where="more = 8").explain().files_left == 0
    assert table.metadata_verify().ok
    table.upsert(rows, partial=True)
    assert defined() == [*before, "more"]
