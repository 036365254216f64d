"""Operations that replace whole partitions: Hudi reads what is left, goes on, takes them back, and cleans up after them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeindex.api.table import LakeTable
from lakeindex.operations.metadata import metadata_verify
from tests.interop import ours
from tests.interop.hudi_client import HudiError, HudiServer
from tests.interop.rows import SIMPLE, assert_state, key_of
from tests.interop.story import Story, completed_writes, instant_files, keeping_story, metadata_partitions, rows_of

pytestmark = pytest.mark.interop

_CLEAN = {
    "hoodie.clean.automatic": "true",
    "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.cleaner.fileversions.retained": "1",
}
_ARCHIVE = {
    "hoodie.clean.automatic": "true",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}
_METADATA = {
    "off": {},
    "on": {
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.index.bloom.filter.enable": "true",
    },
}
_REGION = {0: "us", 1: "eu", 2: "as ia"}


@pytest.fixture(params=sorted(_METADATA))
def story(hudi: HudiServer, folder: Path, request: pytest.FixtureRequest) -> Story:
    """Two commits of ours, with and without a metadata table that holds statistics and filters."""
    told = keeping_story(folder, SIMPLE, hudi)
    told.options |= _METADATA[request.param]
    told.we_create()
    told.we_upsert(range(60), 1)
    if request.param == "on":
        LakeTable(str(told.path)).metadata_build(["files", "column_stats", "bloom_filters"])
    told.we_upsert(range(50, 75), 2)
    return told


def numbers_of(story: Story, *regions: str) -> list[int]:
    """Rows of some partitions."""
    return [number for number in story.replay.rows if _REGION[number % 3] in regions]


def we_delete_partitions(story: Story, *regions: str) -> str:
    gone = numbers_of(story, *regions)
    done = LakeTable(str(story.path)).delete_partitions(regions)
    assert (done.rows_in, done.rows_replaced, done.files_replaced) == (0, len(gone), len(regions))
    return story.note(str(done.instant), gone, None)


def we_overwrite(story: Story, numbers: list[int], version: int, *, whole: bool = False) -> str:
    table = LakeTable(str(story.path))
    regions = {_REGION[number % 3] for number in numbers}
    gone = list(story.replay.rows) if whole else numbers_of(story, *regions)
    write = table.insert_overwrite_table if whole else table.insert_overwrite
    done = write(rows_of(numbers, version), options=story.our_options)
    assert (done.inserts, done.rows_replaced) == (len(numbers), len(gone))
    story.replay.delete(gone)
    return story.note(str(done.instant), numbers, version)


def savepoint(story: Story) -> str:
    """Hudi keeps what is there now."""
    if story.hudi.version == "1.2.0" and story.hudi.table_version == 6:
        pytest.skip("this procedure of Hudi 1.2 upgrades the table, and hudi-rs reads no row of it once it is restored")
    kept = story.instants[-1]
    story.hudi.sql(f"call create_savepoint(path => '{story.path}', commit_time => '{kept}')")
    return kept


def restore(story: Story, kept: str) -> None:
    """Hudi restores what was there at a savepoint."""
    call = f"call rollback_to_savepoint(path => '{story.path}', instant_time => '{kept}')"
    try:
        story.hudi.sql(call)
    except HudiError as error:  # the metadata table has no base file that is older
        if "Please delete metadata table and retry" not in str(error):
            raise
        LakeTable(str(story.path)).metadata_drop()
        story.hudi.sql(call)
    back_to(story, kept)


def back_to(story: Story, instant: str) -> None:
    """The story as it was after an instant."""
    story.states = {time: state for time, state in story.states.items() if time <= instant}
    story.replay = story.states[instant].copy()


def test_deleted_partitions_and_what_hudi_does_on_top(story: Story) -> None:
    we_delete_partitions(story, "us", "as ia")
    story.judge("after we deleted two partitions", sound=True)
    story.hudi_upserts(range(0, 40, 5), 3)
    story.judge("after Hudi wrote into them again", sound=True)
    story.we_upsert(range(0, 60, 4), 4)
    story.hudi_upserts(range(10), 5, _CLEAN)
    assert instant_files(story.path, "*.clean")
    story.judge("after Hudi cleaned the replaced files", sound=True)
    we_delete_partitions(story, "eu")
    for version in (6, 7, 8):
        story.hudi_upserts(range(10), version, _ARCHIVE)
    story.judge("after Hudi archived it", sound=True)
    story.we_upsert(range(0, 60, 3), 9)
    story.judge("after our turn", sound=True)


@pytest.mark.parametrize("whole", [False, True], ids=["partitions", "table"])
def test_overwritten_rows_and_what_hudi_does_on_top(story: Story, whole: bool) -> None:
    before = story.instants[-1]
    we_overwrite(story, list(range(0, 100, 6)), 3, whole=whole)
    story.judge("after we overwrote", sound=True)
    story.hudi_upserts(range(0, 40, 5), 4)
    story.judge("after Hudi's turn", sound=True)
    kept = story.instants[-1]
    LakeTable(str(story.path)).rollback(we_overwrite(story, list(range(1, 50, 3)), 5, whole=whole))
    back_to(story, kept)
    story.judge("after we rolled it back", sound=True)
    story.we_upsert(range(0, 60, 7), 6)
    story.hudi_upserts(range(10), 7, _CLEAN)
    assert instant_files(story.path, "*.clean")
    story.judge("after Hudi cleaned the replaced files", sound=True)
    for version in (8, 9, 10):
        story.hudi_upserts(range(10), version, _ARCHIVE)
    assert before not in completed_writes(story.path)
    we_overwrite(story, list(range(30)), 11, whole=whole)
    story.judge("after we overwrote what Hudi archived", sound=True)


def test_bulk_inserted_rows_are_read_and_upserted(story: Story) -> None:
    table = LakeTable(str(story.path))
    we_delete_partitions(story, "us")
    rows = [number for number in range(200, 260) if number % 3 == 0]
    options = {**story.our_options, "hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"}
    done = table.bulk_insert(rows_of(rows, 3), options=options)
    assert done.fates == {"inserts": len(rows)}
    story.note(str(done.instant), rows, 3)
    story.judge("after our bulk insert", sound=True)
    story.hudi_upserts([*range(10), *range(240, 270)], 4)
    story.judge("after Hudi's turn", sound=True)
    story.we_upsert(range(200, 230), 5)
    story.judge("after our turn", sound=True)


def test_inserted_rows_are_read_and_upserted(story: Story) -> None:
    table = LakeTable(str(story.path))
    done = table.insert(rows_of(range(70, 90), 3), "ignore", options=story.our_options)
    assert done.fates == {"inserts": 15, "ignored": 5}
    story.note(str(done.instant), range(75, 90), 3)
    story.judge("after we inserted", sound=True)
    story.hudi_upserts(range(80, 95), 4)
    story.judge("after Hudi's turn", sound=True)


def we_delete_where(story: Story) -> str:
    met = [number for number, row in story.replay.rows.items() if row["wide"] > 60 and row["flag"] is not None]
    done = LakeTable(str(story.path)).delete(where="wide > 60 and flag is not null", options=story.our_options)
    assert (done.operation, done.fates) == ("DELETE", {"deletes": len(met)})
    return story.note(str(done.instant), met, None)


def we_delete_a_partition_by_a_condition(story: Story) -> str:
    met = numbers_of(story, "us")
    done = LakeTable(str(story.path)).delete(where="region = 'us'", options=story.our_options)
    assert (done.operation, done.rows_replaced) == ("DELETE_PARTITION", len(met))
    return story.note(str(done.instant), met, None)


def we_update(story: Story) -> str:
    met = {number: row for number, row in story.replay.rows.items() if row["region"] == "eu" and number < 40}
    values = {"wide": "wide * 2", "val": "val || '!'", "money": None}
    where = "region = 'eu' and k2 is not null and id < 'k00040'"
    done = LakeTable(str(story.path)).update(values, where=where, options=story.our_options)
    assert (done.operation, done.fates) == ("UPSERT", {"updates": len(met)})
    instant = story.note(str(done.instant), [], 0)
    for number, row in met.items():
        story.replay.rows[number] = row | {"wide": row["wide"] * 2, "val": f"{row['val']}!", "money": None}
        story.replay.written[number] = instant
    story.states[instant] = story.replay.copy()
    return instant


def we_replace_where(story: Story, version: int) -> str:
    met = numbers_of(story, "eu")
    new = [*met[:5], 301, 304]
    rows = rows_of(new, version)
    done = LakeTable(str(story.path)).replace_where(rows, where="region = 'eu'", options=story.our_options)
    counts = {"combined": 5, "inserts": 2, "updates": 5, "deletes": len(met) - 5}
    assert (done.operation, done.fates) == ("UPSERT", counts)
    story.replay.delete(met)
    return story.note(str(done.instant), new, version)


def test_rows_that_meet_a_condition_and_what_hudi_does_on_top(story: Story) -> None:
    we_delete_where(story)
    story.judge("after we deleted rows", sound=True)
    we_update(story)
    story.judge("after we updated rows", sound=True)
    story.hudi_upserts(range(0, 40, 5), 3)
    story.judge("after Hudi's turn", sound=True)
    kept = story.instants[-1]
    LakeTable(str(story.path)).rollback(we_replace_where(story, 0))
    back_to(story, kept)
    story.judge("after we rolled a replacement back", sound=True)
    we_replace_where(story, 0)
    story.judge("after we replaced rows by older ones", sound=True)
    we_delete_a_partition_by_a_condition(story)
    story.judge("after we deleted a partition", sound=True)
    story.hudi_upserts(range(20), 5, _CLEAN)
    assert instant_files(story.path, "*.clean")
    story.judge("after Hudi cleaned", sound=True)


def test_hudi_restores_what_was_before_rows_were_changed(story: Story) -> None:
    kept = savepoint(story)
    we_update(story)
    we_delete_where(story)
    we_replace_where(story, 4)
    restore(story, kept)
    story.judge("after Hudi restored it", sound=True)
    story.we_upsert(range(0, 60, 7), 5)
    story.judge("after our turn", sound=True)


def test_hudi_takes_deleted_partitions_back(story: Story) -> None:
    if story.hudi.table_version != story.hudi.default or not metadata_partitions(story.path):
        pytest.skip("the procedure upgrades the table, and builds a metadata table before it rolls back")
    before = story.instants[-1]
    instant = we_delete_partitions(story, "us")
    name = f"t{instant}"  # the procedure asks for a name in Hudi's catalogue
    story.hudi.sql(f"create table {name} using hudi location '{story.path}'")
    story.hudi.sql(f"call rollback_to_instant(table => '{name}', instant_time => '{instant}')")
    assert completed_writes(story.path)[-1] == before
    back_to(story, before)
    if story.hudi.table_version >= 8:
        mend_statistics_of_partitions(story, "us")
    story.judge("after Hudi rolled it back", sound=True)
    story.we_upsert(range(0, 60, 7), 3)
    story.judge("after our turn", sound=True)


def mend_statistics_of_partitions(story: Story, region: str) -> None:
    """The procedure of Hudi 1.0 to 1.2 builds the statistics of partitions while the deleted one is gone, and then
    brings it back without any, so that Hudi skips its rows: ``verify`` says so, and the commands that it names mend it.

    In a session that says ``hoodie.metadata.enable=false`` it removes the metadata table instead, and nothing is skipped.
    """
    assert skipping_reads(story) == len(story.replay.rows) - len(numbers_of(story, region))
    found = metadata_verify(str(story.path))
    assert set(found.counts) == {"statistics"}
    assert {fault.path.partition(" ")[0] for fault in found.examples} == {region}
    table = LakeTable(str(story.path))
    table.metadata_drop(["partition_stats"])
    table.metadata_build(["partition_stats"])
    assert skipping_reads(story) == len(story.replay.rows)


def skipping_reads(story: Story) -> int:
    """How many rows Hudi finds by a condition that all of them meet, if it goes by statistics."""
    options = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
    return story.hudi.read(story.path, options, where="wide >= 0").num_rows


def we_update_columns(story: Story) -> str:
    """A partial update."""
    numbers = sorted(story.replay.rows)[:24:2]
    batch = rows_of(numbers, 6).select(["id", "region", "ts", "val"])
    done = LakeTable(str(story.path)).upsert(batch, partial=True, options=story.our_options)
    assert done.fates == {"updates": len(numbers)}
    old = {number: story.replay.rows[number] for number in numbers}
    instant = story.note(str(done.instant), numbers, 6)
    for number, row in old.items():
        new = story.replay.rows[number]
        story.replay.rows[number] = row | {"ts": new["ts"], "val": new["val"]}
    story.states[instant] = story.replay.copy()
    return instant


def we_upsert_on_conditions(story: Story) -> str:
    """Some rows are updated, inserted and deleted, and others do not meet the conditions."""
    rows = dict(story.replay.rows)
    there = sorted(rows)[:30]
    conditions = {"update_if": "old.wide < 30", "insert_if": "new.id > 'k00325'", "delete_if": "new.id < 'k00008'"}
    batch = rows_of([*there, *range(320, 330)], 7)
    done = LakeTable(str(story.path)).upsert(batch, options=story.our_options, **conditions)
    deleted = [number for number in there if number < 8]
    updated = [number for number in there if number >= 8 and rows[number]["wide"] < 30]
    inserted = [*range(326, 330)]
    if key_of(325) > "k00325":
        inserted.append(325)
    counts = (done.deletes, done.updates, done.inserts)
    assert counts == (len(deleted), len(updated), len(inserted)), done
    assert done.unmet == 40 - sum(counts)
    instant = story.note(str(done.instant), [*updated, *inserted], 7)
    story.replay.delete(deleted)
    story.states[instant] = story.replay.copy()
    return instant


CHANGES = (
    we_delete_where,
    we_update,
    lambda story: we_replace_where(story, 5),
    we_update_columns,
    we_upsert_on_conditions,
)


def test_hudi_rolls_changes_by_condition_back_and_writes_on_top(hudi: HudiServer, folder: Path) -> None:
    """Hudi at its defaults: it keeps a metadata table, on version 9 with statistics, and so do we."""
    if hudi.table_version != hudi.default:
        pytest.skip("the procedure upgrades the table")
    story = keeping_story(folder, SIMPLE, hudi)
    story.options = {key: text for key, text in story.options.items() if not key.startswith("hoodie.metadata.")}
    story.hudi_writes("insert", range(60), 1)
    story.our_options |= {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}
    story.we_upsert(range(50, 75), 2)
    assert "files" in metadata_partitions(story.path)
    story.hudi.sql(f"create table taken_back using hudi location '{story.path}'")
    for change in CHANGES:
        before = story.instants[-1]
        instant = change(story)
        assert_read_both_ways(story, "after our change")
        story.hudi.sql(f"call rollback_to_instant(table => 'taken_back', instant_time => '{instant}')")
        assert completed_writes(story.path)[-1] == before
        back_to(story, before)
        assert_state(ours.read(story.path), story.replay, "after Hudi rolled it back")
        ours.assert_sound(story.path, "after Hudi rolled it back")
    story.judge("after Hudi rolled all of them back", sound=True)
    for change in CHANGES:
        change(story)
    story.hudi_upserts(range(0, 70, 3), 8)
    story.judge("after Hudi wrote on top of all of them", sound=True)
    assert_read_both_ways(story, "after Hudi's turn")
    story.hudi.sql("drop table taken_back")


def assert_read_both_ways(story: Story, what: str) -> None:
    """Hudi reads the same with the metadata table and without it."""
    for word in ("true", "false"):
        found = story.hudi.read(story.path, {"hoodie.metadata.enable": word, "hoodie.enable.data.skipping": word})
        assert_state(found, story.replay, f"{what}: Hudi {story.hudi.version} reads, metadata table {word}")


def test_hudi_restores_what_was_before_an_overwrite(story: Story) -> None:
    kept = savepoint(story)
    we_overwrite(story, list(range(0, 100, 6)), 3)
    we_overwrite(story, list(range(1, 50, 3)), 4, whole=True)
    restore(story, kept)
    story.judge("after Hudi restored it", sound=True)
    story.we_upsert(range(0, 60, 7), 5)
    story.judge("after our turn", sound=True)


def test_hudi_restores_what_was_before_a_truncation(story: Story) -> None:
    kept = savepoint(story)
    done = LakeTable(str(story.path)).truncate()
    assert done.rows_replaced == len(story.replay.rows)
    story.note(str(done.instant), list(story.replay.rows), None)
    assert story.hudi.read(story.path).num_rows == 0
    assert LakeTable(str(story.path)).read(meta=True).num_rows == 0
    story.hudi_upserts(range(9), 3)
    story.judge("after Hudi wrote into the empty table", sound=True)
    restore(story, kept)
    story.judge("after Hudi restored it", sound=True)
    story.we_upsert(range(0, 60, 7), 4)
    story.judge("after our turn", sound=True)


def test_we_clean_and_roll_back(story: Story) -> None:
    before = story.instants[-1]
    instant = we_delete_partitions(story, "eu")
    table = LakeTable(str(story.path))
    table.rollback(instant)
    back_to(story, before)
    story.judge("after we rolled it back", sound=True)
    we_delete_partitions(story, "eu")
    story.we_upsert(range(0, 30, 4), 3)
    story.we_upsert(range(0, 30, 4), 4)
    assert table.clean(keep_commits=1).files
    story.judge("after we cleaned", sound=True)
    story.hudi_upserts(range(20), 5)
    story.judge("after Hudi's turn", sound=True)
