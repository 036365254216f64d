"""Savepoints and restores of both sides on one table: each lists the other's, restores to it, and goes on after it."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeindex
from lakeindex.commit import restoring
from lakeindex.errors import LakeIndexError, StorageError
from tests.interop.hudi_client import HudiServer
from tests.interop.rows import SIMPLE
from tests.interop.story import Story, completed_writes, instant_files, keeping_story, metadata_partitions, rows_of
from tests.interop.test_metadata_table import INDEXES, by_record_index, judge_keys, statistics_story
from tests.interop.test_record_index import _CLUSTER as CLUSTER

pytestmark = pytest.mark.interop


@pytest.fixture
def story(hudi: HudiServer, folder: Path) -> Story:
    """Three commits of ours, of which the second is kept, and one of Hudi."""
    told = keeping_story(folder, SIMPLE, hudi)
    told.we_create()
    told.we_upsert(range(60), 1)
    told.we_upsert(range(2, 70, 4), 2)
    return told


def went_back(story: Story, to: str) -> None:
    """The story, as it was."""
    story.states = {instant: state for instant, state in story.states.items() if instant <= to}
    story.replay = story.states[to].copy()


def we_restore(story: Story, to: str) -> None:
    done = lakeindex.open_table(str(story.path)).restore(to)
    assert done.instant is not None
    assert done.rows_after == done.rows_before - done.rows_gone + done.rows_back == len(story.states[to].rows)
    went_back(story, to)


def hudi_restores(story: Story, to: str) -> None:
    kept = "true" if metadata_partitions(story.path) else "false"
    # by default 0.15 builds one first, which it then cannot restore
    with story.hudi.settings({"hoodie.metadata.enable": kept}):
        story.hudi.sql(f"create table if not exists {_named(story)} using hudi location '{story.path}'")
        story.hudi.sql(f"call rollback_to_savepoint(table => '{_named(story)}', instant_time => '{to}')")
    went_back(story, to)


def _named(story: Story) -> str:
    return "restored_" + "".join(one if one.isalnum() else "_" for one in str(story.path)[-60:])


def hudi_savepoints(story: Story) -> list[str | None]:
    return [row[0] for row in story.hudi.sql(f"call show_savepoints(path => '{story.path}')")]


def test_our_restore_then_hudi_goes_on(story: Story) -> None:
    table, kept = lakeindex.open_table(str(story.path)), story.instants[-1]
    table.savepoint_create(comment="ours")
    assert hudi_savepoints(story) == [kept]
    story.we_upsert(range(20, 90), 3)
    story.hudi_upserts(range(80, 120), 4)
    story.we_delete(range(10))
    story.judge("before the restore", sound=True)
    we_restore(story, kept)
    story.judge("after our restore", sound=True)
    story.hudi_upserts(range(40, 100), 5)
    story.judge("after Hudi went on", sound=True)
    story.we_upsert(range(20, 90), 6)
    story.judge("after we went on", sound=True)
    assert hudi_savepoints(story) == [kept]
    table.savepoint_delete(kept)
    assert hudi_savepoints(story) == []


def test_hudi_restores_to_our_savepoint_then_we_go_on(story: Story) -> None:
    table, kept = lakeindex.open_table(str(story.path)), story.instants[-1]
    table.savepoint_create()
    rows = rows_of(range(20, 90), 3)
    first = table.upsert(rows, batch_id="again", options=story.our_options)
    story.note(first.instant, range(20, 90), 3)
    story.hudi_upserts(range(80, 120), 4)
    hudi_restores(story, kept)
    story.judge("after Hudi's restore", sound=True)
    again = table.upsert(rows, batch_id="again", options=story.our_options)
    assert again.outcome.startswith("committed"), "its rows went: it is sent again"
    story.note(again.instant, range(20, 90), 3)
    story.judge("after the batch was sent again", sound=True)
    story.hudi_upserts(range(50), 5)
    story.judge("after Hudi went on")


def test_we_restore_to_hudis_savepoint(story: Story) -> None:
    kept = story.hudi_upserts(range(30, 80), 3)
    story.hudi.sql(f"call create_savepoint(path => '{story.path}', commit_time => '{kept}', comments => 'theirs')")
    (found,) = lakeindex.open_table(str(story.path)).savepoint_list().savepoints
    assert (found.instant, found.comment) == (kept, "theirs")
    story.hudi_writes("insert_overwrite", [3, 4, 5], 4)
    story.we_upsert(range(100, 120), 5)
    we_restore(story, kept)
    story.judge("after our restore: what was replaced lives again", sound=True)
    story.hudi_upserts(range(100), 6)
    story.judge("after Hudi went on", sound=True)


@pytest.mark.parametrize("who", ["we", "hudi"])
def test_the_metadata_table_follows(hudi: HudiServer, folder: Path, who: str) -> None:
    """Record index and statistics; what is restored was taken in by a compaction, or was not. (Filters that 0.15 makes anew
    after its own restore are not all there.)
    """
    story = statistics_story(folder, SIMPLE, hudi)
    indexes = {name: value for name, value in INDEXES.items() if "bloom" not in name}
    keyed = indexes | by_record_index(hudi)
    story.hudi_writes("insert", range(50), 1, indexes)
    story.our_options |= {"hoodie.index.type": "RECORD_INDEX"}
    story.our_options |= {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}
    story.we_upsert(range(40, 70), 2)
    kept = story.instants[-1]
    table = lakeindex.open_table(str(story.path))
    table.savepoint_create()
    story.hudi_upserts(range(60, 90), 3, keyed)
    story.we_upsert(range(30, 100), 4)
    story.we_delete(range(5))
    if who == "we":
        table.maintain(["metadata"])
        story.we_upsert(range(100, 110), 5)
        we_restore(story, kept)
        assert metadata_partitions(story.path)
    else:
        hudi_restores(story, kept)
    story.judge("after the restore")
    if metadata_partitions(story.path):
        judge_keys(story, "after the restore")
    story.hudi_upserts(range(55, 95), 6, keyed)
    story.judge("after Hudi went on")
    story.we_upsert(range(45, 120), 7)
    story.judge("after we went on")


@pytest.mark.parametrize("who", ["we", "hudi"])
def test_a_restore_of_ours_that_was_cut_short(story: Story, monkeypatch: pytest.MonkeyPatch, who: str) -> None:
    """Who restores to the same instant goes on with our plan; a writer of ours does so by itself."""
    table, kept = lakeindex.open_table(str(story.path)), story.instants[-1]
    table.savepoint_create()
    for version in (3, 4, 5):
        story.we_upsert(range(version * 10, 90), version)
    done: list[str] = []
    take_away = restoring.take_away

    def killed(*arguments: object) -> None:
        if done:
            raise StorageError("killed", culprit="", hint="")
        done.append("one")
        take_away(*arguments)  # type: ignore[arg-type] # passed on

    monkeypatch.setattr(restoring, "take_away", killed)
    with pytest.raises(LakeIndexError):
        table.restore(kept)
    monkeypatch.undo()
    assert len(instant_files(story.path, "*.restore.inflight")) == 1
    assert len(completed_writes(story.path)) == 4
    if who == "hudi":
        hudi_restores(story, kept)
    else:
        went_back(story, kept)
    story.we_upsert(range(5, 60, 7), 6)
    assert len(completed_writes(story.path)) == 3
    assert len(instant_files(story.path, "*.restore.requested")) == 1
    story.judge("after it was carried to its end", sound=True)
    story.hudi_upserts(range(30), 7)
    story.judge("after Hudi went on", sound=True)


def test_before_a_clustering_and_an_upgrade(hudi: HudiServer, folder: Path) -> None:
    """Hudi at its defaults clusters, and brings a table of an older version to its own: rows go back, the version stays."""
    path = folder / SIMPLE.name
    story = Story(path, SIMPLE, hudi, SIMPLE.hudi_options())
    story.we_create()
    story.we_upsert(range(60), 1)
    story.we_upsert(range(2, 70, 4), 2)
    kept = story.instants[-1]
    table = lakeindex.open_table(str(path))
    table.savepoint_create()
    before = set(completed_writes(path))
    options = {**story.options, **CLUSTER, "hoodie.datasource.write.operation": "upsert"}
    hudi.write(path, rows_of(range(30, 80), 3), options)
    story.note(min(set(completed_writes(path)) - before), range(30, 80), 3)
    assert instant_files(path, "*.replacecommit")
    version = table.properties["hoodie.table.version"]
    story.judge("after Hudi's turn")
    story.we_upsert(range(20, 100), 4)
    we_restore(story, kept)
    assert table.properties["hoodie.table.version"] == version
    story.judge("after our restore", sound=True)
    story.hudi_upserts(range(55, 95), 5)
    story.judge("after Hudi went on")
    story.we_upsert(range(45, 120), 6)
    story.judge("after we went on", sound=True)


def test_hudi_goes_on_cleaning_and_archiving_once_a_savepoint_is_gone(story: Story) -> None:
    """Our clean leaves replaced files to a savepoint; without it Hudi cleans them, and archives their replacecommit after that only."""
    table, kept = lakeindex.open_table(str(story.path)), story.instants[-1]
    table.savepoint_create()
    table.insert_overwrite_table(rows_of(range(30), 3), options=story.our_options)
    story.replay.rows = {}
    story.note(completed_writes(story.path)[-1], range(30), 3)
    for version in (4, 5):
        story.we_upsert(range(version, 40, 3), version)
    assert table.clean(1).kept_for_savepoints
    table.savepoint_delete(kept)
    services = {"hoodie.clean.automatic": "true", "hoodie.cleaner.commits.retained": "1"}
    services |= {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    for version in range(6, 10):
        story.hudi_upserts(range(version, 45, 2), version, services)
        story.judge(f"after Hudi's turn {version}", sound=True)
    assert kept not in completed_writes(story.path), "Hudi archived nothing"
