"""Clustering by turns: each side carries the other's plans out, rolls back or continues what the other was killed at, and
reads what the other has clustered.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeindex
from lakeindex.errors import PendingInstantError
from lakeindex.operations import rewrite_run
from lakeindex.options.clustering_options import UPDATES_OPTION, ClusteringUpdates
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from tests.interop.hudi_client import HudiError, HudiServer
from tests.interop.rows import SIMPLE, assert_state
from tests.interop.story import Story, completed_writes, keeping_story

pytestmark = pytest.mark.interop

_NEW_FILES = {"hoodie.parquet.small.file.limit": "0"}
_AT_ONCE = {"lakeindex.pending.foreign.max.age": "0"}
_COPIED = {"lakeindex.parquet.row.group.rows": "20"}
"""Row groups of a few rows are full enough to be copied."""
_SKIPPING = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}


@pytest.fixture
def hudi_clusters(hudi: HudiServer) -> None:
    if (hudi.version, hudi.table_version) == ("1.0.2", 6):
        pytest.skip("Hudi 1.0 has no clustering of tables of version 6")


@pytest.fixture
def story(hudi: HudiServer, folder: Path) -> Story:
    """Three commits of ours, each in files of its own, and a metadata table with statistics where Hudi has them."""
    told = keeping_story(folder, SIMPLE, hudi)
    told.our_options |= {**_NEW_FILES, **_AT_ONCE}
    told.we_create(metadata=True)
    for version in range(3):
        told.we_upsert(range(version * 30, version * 30 + 30), 1)
    return told


def _pending(story: Story) -> list[str]:
    timeline = Table.open(open_storage(str(story.path))).load_timeline()
    return [one.time for one in timeline.pending_writes]


def _call(story: Story, op: str, more: str = "") -> None:
    story.hudi.sql(f"call run_clustering(path => '{story.path}', op => '{op}'{more})")


def _carry_out(story: Story, table: lakeindex.LakeTable) -> None:
    """Hudi carries out what is planned, and keeps no metadata table up: its procedure does not, of version 6."""
    table.metadata_drop()
    version = f"hoodie.write.table.version={story.hudi.table_version},hoodie.write.auto.upgrade=false"
    _call(story, "execute", f", options => 'hoodie.metadata.enable=false,{version}'")


def _judge(story: Story, what: str) -> None:
    story.judge(what, sound=True)
    assert_state(story.hudi.read(story.path, _SKIPPING), story.replay, f"{what}: with data skipping")


def _files(story: Story) -> int:
    return len(Table.open(open_storage(str(story.path))).snapshot().base_files_all())


@pytest.fixture
def table(story: Story) -> lakeindex.LakeTable:
    return lakeindex.open_table(str(story.path))


@pytest.mark.parametrize("sort", ["key", "hilbert", "none"])
def test_what_we_cluster_hudi_reads_and_changes(story: Story, table: lakeindex.LakeTable, sort: str) -> None:
    before = _files(story)
    done = table.cluster(sort=sort, columns=["ts", "val"] if sort == "hilbert" else None, options=_COPIED)
    assert done.files_before == before > done.files_after
    _judge(story, "after our clustering")
    story.hudi_upserts(range(20, 100), 2)
    _judge(story, "after Hudi's turn")
    story.we_upsert(range(60, 130), 3)
    _judge(story, "after ours")


@pytest.mark.usefixtures("hudi_clusters")
@pytest.mark.parametrize("sort", ["columns", "none"])
def test_hudi_carries_our_plan_out(story: Story, table: lakeindex.LakeTable, sort: str) -> None:
    plan = table.cluster(sort=sort, columns=["val"] if sort == "columns" else None, schedule=True)
    _judge(story, "with our plan")
    _carry_out(story, table)
    assert plan.instant in completed_writes(story.path)
    assert _files(story) < plan.files_before
    _judge(story, "after Hudi carried it out")
    story.we_upsert(range(20, 100), 2)
    _judge(story, "after our turn")


@pytest.mark.usefixtures("hudi_clusters")
def test_we_carry_hudis_plan_out(story: Story, table: lakeindex.LakeTable) -> None:
    _call(story, "schedule", ", order => 'val'")
    (instant,) = _pending(story)
    with pytest.raises(PendingInstantError, match=f"pending clustering {instant}"):
        story.we_upsert(range(2), 2)
    with pytest.raises(HudiError):
        story.hudi_upserts(range(2), 2)
    done = table.cluster(instant=instant, options=_AT_ONCE)  # Hudi has left a commit behind that it rejected
    assert (done.instant, done.order, _pending(story)) == (instant, "val", [])
    _judge(story, "after we carried it out")
    story.hudi_upserts(range(20, 100), 2)
    story.we_upsert(range(60, 130), 3)
    _judge(story, "after both turns")


@pytest.mark.usefixtures("hudi_clusters")
def test_hudis_plan_loses_to_our_update(story: Story, table: lakeindex.LakeTable) -> None:
    _call(story, "schedule")
    story.our_options |= {UPDATES_OPTION: ClusteringUpdates.ALLOW}
    story.we_upsert(range(40), 2)
    assert not _pending(story)
    _judge(story, "after our update")
    story.hudi_upserts(range(20, 100), 3)
    _judge(story, "after Hudi's turn")


@pytest.mark.usefixtures("hudi_clusters")
@pytest.mark.parametrize("who", ["Hudi goes on", "Hudi writes", "we write"])
def test_what_we_were_killed_at(
    story: Story, table: lakeindex.LakeTable, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(rewrite_run, "encode_parts", dies)
    with pytest.raises(KeyboardInterrupt):
        table.cluster()
    monkeypatch.undo()
    (instant,) = _pending(story)
    _judge(story, "while it is pending") if who == "we write" else None
    if who == "Hudi goes on":
        _carry_out(story, table)
        assert instant in completed_writes(story.path)
    elif who == "Hudi writes":
        with pytest.raises(HudiError):  # it rejects updates of planned file groups, and leaves the plan alone
            story.hudi_upserts(range(10), 2)
    story.we_upsert(range(20, 60), 3)
    assert not _pending(story)
    _judge(story, "after our turn")
    story.hudi_upserts(range(50, 100), 4)
    _judge(story, "after Hudi's turn")
