"""An imported table is a table of Hudi's: it reads it and goes on writing; and Hudi's own way to take files over, a bootstrap
that leaves the rows where they are, is refused by name in every door.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import lakeindex
from lakeindex.errors import TableUnsupportedError
from tests.interop.hudi_client import HudiServer
from tests.interop.rows import COMPLEX, SIMPLE, Layout
from tests.interop.story import keeping_story, rows_of

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("layout", [SIMPLE, COMPLEX], ids=lambda layout: layout.name)
def test_what_we_import_hudi_reads_and_changes(folder: Path, hudi: HudiServer, layout: Layout) -> None:
    story = keeping_story(folder, layout, hudi)
    source, rows = folder / "source", rows_of(range(60), 1)
    if layout.hive_style:
        by = ds.partitioning(pa.schema([(name, pa.string()) for name in layout.partitions]), flavor="hive")
        ds.write_dataset(rows, str(source), format="parquet", partitioning=by)
    else:
        source.mkdir()
        for number in range(2):
            pq.write_table(rows.slice(number * 30, 30), source / f"{number}.parquet")
    done = lakeindex.import_table(
        source,
        story.path,
        key=layout.keys,
        partition=None if layout.hive_style else layout.partitions,
        ordering="ts",
        table_version=hudi.table_version,
        metadata=False,
    )
    assert (done.inserted, len(done.instants)) == (60, 1)
    story.note(done.instants[0], range(60), 1)
    story.judge("after our import", sound=True)
    story.hudi_upserts(range(40, 80), 2)
    story.judge("after Hudi's upsert into it")
    story.we_upsert(range(30, 90), 3)
    story.judge("after ours on top", sound=True)


DOORS: dict[str, Callable[[lakeindex.LakeTable], object]] = {
    "scan": lambda table: table.scan().to_arrow(),
    "get": lambda table: table.get(["1"]),
    "count": lambda table: table.count(),
    "changes": lambda table: table.changes().to_arrow(),
    "schema": lambda table: table.schema,
    "files": lambda table: table.files(),
    "inspect": lambda table: table.inspect(),
    "history": lambda table: table.history(),
    "check": lambda table: table.check(),
    "upsert": lambda table: table.upsert(rows_of(range(3), 2)),
    "delete": lambda table: table.delete(where="id = '1'"),
    "cluster": lambda table: table.cluster(),
    "clean": lambda table: table.clean(),
    "archive": lambda table: table.archive(),
    "maintain": lambda table: table.maintain(),
    "metadata build": lambda table: table.metadata_build(),
    "index build": lambda table: table.index_build("STATE"),
    "savepoint": lambda table: table.savepoint_create(),
    "restore": lambda table: table.restore("20260101000000000"),
    "rollback": lambda table: table.rollback("20260101000000000"),
    "sync": lambda table: table.sync("glue"),
    "repair keys": lambda table: table.repair_keys(),
}


def test_a_bootstrapped_table_is_refused_by_name(folder: Path, hudi: HudiServer) -> None:
    source, path = folder / "source" / "region=eu", folder / "boot"
    source.mkdir(parents=True)
    rows = rows_of(range(1, 6), 1).select(["id", "ts", "val"])
    pq.write_table(rows, source / "a.parquet")
    story = keeping_story(folder, SIMPLE, hudi)
    options = story.options | {
        "hoodie.table.name": "boot",
        "hoodie.datasource.write.operation": "bootstrap",
        "hoodie.bootstrap.base.path": str(source.parent),
        "hoodie.bootstrap.mode.selector": "org.apache.hudi.client.bootstrap.selector.MetadataOnlyBootstrapModeSelector",
        "hoodie.datasource.write.hive_style_partitioning": "true",
    }
    hudi.write(path, rows.slice(0, 0), options, mode="overwrite")
    assert "hoodie.bootstrap.base.path" in (path / ".hoodie" / "hoodie.properties").read_text()
    table = lakeindex.LakeTable(str(path))
    for name, door in DOORS.items():
        with pytest.raises(TableUnsupportedError, match="is bootstrapped from") as told:
            pytest.fail(f"{name}: {door(table)}")
        assert "lakeindex import" in str(told.value.hint), name
    done = lakeindex.import_table(source.parent, folder / "full", key="id", ordering="ts")
    assert done.inserted == rows.num_rows
