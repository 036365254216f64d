"""Tables that Hudi wrote with hoodie.populate.meta.fields=false, read: their rows store no key, no commit, no partition."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import TableUnsupportedError, UsageError
from tests.unit.operations.tables import live_files
from tests.vectors_support import VIRTUAL, unpack_table

NAMES = sorted(path.name.removesuffix(".tar.gz") for path in VIRTUAL.glob("*.tar.gz"))


def row(number: int, version: int) -> dict[str, Any]:
    return {
        "id": f"k{number:03d}",
        "k2": number % 5,
        "region": ["us", "eu"][number % 2],
        "ts": 1000 * version + number,
        "val": f"v{version}-{number}",
    }


LIVE = [row(number, 1 if number < 10 else 2) for number in range(4, 30)]
FIRST = [row(number, 1) for number in range(20)]


def by_id(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=lambda one: one["id"])


@pytest.fixture(params=NAMES)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> LakeTable:
    return LakeTable(str(unpack_table(request.param, tmp_path, VIRTUAL)))


def test_rows_are_read_now_and_as_of_the_first_commit(table: LakeTable) -> None:
    assert table.count() == len(LIVE) == table.scan().count()
    assert by_id(table.read(meta=False)) == by_id(table.scan().to_arrow()) == LIVE
    first = table.history()[-1].instant
    assert by_id(table.read(as_of=first, meta=False)) == FIRST
    assert table.count(as_of=first) == len(FIRST)


def test_reading_without_a_word_on_meta_columns_gives_those_that_there_are(table: LakeTable) -> None:
    with pytest.warns(FutureWarning, match="meta"):
        assert by_id(table.read()) == LIVE


def test_keys_are_made_from_columns(table: LakeTable) -> None:
    is_complex = "complex" in table.uri
    keys = {f"id:{one['id']},k2:{one['k2']}" if is_complex else one["id"]: one for one in LIVE}
    gone = "id:x,k2:0" if is_complex else "x"
    found = table.get([*keys, gone])
    assert found.missing == (gone,)
    assert found.rows.to_pylist() == [keys[key] for key in sorted(keys)]
    some = table.get(sorted(keys)[5:7], columns=["val"])
    assert some.rows.to_pylist() == [{"val": keys[key]["val"]} for key in sorted(keys)[5:7]]
    assert table.get(sorted(keys), partition="eu").report.rows == sum(one["region"] == "eu" for one in LIVE)


def test_keys_are_found_in_each_row_group(table: LakeTable) -> None:
    if "complex" in table.uri:
        return  # they are made in the same way
    for path in live_files(Path(table.uri)):
        rows = pq.ParquetFile(path).read()
        pq.write_table(rows, path, row_group_size=3)
        assert pq.read_metadata(path).num_row_groups > 1
    for one in LIVE[::7]:
        assert table.get(one["id"]).rows.to_pylist() == [one]
    assert table.get([one["id"] for one in LIVE]).rows.to_pylist() == LIVE


def test_a_condition_on_the_key_reads_the_rows(table: LakeTable) -> None:
    for chosen in ({"k007", "k021"}, {"k000"}):
        scan = table.scan(where=f"id IN ({', '.join(map(repr, sorted(chosen)))})")
        assert by_id(scan.to_arrow()) == [one for one in LIVE if one["id"] in chosen]
    assert table.scan(where="region = 'eu' AND ts > 2000").count() == 10


REFUSED: dict[str, Callable[[LakeTable], Any]] = {
    "the meta columns": lambda table: table.read(meta=True),
    "the meta columns cannot": lambda table: table.scan(meta=True).to_arrow(),
    "rows since an instant": lambda table: table.read(since="20200101000000000", meta=False),
    "rows since an instant cannot": lambda table: table.scan(since="20200101000000000").to_arrow(),
    "changes": lambda table: table.changes().to_arrow(),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_only_meta_columns_say_is_refused_by_name(what: str, tmp_path: Path) -> None:
    table = LakeTable(str(unpack_table("h120_v9_virtual_bucket", tmp_path, VIRTUAL)))
    with pytest.raises(TableUnsupportedError, match=what) as caught:
        REFUSED[what](table)
    assert caught.value.culprit == "hoodie.populate.meta.fields"
    assert "as of two instants" in str(caught.value.hint)


def test_a_meta_column_is_none_of_the_tables(tmp_path: Path) -> None:
    table = LakeTable(str(unpack_table("h0150_v6_virtual", tmp_path, VIRTUAL)))
    with pytest.raises(UsageError, match="no column '_hoodie_record_key'"):
        table.scan(columns=["_hoodie_record_key"]).to_arrow()
    with pytest.raises(UsageError, match="_hoodie_commit_time"):
        table.scan(where="_hoodie_commit_time > '2'").to_arrow()


def test_check_finds_nothing_and_inspect_shows_the_columns(table: LakeTable) -> None:
    report = table.check()
    assert (report.violations, report.notes) == ((), ())
    assert report.checked.rows == report.checked.keys_recomputed == len(LIVE)
    assert [column.name for column in table.inspect().columns] == ["id", "k2", "region", "ts", "val"]


def _live(table: LakeTable) -> Path:
    return Path(table.uri) / table.files()[0].path


def test_check_finds_a_key_that_is_stored_twice(table: LakeTable) -> None:
    file = _live(table)
    rows = pq.read_table(file)
    pq.write_table(pa.concat_tables([rows, rows.slice(0, 1)]), file)
    kinds = {str(one.kind) for one in table.check().violations}
    assert "duplicate_key" in kinds


def test_check_finds_a_row_without_a_key_and_one_in_another_partition(table: LakeTable) -> None:
    if "complex" in table.uri:
        pytest.skip("a key of two fields has a part that is null")
    file = _live(table)
    rows = pq.read_table(file)
    keys = pa.array([None, *rows.column("id").to_pylist()[1:]], pa.string())
    shutil.copy(file, file.with_suffix(".kept"))
    pq.write_table(rows.set_column(rows.column_names.index("id"), "id", keys), file)
    assert any("whose keys cannot be made" in one.message for one in table.check().violations)
    with pytest.raises(Exception, match="whose keys cannot be made"):
        table.get(["k007"])
    shutil.move(file.with_suffix(".kept"), file)
    elsewhere = pa.array(["xx", *rows.column("region").to_pylist()[1:]], pa.string())
    pq.write_table(rows.set_column(rows.column_names.index("region"), "region", elsewhere), file)
    assert any("another partition" in note for note in table.check().notes)
