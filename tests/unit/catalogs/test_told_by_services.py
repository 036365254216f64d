"""Services that make or take back a commit tell the catalogs of ``lakeindex.sync``; their dry runs do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from lakeindex.api.table import LakeTable
from tests.builders import Row, batch_of, make_table

NOBODY: Final = {"lakeindex.sync": "hive", "hoodie.datasource.hive_sync.metastore.uris": "thrift://127.0.0.1:1"}
SMALL: Final = {"hoodie.parquet.small.file.limit": "0"}

SERVICES: Final[dict[str, Callable[[LakeTable, dict[str, bool]], Any]]] = {
    "cluster": lambda table, how: table.cluster(options=NOBODY, **how),
    "index migrate": lambda table, how: table.index_migrate("SIMPLE", options=NOBODY, **how),
    "to buckets": lambda table, how: table.index_migrate("BUCKET", options=NOBODY, **how),
    "restore": lambda table, how: table.restore(table.history()[-1].instant, options=NOBODY, **how),
    "restore before": lambda table, how: table.restore(before=table.history()[0].instant, options=NOBODY, **how),
}


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_tells_the_catalogs(tmp_path: Path, service: str) -> None:
    table = make_table(tmp_path / "t", hoodie__index__type="BLOOM")
    for key in "abc":
        table.upsert(batch_of([Row(key, "x", 1, "")]), options=SMALL)
    assert SERVICES[service](table, {"dry_run": True}).notes == ()
    done = SERVICES[service](table, {})
    assert done.instant is not None
    (note,) = done.notes
    assert note.startswith("the catalog hive does not know the commit yet; the next sync tells it: CatalogError")


def test_a_rescale_and_a_rollback_tell_the_catalogs(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets="1")
    table.upsert(batch_of([Row("a", "x", 1, "")]))
    assert table.rescale(2, options=NOBODY, dry_run=True).notes == ()
    assert len(table.rescale(2, options=NOBODY).notes) == 1
    assert len(table.rollback(table.history()[0].instant, options=NOBODY).notes) == 1


def test_a_repair_that_commits_tells_the_catalogs(tmp_path: Path) -> None:
    """Its plan does not, nor one that takes nothing but a file of nobody away."""
    table = make_table(tmp_path / "t", hoodie__index__type="BLOOM")
    table.upsert(batch_of([Row("a", "x", 1, ""), Row("b", "y", 1, "")]))
    (lost,) = (tmp_path / "t/x").glob("*.parquet")
    (tmp_path / "t/y" / lost.name.replace("_0-", "_9-")).write_bytes(lost.read_bytes())
    assert table.repair(["stray"], apply=True, options=NOBODY).notes == ()
    lost.unlink()
    assert table.repair(options=NOBODY).notes == ()
    done = table.repair(apply=True, options=NOBODY)
    assert done.instant is not None
    assert [note.partition(";")[0] for note in done.notes] == ["the catalog hive does not know the commit yet"]
