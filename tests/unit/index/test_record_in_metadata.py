"""RECORD_INDEX and RECORD_LEVEL_INDEX where the metadata table keeps the locations: that is asked, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeindex.api.table import LakeTable
from lakeindex.commit.services.metadata_service import build_metadata_table, drop_metadata_table
from lakeindex.errors import IndexNotBuiltError, MetadataTableError, OptionError, TableCorruptError
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from tests.builders import Oracle, Row, batch_of, content_of, make_table
from tests.golden import made_once
from tests.told_tables import add_record_index

GLOBAL = {"RECORD_INDEX": True, "RECORD_LEVEL_INDEX": False}
KINDS = list(GLOBAL)


def rows(first: int, count: int, ts: int, day: str = "x") -> list[Row]:
    return [Row(f"k{number:04d}", day, ts, f"v{ts}") for number in range(first, first + count)]


@made_once
def table_of(folder: Path, kind: str, **how: object) -> tuple[LakeTable, Oracle]:
    """A table with two partitions and our own store, and a metadata table with a record index."""
    table = make_table(folder / "t", hoodie__index__type=kind)
    oracle = Oracle(is_global=GLOBAL[kind], moves=False)
    first = rows(0, 30, 1) + rows(30, 30, 1, "y")
    table.upsert(batch_of(first))
    oracle.apply(first)
    build_metadata_table(Table.open(open_storage(table.uri)), partitions=["files"])
    add_record_index(table, **{"partitioned": not GLOBAL[kind], **how})  # type: ignore[arg-type]
    return table, oracle


def shards(table: LakeTable) -> dict[str, bytes]:
    folder = Path(table.uri) / ".hoodie" / ".lakeindex" / "index"
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("kind", KINDS)
def test_keys_are_found_there_and_our_own_store_is_neither_asked_nor_told(tmp_path: Path, kind: str) -> None:
    table, oracle = table_of(tmp_path, kind)
    before = shards(table)
    for path in before:
        Path(path).unlink()
    batch = rows(10, 5, 2) + rows(40, 5, 2, "y") + rows(100, 3, 2) + rows(200, 2, 2, "z")
    summary = table.upsert(batch_of(batch))
    assert oracle.apply(batch)["inserts"] == summary.inserts == 5
    assert content_of(table) == oracle.content()
    assert shards(table) == {}
    lookup = next(one for one in summary.stages if one.name == "index_lookup")
    assert lookup.counters["keys_asked_of_metadata"] == len(batch)


def test_a_key_in_another_partition_is_found_by_the_global_one_only(tmp_path: Path) -> None:
    batch = rows(5, 1, 2, "y")
    for kind in KINDS:
        table, oracle = table_of(tmp_path / kind, kind)
        summary = table.upsert(batch_of(batch))
        oracle.apply(batch)
        assert (summary.updates, summary.inserts) == ((1, 0) if GLOBAL[kind] else (0, 1))
        assert content_of(table) == oracle.content()


@pytest.mark.parametrize("kind", KINDS)
def test_status_names_the_one_in_force_before_with_and_after(tmp_path: Path, kind: str) -> None:
    """Our own store is behind after the partition went, and reads what it does not know."""
    table, oracle = table_of(tmp_path, kind)
    status = table.index_status()
    assert (status.kept_in, status.is_built, status.is_bound) == ("metadata table", True, True)
    assert (status.rows, status.files, status.files_behind) == (None, 2, 0)
    batch = rows(10, 5, 2) + rows(100, 3, 2)
    table.upsert(batch_of(batch))
    oracle.apply(batch)
    drop_metadata_table(Table.open(open_storage(table.uri)), ["record_index"])
    status = table.index_status()
    assert (status.kept_in, status.files_behind) == ("lakeindex", 1)
    batch = rows(100, 5, 3) + rows(12, 2, 3)
    summary = table.upsert(batch_of(batch))
    assert oracle.apply(batch)["inserts"] == summary.inserts == 2
    assert next(one for one in summary.stages if one.name == "index_lookup").counters["keys_asked_of_metadata"] == 0
    assert content_of(table) == oracle.content()
    assert table.index_status().files_behind == 0
    assert table.index_verify().ok


def test_a_table_without_a_store_of_ours_needs_one_built_once_the_partition_is_gone(tmp_path: Path) -> None:
    table, _ = table_of(tmp_path, "RECORD_INDEX")
    for path in shards(table):
        Path(path).unlink()
    drop_metadata_table(Table.open(open_storage(table.uri)), ["record_index"])
    with pytest.raises(IndexNotBuiltError, match="is not built"):
        table.upsert(batch_of(rows(0, 1, 2)))
    table.index_build()
    assert table.upsert(batch_of(rows(0, 1, 2))).updates == 1


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_of_the_other_form_is_refused(tmp_path: Path, kind: str) -> None:
    """It would know nothing of any key, and every row would be stored twice."""
    table, _ = table_of(tmp_path, kind, partitioned=GLOBAL[kind])
    for work in (lambda: table.upsert(batch_of(rows(0, 1, 2))), lambda: table.get(["k0001"]), table.index_status):
        with pytest.raises(MetadataTableError, match="unique in") as caught:
            work()
        assert "migrate" in caught.value.hint


def test_a_partition_with_files_and_no_group_is_damage(tmp_path: Path) -> None:
    table, _ = table_of(tmp_path, "RECORD_LEVEL_INDEX", without=frozenset({"y"}))
    assert table.upsert(batch_of(rows(0, 1, 2))).updates == 1
    with pytest.raises(TableCorruptError, match="no file group for partition 'y'") as caught:
        table.upsert(batch_of(rows(40, 1, 2, "y")))
    assert "metadata build" in caught.value.hint


def test_it_is_refused_where_the_metadata_table_is_not_to_be_used(tmp_path: Path) -> None:
    table, _ = table_of(tmp_path, "RECORD_INDEX")
    with pytest.raises(OptionError, match=r"hoodie\.metadata\.enable=false"):
        table.upsert(batch_of(rows(0, 1, 2)), options={"hoodie.metadata.enable": "false"})


def test_there_is_nothing_of_ours_to_build_verify_or_compact(tmp_path: Path) -> None:
    table, _ = table_of(tmp_path, "RECORD_INDEX")
    for work in (table.index_build, table.index_verify):
        with pytest.raises(OptionError, match="is in its metadata table: record_index"):
            work()
    steps = {one.step: one for one in table.maintain(["compact"]).steps}
    assert "metadata table" in str(next(iter(steps.values())).note)


@pytest.mark.parametrize("kind", KINDS)
def test_get_asks_it(tmp_path: Path, kind: str) -> None:
    table, _ = table_of(tmp_path, kind)
    found = table.get(["k0001", "k0040", "nowhere"])
    assert found.rows.column("id").to_pylist() == ["k0001", "k0040"]
    assert found.missing == ("nowhere",)
    assert found.report.files_opened == 2
    assert table.get(["k0001"], partition="x").report.files_opened == 1
    assert table.get(["nowhere"]).report.files_opened == 0


def test_an_entry_that_leads_nowhere_is_none(tmp_path: Path) -> None:
    """A place that is no more says nothing: an insert that the check of new keys would refuse, were it wrong."""
    table, oracle = table_of(tmp_path, "RECORD_INDEX")
    table.delete(batch_of(rows(0, 30, 2)).select(["id", "day"]))
    for one in list(oracle.rows):
        if one[0] < "k0030":
            del oracle.rows[one]
    batch = rows(0, 3, 3)
    table.upsert(batch_of(batch))
    oracle.apply(batch)
    assert content_of(table) == oracle.content()


def test_the_report_tells_what_came_from_it(tmp_path: Path) -> None:
    table, _ = table_of(tmp_path, "RECORD_INDEX")
    run = table.upsert(batch_of(rows(0, 4, 2)), checkpoints=str(tmp_path / "runs"))
    report = json.loads((tmp_path / "runs" / run.run_id / "report.json").read_text())
    assert report["metadata"] == {
        "partitions": 2,
        "ranges": 0,
        "files_pruned": 0,
        "filters": 0,
        "keys": 4,
        "requests_saved": 2,
    }
