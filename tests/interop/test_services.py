"""Hudi's table services run over our commits, and we go on afterwards: clean, archive, clustering, savepoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeindex.commit.recovery import maintaining
from lakeindex.commit.services.clean import plan_clean
from lakeindex.commit.undo import located, request_service
from lakeindex.operations.table_services import archive, clean
from lakeindex.options.types import WriteConfig
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from lakeindex.timeline.avro_instants import CleanPlan, format_clean_plan
from tests.interop import ours
from tests.interop.hudi_client import HudiServer
from tests.interop.rows import SIMPLE, assert_state
from tests.interop.story import Story, completed_writes, instant_files, keeping_story, rows_of

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
_CLUSTER = {
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clustering.plan.strategy.sort.columns": "id",
    "hoodie.clustering.plan.strategy.small.file.limit": "1000000000",
}


@pytest.fixture
def story(hudi: HudiServer, folder: Path) -> Story:
    """Four commits of ours."""
    told = keeping_story(folder, SIMPLE, hudi)
    told.we_create()
    told.we_upsert(range(60), 1)
    for version in (2, 3, 4):
        told.we_upsert(range(version, 60 + version * 5, 4), version)
    return told


def _base_files(story: Story) -> int:
    return len([path for path in story.path.rglob("*.parquet") if ".hoodie" not in path.parts])


def _instants(story: Story, action: str) -> list[Path]:
    return instant_files(story.path, f"*.{action}")


def test_cleaning(story: Story) -> None:
    before = _base_files(story)
    story.hudi_upserts(range(10), 5, _CLEAN)
    assert _instants(story, "clean")
    assert _base_files(story) < before
    story.judge("after Hudi cleaned our old files", sound=True)
    story.we_upsert(range(5, 90, 7), 6)
    story.we_delete(range(3))
    story.judge("after our turn on a cleaned table", sound=True)


def test_archiving(story: Story) -> None:
    first = story.instants[0]
    for version in (5, 6):
        story.hudi_upserts(range(10), version, _ARCHIVE)
    assert first not in completed_writes(story.path), "Hudi archived nothing"
    story.judge("after Hudi archived our commits", sound=True)
    story.we_upsert(range(5, 90, 7), 7)
    story.judge("after our turn on an archived timeline", sound=True)
    story.hudi_upserts(range(20, 30), 8, _ARCHIVE)
    story.judge("after Hudi went on archiving")


def test_clustering(story: Story) -> None:
    options = {**story.options, **_CLUSTER, "hoodie.datasource.write.operation": "upsert"}
    before = set(completed_writes(story.path))
    story.hudi.write(story.path, rows_of(range(10), 5), options)
    commit = min(set(completed_writes(story.path)) - before)
    story.note(commit, range(10), 5)
    assert _instants(story, "replacecommit")
    story.judge("after clustering: commit times stay, files change", sound=True)
    last = completed_writes(story.path)[-1]
    instant = story.we_upsert(range(5, 90, 7), 6)
    assert instant > last
    story.we_delete(range(20, 25))
    story.judge("after our turn on clustered files", sound=True)
    story.hudi_upserts(range(30, 100), 7)
    story.judge("after Hudi's turn on our files")


def test_savepoint_keeps_its_files(story: Story) -> None:
    kept = story.instants[1]
    story.hudi.sql(f"call create_savepoint(path => '{story.path}', commit_time => '{kept}')")
    assert _instants(story, "savepoint")
    story.we_upsert(range(5, 90, 7), 5)
    story.hudi_upserts(range(10), 6, _CLEAN)
    story.judge("with a savepoint", sound=True)
    assert_state(story.hudi.as_of(story.path, kept), story.states[kept], "as of the savepoint, after cleaning")
    assert_state(ours.read(story.path, as_of=kept), story.states[kept], "we as of the savepoint, after cleaning")


_OUR_CLEAN = {"hoodie.clean.automatic": "true", "hoodie.cleaner.commits.retained": "2"}


def test_our_cleaning(story: Story) -> None:
    """We clean, Hudi reads, goes on and cleans by what our clean says; then we again."""
    before = _base_files(story)
    done = clean(str(story.path), 2)
    assert done.instant is not None
    assert _base_files(story) == before - len(done.files)
    story.judge("after our clean", sound=True)
    kept = story.instants[-2]
    assert_state(story.hudi.as_of(story.path, kept), story.states[kept], "as of the earliest that we retained")
    story.hudi_upserts(range(10), 5, _OUR_CLEAN)
    story.hudi_upserts(range(60), 6, _OUR_CLEAN)
    assert len(_instants(story, "clean")) >= 2, "Hudi cleaned nothing more"
    story.judge("after Hudi went on cleaning", sound=True)
    story.we_upsert(range(5, 90, 7), 7)
    story.we_delete(range(20, 25))
    clean(str(story.path), 1)
    story.judge("after our second clean", sound=True)


def test_hudi_finishes_our_clean(story: Story) -> None:
    """We are killed after the plan; a Hudi writer carries it out before it plans its own."""
    before = _base_files(story)
    table = Table.open(open_storage(str(story.path)))
    plan = plan_clean(table, 2)
    with maintaining(table, "cleaning") as (context, _):
        files = located(table.storage, [file.path for file in plan.files])
        earliest = (plan.earliest.time, plan.earliest.action)
        requested = CleanPlan("KEEP_LATEST_COMMITS", files, earliest, story.instants[-1])
        time = request_service(context, table.load_timeline(), "clean", format_clean_plan(requested))
    story.hudi_upserts(range(10), 5, {**_OUR_CLEAN, "hoodie.cleaner.commits.retained": "3"})
    assert [file for file in instant_files(story.path, f"{time}*.clean") if file.suffix == ".clean"]
    assert not [file.path for file in plan.files if (story.path / file.path).exists()]
    assert _base_files(story) < before + 4
    story.judge("after Hudi finished our clean", sound=True)


def test_our_archiving(story: Story) -> None:
    """Hudi reads what we archived, writes, archives more, and cleans across the border."""
    clean(str(story.path), 2)
    story.we_upsert(range(0, 60, 9), 5)
    done = archive(str(story.path), 2, WriteConfig(cleaner_commits=2))
    gone = [one.time for one in done.instants if one.action == "commit"]
    assert gone == story.instants[:-2]
    archived = story.hudi.archived(story.path)
    for time in gone:
        name = next(name for name in archived if time in name)
        assert "commit" in name
        assert archived[name] > 100, "Hudi has the commit's metadata"
    story.judge("after we archived", sound=True)
    for version in (6, 7):
        story.hudi_upserts(range(10), version, _ARCHIVE)
    story.judge("after Hudi archived on", sound=True)
    assert {name for name in archived if gone[0] in name} <= set(story.hudi.archived(story.path))
    story.we_upsert(range(5, 90, 7), 8)
    clean(str(story.path), 1)
    archive(str(story.path), 1, WriteConfig(cleaner_commits=1))
    story.judge("after we archived what Hudi left", sound=True)
    story.hudi_upserts(range(30, 40), 9)
    story.judge("after Hudi's turn on a timeline of one commit")


def test_our_services_heed_hudis_savepoint(story: Story) -> None:
    """Hudi itself refuses to read as of before the last clean's earliest commit to retain, savepoint or not; we read it."""
    kept = story.instants[1]
    story.hudi.sql(f"call create_savepoint(path => '{story.path}', commit_time => '{kept}')")
    story.we_upsert(range(5, 90, 7), 5)
    assert clean(str(story.path), 1).kept_for_savepoints > 0
    assert archive(str(story.path), 1, WriteConfig(cleaner_commits=1)).held_by == f"savepoint {kept}"
    story.judge("with a savepoint", sound=True)
    assert_state(ours.read(story.path, as_of=kept), story.states[kept], "we as of the savepoint, after our services")


def test_we_archive_hudis_clustering(story: Story) -> None:
    """The replacecommit stays until what it replaced was cleaned; then Hudi reads it from the archive."""
    options = {**story.options, **_CLUSTER, "hoodie.datasource.write.operation": "upsert"}
    before = set(completed_writes(story.path))
    story.hudi.write(story.path, rows_of(range(10), 5), options)
    story.note(min(set(completed_writes(story.path)) - before), range(10), 5)
    replacing = _instants(story, "replacecommit")[0].name[:17]
    for version in (6, 7):
        story.we_upsert(range(version, 60), version)
    one = WriteConfig(cleaner_commits=1)
    held = archive(str(story.path), 1, one)
    assert replacing in (held.held_by or "")
    story.judge("held by the clustering", sound=True)
    clean(str(story.path), 1)
    assert replacing in [gone.time for gone in archive(str(story.path), 1, one).instants]
    assert any(replacing in name and "replacecommit" in name for name in story.hudi.archived(story.path))
    story.judge("after the clustering was archived", sound=True)
    story.hudi_upserts(range(30, 40), 8)
    story.judge("after Hudi's turn")
