"""Another writer's bucket table: bound only if its stored keys agree with the options; and what later turns out is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.api import LakeTable
from lakeindex.config import parse_options
from lakeindex.errors import LakeIndexError, OptionError, TableCorruptError
from lakeindex.index.bucket import bucket_ids
from lakeindex.index.bucket_layout import BucketLayout, KeyRule
from lakeindex.model import IndexSpec
from lakeindex.stages.bucket_facts import index_of_stored
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from tests.builders import Row
from tests.unit.services.test_rescaling import bucket_table, rows, upsert
from tests.vectors_support import unpack_table

COUNT, RULE = "hoodie.bucket.index.num.buckets", "lakeindex.bucket.key.rule"
SAY = {"hoodie.index.type": "BUCKET", "hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}
HUDI = ("h0150_v6_bucket", "h120_v6_bucket")


def index_of(folder: Path, **options: str) -> IndexSpec | None:
    table = Table.open(open_storage(str(folder)))
    return index_of_stored(table, table.snapshot(), parse_options({**SAY, **options}))


@pytest.mark.parametrize("name", HUDI)
def test_hudis_table_is_bound_with_its_count(tmp_path: Path, name: str) -> None:
    spec = index_of(unpack_table(name, tmp_path), **{COUNT: "4"})
    assert spec is not None
    assert spec.option(COUNT) == "4"
    assert spec.option("hoodie.bucket.index.hash.field") == "id"


@pytest.mark.parametrize("name", HUDI)
@pytest.mark.parametrize("count", ["256", "8", "5"])
def test_a_wrong_count_is_refused_and_the_right_one_named(tmp_path: Path, name: str, count: str) -> None:
    with pytest.raises(TableCorruptError, match=f"does not belong with {count} buckets") as caught:
        index_of(unpack_table(name, tmp_path), **{COUNT: count})
    assert caught.value.hint is not None
    assert f"{COUNT}=4 would fit" in caught.value.hint


def test_too_small_a_count_is_seen_in_the_file_ids(tmp_path: Path) -> None:
    with pytest.raises(TableCorruptError, match="is bucket 3, but the table is bound to 3 buckets"):
        index_of(unpack_table("h120_v6_bucket", tmp_path), **{COUNT: "3"})


def test_a_table_of_another_index_is_no_bucket_table(tmp_path: Path) -> None:
    with pytest.raises(TableCorruptError):
        index_of(unpack_table("h120_v6_main", tmp_path), **{COUNT: "99999999"})


def test_other_indexes_and_bound_tables_are_left_alone(tmp_path: Path) -> None:
    folder = unpack_table("h120_v6_bucket", tmp_path)
    assert index_of(folder, **{"hoodie.index.type": "BLOOM"}) is None
    table = bucket_table(tmp_path)
    assert index_of(Path(table.uri)) is None


@pytest.mark.parametrize(
    ("option", "text", "why"),
    [
        ("hoodie.bucket.index.hash.field", "name", "is no field of the record key"),
        ("hoodie.bucket.index.partition.expressions", "(,4", "cannot hold"),
    ],
)
def test_bad_options_bind_nothing(tmp_path: Path, option: str, text: str, why: str) -> None:
    folder = unpack_table("h120_v6_bucket", tmp_path)
    with pytest.raises(OptionError, match=why):
        index_of(folder, **{option: text})
    assert not (folder / ".hoodie" / ".lakeindex" / "table.json").exists()


def colon_rows(numbers: range, ts: int = 1) -> list[Row]:
    return [Row(f"a:{n}", "x", ts, str(ts)) for n in numbers]


def as_hudis(table: LakeTable) -> Path:
    """The same table, as if nothing of ours were bound to it."""
    folder = Path(table.uri)
    (folder / ".hoodie" / ".lakeindex" / "table.json").unlink()
    properties = folder / ".hoodie" / "hoodie.properties"
    lines = [line for line in properties.read_text().splitlines() if not line.startswith("lakeindex.")]
    properties.write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("rule", list(KeyRule))
def test_the_rule_is_bound_as_stored_keys_show(tmp_path: Path, rule: KeyRule) -> None:
    table = bucket_table(tmp_path, lakeindex__bucket__key__rule=rule.value)
    upsert(table, colon_rows(range(40)), "first")
    folder = as_hudis(table)
    spec = index_of(folder, **{COUNT: "4"})
    assert spec is not None
    assert spec.option(RULE) == rule.value
    with pytest.raises(OptionError, match="stored keys were placed as Hudi"):
        index_of(folder, **{COUNT: "4", RULE: rule.other.value})
    summary = upsert(table, colon_rows(range(30, 60), 2), "second", {**SAY, COUNT: "4"})
    assert (summary.updates, summary.inserts) == (10, 20)


def rebind(table: LakeTable, **options: str) -> None:
    """Pretend that another writer wrote the table by other rules."""
    path = Path(table.uri) / ".hoodie" / ".lakeindex" / "table.json"
    bound = json.loads(path.read_text())
    bound["index_options"].update({key.replace("__", "."): text for key, text in options.items()})
    path.write_text(json.dumps(bound))


def test_a_key_of_the_other_release_is_refused_and_never_doubled(tmp_path: Path) -> None:
    table = bucket_table(tmp_path)
    upsert(table, colon_rows(range(40)), "first")
    rebind(table, lakeindex__bucket__key__rule="0.15")
    with pytest.raises(TableCorruptError, match=r"key 'a:\d+' is stored in bucket \d, where Hudi 1\.x puts it"):
        upsert(table, colon_rows(range(5), 2), "second")
    report = table.check()
    assert {one.kind.value for one in report.violations} == {"bucket"}


def test_a_wrong_count_is_refused_at_the_look_up(tmp_path: Path) -> None:
    table = bucket_table(tmp_path)
    upsert(table, rows(0, 40), "first")
    rebind(table, hoodie__bucket__index__num__buckets="8")
    with pytest.raises(LakeIndexError, match="its bucket is another one of 8"):
        upsert(table, rows(0, 80, 2), "second")
    assert {one.kind.value for one in table.check().violations} == {"bucket"}


def test_two_groups_of_a_bucket_are_found(tmp_path: Path) -> None:
    table = bucket_table(tmp_path, 1)
    upsert(table, rows(0, 10, days="x"), "first")
    file = next((Path(table.uri) / "x").glob("*.parquet"))
    twin = file.with_name("00000000-aaaa" + file.name[13:])
    stored = pq.read_table(file)
    named = stored.set_column(4, "_hoodie_file_name", pa.array([twin.name] * len(stored)))
    pq.write_table(named.slice(0, 0), twin)
    kinds = {one.kind.value for one in table.check().violations}
    assert "bucket" in kinds
    with pytest.raises(TableCorruptError, match="has two file groups"):
        upsert(table, rows(0, 10, 2, "x"), "second")


def test_stored_keys_are_hashed_by_the_named_fields(tmp_path: Path) -> None:
    keys = pa.array(["id:1,day:x", "id:2,day:x"])
    by_id = bucket_ids(keys, 64, BucketLayout(64, fields=("id",)))
    assert by_id.tolist() != bucket_ids(keys, 64, BucketLayout(64, fields=("day",))).tolist()
    assert len(set(bucket_ids(keys, 64, BucketLayout(64, fields=("day",))).tolist())) == 1
