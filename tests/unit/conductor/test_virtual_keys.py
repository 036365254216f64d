"""Writing into tables whose rows do not store their keys (hoodie.populate.meta.fields=false)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeindex.api.creating import create_table
from lakeindex.api.table import LakeTable
from lakeindex.errors import MetadataTableError, OptionError, TableCorruptError, TableExistsError, TableUnsupportedError
from lakeindex.write.keys.key_generators import KeySpec
from lakeindex.write.types.avro_schema import META_COLUMNS
from lakeindex.write.virtual_keys import VirtualKeys
from tests.builders import Row, as_hudis, batch_of, make_table
from tests.vectors_support import VIRTUAL, unpack_table

GROUPS = {"lakeindex.parquet.row.group.rows": "4"}
VIRTUAL_KEYS = {"hoodie.populate.meta.fields": "false"}


def virtual_table(folder: Path | str, **more: Any) -> LakeTable:
    return make_table(folder, hoodie__populate__meta__fields="false", **more)


def rows(numbers: range, version: int) -> pa.Table:
    return batch_of(Row(f"k{number:03d}", "x", version, f"v{version}-{number}") for number in numbers)


def live_file(table: LakeTable) -> pq.ParquetFile:
    (file,) = table.files()
    return pq.ParquetFile(Path(table.uri) / file.path)


def assert_no_meta_values(table: LakeTable) -> None:
    for file in table.files():
        stored = pq.read_table(Path(table.uri) / file.path, partitioning=None)
        assert stored.column_names[:5] == list(META_COLUMNS)
        assert all(stored.column(name).null_count == stored.num_rows for name in META_COLUMNS)


def test_files_are_as_hudis_with_null_meta_columns_and_no_word_on_keys(tmp_path: Path) -> None:
    table = virtual_table(tmp_path / "t")
    table.upsert(rows(range(10), 1))
    assert table.inspect().index_type == "SIMPLE"
    assert table.properties["hoodie.populate.meta.fields"] == "false"
    assert_no_meta_values(table)
    entries = {key.decode() for key in live_file(table).metadata.metadata}
    assert not [key for key in entries if "bloom" in key or "record_key" in key or key == "lakeindex.keys"]
    assert table.check().ok


def test_only_what_changes_is_encoded(tmp_path: Path) -> None:
    table = virtual_table(tmp_path / "t")
    table.upsert(rows(range(12), 1), options=GROUPS)
    columns = len(live_file(table).schema_arrow.names)
    done = table.upsert(rows(range(5, 6), 2), options=GROUPS)
    assert (done.chunks_copied, done.chunks_encoded) == (3 * columns - 2, 2)  # ts and v of one row group of three
    same = table.upsert(rows(range(5, 6), 2), options=GROUPS)
    assert (same.updates, same.chunks_encoded) == (1, 0)
    gone = table.delete(pa.table({"id": ["k000"], "day": ["x"]}), options=GROUPS)
    assert (gone.deletes, gone.chunks_encoded) == (1, columns)
    assert_no_meta_values(table)
    assert max(table.scan().to_arrow().column("v").to_pylist()) == "v2-5"
    assert table.check().ok


def test_a_file_of_hudis_is_made_ours_and_sorted_by_the_made_keys(tmp_path: Path) -> None:
    table = LakeTable(str(unpack_table("h120_v6_virtual_bulk", tmp_path, VIRTUAL)))
    batch = pa.table({"id": ["k007", "k000"], "k2": pa.array([1, 1], pa.int32()), "region": ["eu", "us"],
                      "ts": [9000, 9000], "val": ["new", "new"]})  # fmt: skip
    options = {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}
    done = table.upsert(batch, options=options)
    assert (done.updates, done.inserts) == (1, 1)
    assert_no_meta_values(table)
    for file in table.files():
        ids = pq.read_table(Path(table.uri) / file.path, partitioning=None).column("id").to_pylist()
        assert ids == sorted(ids)
    assert table.check().ok
    assert table.inspect().index_type == "SIMPLE"


def test_files_from_before_keys_became_virtual_are_written_anew(tmp_path: Path) -> None:
    """Hudi lets a table be switched over, and not back; its stored values would name other files and commits."""
    table = make_table(tmp_path / "t", hoodie__index__type="SIMPLE")
    table.upsert(rows(range(12), 1), options=GROUPS)
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("meta.fields=true", "meta.fields=false"))
    assert table.count() == table.scan().count() == 12
    done = table.upsert(rows(range(2), 2), options=GROUPS)
    assert (done.updates, done.chunks_copied) == (2, 0)
    assert_no_meta_values(table)
    assert table.check().ok


def test_buckets_of_another_writers_table_show_in_the_made_keys(tmp_path: Path) -> None:
    table = virtual_table(tmp_path / "t", hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets="3")
    table.upsert(rows(range(60), 1))
    as_hudis(table)
    done = table.upsert(rows(range(55, 65), 2))
    assert (done.updates, done.inserts) == (5, 5)
    assert table.inspect().index_type == "BUCKET"
    assert table.check().ok


_ROWS = st.lists(
    st.builds(Row, st.sampled_from("abcdefg"), st.sampled_from("xy"), st.integers(0, 3), st.text("v", max_size=2), st.booleans()),
    min_size=1,
    max_size=6,
)  # fmt: skip
_STEPS = st.lists(st.tuples(st.sampled_from(["upsert", "delete", "update", "overwrite", "partial"]), _ROWS), min_size=1, max_size=4)  # fmt: skip


@settings(max_examples=4, deadline=None)
@given(steps=_STEPS)
def test_any_steps_give_what_a_table_with_stored_keys_has(steps: list[tuple[str, list[Row]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stored = make_table(f"{folder}/stored", hoodie__index__type="SIMPLE")
        virtual = virtual_table(f"{folder}/virtual")
        for what, batch in steps:
            fates = [_do(table, what, batch_of(batch)) for table in (stored, virtual)]
            assert fates[0] == fates[1], what
        both = [sorted(table.scan().to_arrow().to_pylist(), key=str) for table in (stored, virtual)]
        assert both[0] == both[1]
        assert virtual.check().ok


def _do(table: LakeTable, what: str, batch: pa.Table) -> dict[str, int]:
    plain = batch.drop_columns(["_hoodie_is_deleted"])
    write: dict[str, Callable[[], Any]] = {
        "upsert": lambda: table.upsert(batch, options=GROUPS),
        "delete": lambda: table.delete(where=f"id IN ('{batch['id'][0]}', 'b')", options=GROUPS),
        "update": lambda: table.update({"v": "'set'"}, where=f"ts >= {batch['ts'][0]}", options=GROUPS),
        "overwrite": lambda: table.insert_overwrite(plain, options=GROUPS),
        "partial": lambda: table.upsert(plain.drop_columns(["v"]), partial=True, options=GROUPS),
    }
    fates: dict[str, int] = write[what]().fates
    return fates


@pytest.mark.parametrize(
    ("partitions", "options", "culprit", "why"),
    [
        (["day"], {"hoodie.index.type": "BLOOM"}, "hoodie.index.type", "asks bloom filters"),
        (
            ["day", "v"],
            {"hoodie.write.complex.keygen.new.encoding": "true"},
            "hoodie.table.keygenerator.type",
            "releases",
        ),
        (
            ["ts:SIMPLE"],
            {"hoodie.table.keygenerator.type": "CUSTOM"},
            "hoodie.table.keygenerator.type",
            "CUSTOM makes no",
        ),
    ],
)
def test_what_cannot_be_made_is_refused_by_name(
    tmp_path: Path, partitions: list[str], options: dict[str, str], culprit: str, why: str
) -> None:
    schema = make_table(tmp_path / "other").schema
    with pytest.raises(OptionError, match=why) as caught:
        create_table(
            str(tmp_path / "t"), schema, key=["id"], partition=partitions, ordering="ts",
            properties={**VIRTUAL_KEYS, **options},
        )  # fmt: skip
    assert caught.value.culprit == culprit
    assert caught.value.hint


def test_a_table_with_stored_keys_is_another_one(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    with pytest.raises(TableExistsError, match="stored meta columns"):
        create_table(
            table.uri, table.schema, key="id", partition="day", ordering="ts", properties=VIRTUAL_KEYS, exists="ok"
        )


def test_bloom_on_a_table_of_hudis_is_refused_before_anything_is_bound(tmp_path: Path) -> None:
    table = LakeTable(str(unpack_table("h0150_v6_virtual", tmp_path, VIRTUAL)))
    batch = pa.table({"id": ["a"], "k2": pa.array([1], pa.int32()), "region": ["eu"], "ts": [1], "val": ["x"]})
    options = {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING", "hoodie.index.type": "GLOBAL_BLOOM"}
    with pytest.raises(
        OptionError, match=r"cannot be GLOBAL_BLOOM on table t with hoodie\.populate\.meta\.fields=false"
    ):
        table.upsert(batch, options=options)
    assert not table.inspect().bound


def _set(table: LakeTable, **changed: str) -> None:
    path = Path(table.uri) / ".hoodie" / "hoodie.properties"
    path.write_text(path.read_text() + "".join(f"{key.replace('__', '.')}={text}\n" for key, text in changed.items()))


def test_key_generators_that_hudi_refuses_are_read_and_not_written(tmp_path: Path) -> None:
    table = virtual_table(tmp_path / "t")
    table.upsert(rows(range(5), 1))
    name = "org.apache.hudi.keygen.ComplexKeyGenerator"
    _set(table, hoodie__table__keygenerator__type="COMPLEX", hoodie__table__keygenerator__class=name)
    assert table.scan().count() == 5
    with pytest.raises(TableUnsupportedError, match="releases of Hudi spell differently") as caught:
        table.upsert(rows(range(5), 2))
    assert caught.value.culprit == "hoodie.populate.meta.fields"
    refusal = table.inspect().refusal
    assert refusal is not None
    assert "spell differently" in refusal.message


NOT_DONE: dict[str, Callable[[LakeTable], Any]] = {
    "a rewrite into other buckets": lambda table: table.index_migrate("BUCKET", options={"hoodie.bucket.index.num.buckets": "2"}),
    "advice on the index": lambda table: table.advise(rows(range(3), 2)),
    "cannot be BLOOM": lambda table: table.index_migrate("BLOOM"),
    "cannot have bloom_filters": lambda table: table.metadata_build(["files", "bloom_filters"]),
    "cannot have record_index": lambda table: table.metadata_build(["record_index"]),
}  # fmt: skip


@pytest.mark.parametrize("what", NOT_DONE)
def test_what_is_not_done_is_refused_by_name(what: str, tmp_path: Path) -> None:
    table = virtual_table(tmp_path / "t")
    table.upsert(rows(range(5), 1))
    with pytest.raises((TableUnsupportedError, OptionError, MetadataTableError), match=what) as caught:
        NOT_DONE[what](table)
    assert caught.value.hint
    assert table.check().ok


def test_an_index_is_migrated_and_its_store_is_built_from_made_keys(tmp_path: Path) -> None:
    table = virtual_table(tmp_path / "t")
    table.upsert(rows(range(30), 1))
    moved = table.index_migrate("RECORD_INDEX")
    assert (moved.rows_built, moved.keys_checked) == (30, 30)
    assert table.upsert(rows(range(25, 35), 2)).fates == {"inserts": 5, "updates": 5}
    assert table.get(["k026", "k034", "x"]).missing == ("x",)
    assert table.index_verify().ok
    assert table.check().ok


@pytest.mark.parametrize("version", ["6", "9"])
def test_statistics_of_the_metadata_table_are_kept_up(version: str, tmp_path: Path) -> None:
    table = virtual_table(tmp_path / "t", hoodie__write__table__version=version)
    table.upsert(rows(range(10), 1))
    table.metadata_build(["files", "column_stats"])
    table.upsert(rows(range(5, 15), 2))
    assert table.metadata_verify().ok
    assert table.scan(where="id = 'k003'").to_arrow().column("v").to_pylist() == ["v1-3"]
    _set(table, hoodie__table__metadata__partitions="files,record_index")
    with pytest.raises(MetadataTableError, match="cannot have record_index"):
        table.upsert(rows(range(5), 3))


def test_keys_are_made_of_values_in_the_types_of_the_table() -> None:
    """A file from before a column became wider holds the same keys."""
    spec = KeySpec.from_properties(
        {"hoodie.table.recordkey.fields": "id", "hoodie.table.keygenerator.type": "NON_PARTITION"}
    )
    rows = pa.table({"id": pa.array([1, 2], pa.int32())})
    assert VirtualKeys(spec, pa.schema([("id", pa.float64())])).of(rows, "f").to_pylist() == ["1.0", "2.0"]
    assert VirtualKeys(spec).of(rows, "f").to_pylist() == ["1", "2"]
    with pytest.raises(TableCorruptError, match="no column 'id'"):
        VirtualKeys(spec).of(rows.rename_columns(["x"]), "f")
    with pytest.raises(TableCorruptError, match="in one of its rows"):
        VirtualKeys(spec).of(pa.table({"id": pa.array([1, None], pa.int32())}), "f")
