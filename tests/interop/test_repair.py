"""After a repair Hudi reads the table, writes to it, and both sides go on by turns."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeindex
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from tests.interop.hudi_client import HudiServer
from tests.interop.rows import SIMPLE
from tests.interop.story import Story, keeping_story

pytestmark = pytest.mark.interop


@pytest.fixture
def story(hudi: HudiServer, folder: Path) -> Story:
    """Two commits of ours, the second an update of some rows, and a metadata table where Hudi has one."""
    told = keeping_story(folder, SIMPLE, hudi)
    told.we_create(metadata=True)
    told.we_upsert(range(60), 1)
    told.we_upsert(range(20, 40), 2)
    return told


def _live(story: Story) -> list[Path]:
    snapshot = Table.open(open_storage(str(story.path))).listed_snapshot()
    return [story.path / one.path for one in snapshot.base_files_all()]


def _by_turns(story: Story) -> None:
    story.judge("after the repair", sound=True)
    story.hudi_upserts(range(10, 70), 3)
    story.judge("after Hudi's turn", sound=True)
    story.we_upsert(range(30, 90), 4)
    story.judge("after ours", sound=True)


def test_a_lost_file_and_a_lost_partition(story: Story) -> None:
    """What was lost is sent again; Hudi reads what stands in for the file, and writes on top of it."""
    table = lakeindex.open_table(str(story.path))
    lost = _live(story)[0]
    lost.unlink()
    other = next(one for one in _live(story) if one.parent != lost.parent)
    (other.parent / ".hoodie_partition_metadata").unlink()
    done = table.repair(apply=True)
    assert done.ok, (done.mends, done.unmended)
    assert {one.kind for one in done.mends} >= {"file", "partition"}
    assert done.rows_after == table.count()
    story.we_upsert(range(60), 2)
    _by_turns(story)


def test_lost_properties(story: Story) -> None:
    """Hudi opens the table by the properties that were made again."""
    table = lakeindex.open_table(str(story.path))
    said = table.properties
    (story.path / ".hoodie/hoodie.properties").unlink()
    ordered = said.get("hoodie.table.ordering.fields") or said["hoodie.table.precombine.field"]
    key, partition = (said[f"hoodie.table.{name}.fields"].split(",") for name in ("recordkey", "partition"))
    options = {"hoodie.write.table.version": said["hoodie.table.version"]}
    done = table.repair_properties(key=key, partition=partition, ordering=ordered, options=options, apply=True)
    assert set(done.entries) | {"hoodie.table.create.schema"} >= set(said)
    _by_turns(story)


def test_a_file_of_hudi_that_is_cut_off(story: Story) -> None:
    """Without a checksum of its footer it is as good as lost."""
    table = lakeindex.open_table(str(story.path))
    story.hudi_upserts(range(20, 40), 3)
    file = max(_live(story), key=lambda one: one.stat().st_mtime)
    data = bytearray(file.read_bytes())
    data[-9] ^= 0xFF
    data[-200:-100] = bytes(100)
    file.write_bytes(bytes(data))
    done = table.repair(apply=True)
    assert done.ok, (done.mends, done.unmended)
    assert "file" in {one.kind for one in done.mends}
    story.we_upsert(range(60), 3)
    _by_turns(story)
