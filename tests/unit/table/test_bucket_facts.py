"""Another writer's bucket table: bound only if its stored keys agree with the options; and what later turns out is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.commit.services.metadata_service import build_metadata_table
from lakeindex.errors import LakeIndexError, OptionError, TableCorruptError, TableUnsupportedError, UsageError
from lakeindex.index.bucket import bucket_ids
from lakeindex.index.bucket_options import BucketLayout, KeyRule
from lakeindex.model import BaseFile, IndexSpec, IndexType
from lakeindex.options.parse import parse_options
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from lakeindex.table.index_inference import are_buckets, index_of_stored
from tests.builders import Row, as_hudis, batch_of, make_table
from tests.unit.operations.test_rescaling import bucket_table, rows, upsert
from tests.vectors_support import unpack_table

COUNT, RULE = "hoodie.bucket.index.num.buckets", "lakeindex.bucket.key.rule"
FIELDS, RULES = "hoodie.bucket.index.hash.field", "hoodie.bucket.index.partition.expressions"
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


def test_bound_tables_are_left_alone(tmp_path: Path) -> None:
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


def test_blanks_in_lists_of_options_are_no_other_lists(tmp_path: Path) -> None:
    """The text that a table was created with, or the same with blanks, is what it is bound to."""
    texts = {FIELDS: (" id , name ", "id,name"), RULES: (" eu , 2 ; us,3 ; ", "eu,2;us,3")}
    given = [{key: several[place] for key, several in texts.items()} for place in (0, 1)]
    for number, made in enumerate(given):
        table = make_table(tmp_path / str(number), keys=("id", "name"), schema=NAMED, hoodie__index__type="BUCKET",
                           **{key.replace(".", "__"): text for key, text in made.items()})  # fmt: skip
        for options in given:
            table.upsert(NAMED.empty_table(), options=options)
        binding = Table.open(open_storage(table.uri)).binding
        assert binding is not None
        assert {key: binding.index.option(key) for key in texts} == given[1]
    with pytest.raises(OptionError, match="a rule is"):
        make_table(
            tmp_path / "bad", hoodie__index__type="BUCKET", hoodie__bucket__index__partition__expressions="a;b,1"
        )


MERGE = {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}
NAMED = pa.schema([("id", "string"), ("name", "string"), ("day", "string"), ("ts", "int64")])


def shown(folder: Path, **options: str) -> IndexSpec | None:
    """What the table's files show, where the options do not name the type."""
    table = Table.open(open_storage(str(folder)))
    return index_of_stored(table, table.snapshot(), parse_options({**MERGE, **options}))


@pytest.mark.parametrize("name", HUDI)
def test_hudis_buckets_are_taken_without_an_option(tmp_path: Path, name: str) -> None:
    spec = shown(unpack_table(name, tmp_path))
    assert spec is not None
    assert (spec.index_type, spec.option(COUNT), spec.option(FIELDS)) == (IndexType.BUCKET, "4", "id")


@pytest.mark.parametrize("name", HUDI)
@pytest.mark.parametrize("option", [COUNT, RULES])
def test_bucket_options_alone_ask_for_buckets(tmp_path: Path, name: str, option: str) -> None:
    text = {COUNT: "8", RULES: "nowhere,8"}[option]
    with pytest.raises(TableCorruptError, match=r"does not belong with (8|256) buckets"):
        shown(unpack_table(name, tmp_path), **{option: text})


@pytest.mark.parametrize("name", HUDI)
@pytest.mark.parametrize("index_type", [one for one in IndexType if one is not IndexType.BUCKET])
def test_no_other_index_is_taken_on_buckets(tmp_path: Path, name: str, index_type: IndexType) -> None:
    folder = unpack_table(name, tmp_path)
    with pytest.raises(OptionError, match=rf"cannot be {index_type}: the file groups .* are buckets") as caught:
        LakeTable(str(folder)).upsert(
            pa.table({"id": ["a"]}), options={**MERGE, "hoodie.index.type": index_type.value}, batch_id="b"
        )
    assert caught.value.hint is not None
    assert f"lakeindex index migrate TABLE --to {index_type}" in caught.value.hint
    assert not (folder / ".hoodie" / ".lakeindex" / "table.json").exists(), "nothing is bound"


def lone_bucket(folder: Path, count: int, numbers: range) -> Path:
    """Hudi's table of those keys alone that one bucket of a larger table has."""
    table = bucket_table(folder, count)
    keys = pa.array([f"k{n:05}" for n in numbers])
    homes = bucket_ids(keys, count, BucketLayout(count, fields=("id",)))
    chosen = keys.filter(pa.array(homes == 1)).to_pylist()
    upsert(table, [Row(str(key), "x", 1, "v") for key in chosen], "first")
    return as_hudis(table)


def test_a_count_that_few_keys_leave_open_is_asked_for(tmp_path: Path) -> None:
    folder = lone_bucket(tmp_path, 12, range(20))
    with pytest.raises(OptionError, match="do not tell with how many buckets") as caught:
        shown(folder)
    assert caught.value.culprit == COUNT
    assert "12" in (caught.value.hint or "")
    spec = shown(folder, **{COUNT: "12"})
    assert spec is not None
    assert spec.option(COUNT) == "12"


def test_many_keys_tell_the_count_from_one_bucket(tmp_path: Path) -> None:
    spec = shown(lone_bucket(tmp_path, 12, range(900)))
    assert spec is not None
    assert spec.option(COUNT) == "12"


DEVICES = [Row(f"dev{n}", f"d{day}", 1, "v") for n in (2, 3, 4) for day in range(20)]
IN_SEQUENCE = [Row(f"k1{n:02}", "x", 1, "v") for n in range(60)]


@pytest.mark.parametrize(
    ("count", "batch"),
    [(4, DEVICES), (4096, IN_SEQUENCE)],
    ids=["the same few keys in every partition", "keys in sequence"],
)
def test_many_rows_of_few_hashes_leave_the_count_open(tmp_path: Path, count: int, batch: list[Row]) -> None:
    """Multiples of the count fit them by chance: none of them may be bound for it."""
    table = bucket_table(tmp_path, count)
    upsert(table, batch, "first")
    folder = as_hudis(table)
    with pytest.raises(OptionError, match="do not tell with how many buckets") as caught:
        shown(folder)
    assert caught.value.culprit == COUNT
    spec = shown(folder, **{COUNT: str(count)})
    assert spec is not None
    assert spec.option(COUNT) == str(count)


def test_a_field_of_one_value_does_not_tell_the_count_of_one_bucket(tmp_path: Path) -> None:
    table = make_table(
        tmp_path / "t",
        keys=("id", "day"),
        hoodie__index__type="BUCKET",
        hoodie__bucket__index__num__buckets="1",
    )
    upsert(table, [Row(f"k{n}", "x", 1, "v") for n in range(60)], "first")
    folder = as_hudis(table)
    with pytest.raises(OptionError, match="do not tell with how many buckets") as caught:
        shown(folder)
    assert "; 1, " in (caught.value.hint or "")
    spec = shown(folder, **{FIELDS: "id,day"})
    assert spec is not None
    assert spec.option(COUNT) == "1"


def test_partitions_with_counts_of_their_own_are_asked_for(tmp_path: Path) -> None:
    table = bucket_table(tmp_path, 4, hoodie__bucket__index__partition__expressions="^y$,7")
    upsert(table, [Row(f"k{n}", "xy"[n % 2], 1, "v") for n in range(200)], "first")
    folder = as_hudis(table)
    with pytest.raises(OptionError, match="no single bucket count") as caught:
        shown(folder)
    assert "x: 4, y: 7" in (caught.value.hint or "")
    spec = shown(folder, **{COUNT: "4", RULES: "^y$,7"})
    assert spec is not None
    assert spec.option(RULES) == "^y$,7"


@pytest.mark.parametrize("field", ["id", "day", "id,day"])
@pytest.mark.parametrize("counted", [False, True])
def test_the_hashed_fields_show_in_the_keys(tmp_path: Path, field: str, counted: bool) -> None:
    table = make_table(
        tmp_path / "t",
        keys=("id", "day"),
        hoodie__index__type="BUCKET",
        hoodie__bucket__index__num__buckets="5",
        hoodie__bucket__index__hash__field=field,
    )
    upsert(table, [Row(f"k{n}", f"d{n % 9}", 1, "v") for n in range(120)], "first")
    spec = shown(as_hudis(table), **({COUNT: "5"} if counted else {}))
    assert spec is not None
    assert (spec.option(COUNT), spec.option(FIELDS)) == ("5", field)


def test_an_upsert_without_options_goes_into_the_buckets(tmp_path: Path) -> None:
    table = bucket_table(tmp_path, 5)
    upsert(table, rows(0, 60), "first")
    folder = as_hudis(table)
    groups = {path.name[:36] for path in folder.rglob("*.parquet")}
    summary = upsert(LakeTable(str(folder)), rows(40, 80, 2), "second")
    assert (summary.updates, summary.inserts) == (20, 20)
    assert {path.name[:36] for path in folder.rglob("*.parquet")} == groups
    bound = Table.open(open_storage(str(folder))).index()
    assert bound is not None
    assert bound.option(COUNT) == "5"


@pytest.mark.parametrize(("name", "expected"), [("h120_v6_main", "BLOOM"), ("h0150_v6_main", "BLOOM")])
def test_filters_in_the_footers_show_bloom(tmp_path: Path, name: str, expected: str) -> None:
    spec = shown(unpack_table(name, tmp_path))
    assert spec is not None
    assert spec.index_type == expected


def test_files_without_filters_are_looked_up_by_their_keys(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    upsert(table, rows(0, 20), "first")
    folder = as_hudis(table)
    for path in folder.rglob("*.parquet"):
        pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
    spec = shown(folder)
    assert spec is not None
    assert spec.index_type is IndexType.SIMPLE


def test_a_filter_in_any_file_that_is_looked_at_shows_bloom(tmp_path: Path) -> None:
    """The first, the last and one in the middle: another writer's insert may have made files without."""
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row(day, day, 1, "v") for day in "xyz"]))
    folder = as_hudis(table)
    whole = {path: path.read_bytes() for path in folder.glob("[xyz]/*.parquet")}
    assert len(whole) == 3
    for kept in (None, *whole):
        for path, data in whole.items():
            path.write_bytes(data)
            if path != kept:
                pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
        spec = shown(folder)
        assert spec is not None
        assert spec.index_type is (IndexType.SIMPLE if kept is None else IndexType.BLOOM), kept


def test_a_record_index_and_an_empty_table_do_not_tell(tmp_path: Path) -> None:
    empty = as_hudis(make_table(tmp_path / "empty"))
    with pytest.raises(OptionError, match="has no file yet") as caught:
        shown(empty)
    assert caught.value.culprit == "hoodie.index.type"
    assert shown(empty, **{"hoodie.index.type": "GLOBAL_BLOOM"}) == IndexSpec(IndexType.GLOBAL_BLOOM)
    table = make_table(tmp_path / "recorded")
    upsert(table, rows(0, 20), "first")
    folder = as_hudis(table)
    build_metadata_table(Table.open(open_storage(str(folder))))
    properties = folder / ".hoodie" / "hoodie.properties"
    text = properties.read_text()
    for said in (
        "partitions=files,record_index",
        "partitions=files\nhoodie.table.metadata.partitions.inflight=record_index",
    ):
        properties.write_text(text.replace("partitions=files", said))  # there, or still being built
        with pytest.raises(OptionError, match="record index") as caught:
            shown(folder)
        assert "RECORD_INDEX" in (caught.value.hint or "")
    assert shown(folder, **{"hoodie.index.type": "BLOOM"}) == IndexSpec(IndexType.BLOOM)


def test_consistent_hashing_is_refused_by_name(tmp_path: Path) -> None:
    folder = unpack_table("h120_v6_bucket", tmp_path)
    rings = folder / ".hoodie" / ".bucket_index" / "consistent_hashing_metadata" / "us"
    rings.mkdir(parents=True)
    (rings / "00000000000000.hashing_meta").write_text("{}")
    for options in ({}, {"hoodie.index.type": "BUCKET", COUNT: "4"}):
        with pytest.raises(TableUnsupportedError, match="CONSISTENT_HASHING"):
            shown(folder, **options)


def note_buckets(folder: Path, expressions: str, instant: str = "00000000000000", **others: object) -> Path:
    """As Hudi 1.1 and later note counts of buckets by partition."""
    noted = folder / ".hoodie/.bucket_index/partition_bucket_index_meta/configs" / f"{instant}.hashing_config"
    said = {"expressions": expressions, "defaultBucketNumber": 4, "rule": "regex", "version": 1, "instant": instant}
    noted.parent.mkdir(parents=True, exist_ok=True)
    noted.write_text(json.dumps(said | others))
    return noted


def test_counts_by_partition_that_hudi_has_noted_are_bound(tmp_path: Path) -> None:
    """No key of a partition to come shows them; those of a rescaling that is pending do not count."""
    folder = unpack_table("h120_v6_bucket", tmp_path)
    note_buckets(folder, r"^2027, 16;")
    note_buckets(folder, r"^2027,32", "30000101000000000")
    (folder / ".hoodie" / "30000101000000000.replacecommit.requested").write_bytes(b"")
    spec = shown(folder)
    assert spec is not None
    assert (spec.option(COUNT), spec.option(RULES)) == ("4", "^2027,16")
    assert shown(folder, **{RULES: "^2027,16"}) == spec
    with pytest.raises(OptionError, match=r"configs/00000000000000.hashing_config says \^2027,16"):
        shown(folder, **{RULES: "^2027,8"})
    with pytest.raises(OptionError, match="cannot be BLOOM"):
        shown(folder, **{"hoodie.index.type": "BLOOM"})
    note_buckets(folder, "x", rule="glob")
    with pytest.raises(TableUnsupportedError, match="rules of the type 'glob'"):
        shown(folder)
    note_buckets(folder, "x").write_text("{}")
    with pytest.raises(TableCorruptError, match="hashing_config is damaged"):
        shown(folder)


def test_what_hudi_has_noted_since_is_not_passed_over(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets="4")
    table.upsert(batch_of([Row("a", "x", 1, "1")]))
    noted = note_buckets(Path(table.uri), "^y$,2")
    with pytest.raises(TableUnsupportedError, match=r"partition.expressions=nothing, and .*says \^y\$,2"):
        table.upsert(batch_of([Row("b", "y", 1, "1")]))
    assert len(table.history()) == 1
    with pytest.raises(TableUnsupportedError, match=r"`lakeindex rescale TABLE`, without counts"):
        table.rescale(partitions={"x": 2}, progress=False)
    assert table.rescale(progress=False).partitions == ()  # the cure: no partition has another count since
    table.upsert(batch_of([Row(f"b{n}", "y", 1, "1") for n in range(9)]))
    assert {one.file_id[:8] for one in table.files() if one.partition == "y"} == {"00000000", "00000001"}
    note_buckets(Path(table.uri), "^[a-x]$,2", "00000000000001", defaultBucketNumber=3)
    assert {one.partition for one in table.rescale(progress=False).partitions} == {"x", "y"}
    assert table.rescale(progress=False).noop
    table.upsert(batch_of([Row(f"b{n}", "y", 2, "2") for n in range(9)]))
    table.delete(where="day = 'y'")
    noted.unlink()
    noted.with_name("00000000000001.hashing_config").unlink()
    with pytest.raises(UsageError, match="either --buckets or --partition"):
        table.rescale(progress=False)
    table.rescale(4, progress=False)
    table.rescale(partitions={"x": 2}, progress=False)
    note_buckets(Path(table.uri), "^x$,2")
    table.upsert(batch_of([Row("b", "y", 1, "1")]))
    with pytest.raises(TableUnsupportedError, match=r"num.buckets=8, and .*hashing_config, .* says 4"):
        table.rescale(8, progress=False)
    assert table.read(meta=False).num_rows == 2


def test_what_the_properties_say_counts(tmp_path: Path) -> None:
    folder = as_hudis(make_table(tmp_path / "t"))
    with (folder / ".hoodie" / "hoodie.properties").open("a") as properties:
        properties.write(f"hoodie.index.type=BUCKET\n{COUNT}=7\n")
    spec = shown(folder)
    assert spec is not None
    assert (spec.index_type, spec.option(COUNT)) == (IndexType.BUCKET, "7")
    with pytest.raises(OptionError, match="the table's properties say 7"):
        shown(folder, **{COUNT: "8"})


@pytest.mark.parametrize(
    ("ids", "buckets"),
    [
        (["00000003-aaaa", "00000000-bbbb"], True),
        (["48213377-aaaa"], False),
        (["48213377-aaaa", "00000001-bbbb"], False),
        (["10000000-a", "20000000-a", "30000000-a", "40000000-a"], True),
        (["00000003-aaaa", "4821ab77-bbbb"], False),
        ([], False),
    ],
)
def test_bucket_file_ids_are_told_from_random_ones(ids: list[str], buckets: bool) -> None:
    assert are_buckets([BaseFile("p", one, "20260101000000000", "0-0-0") for one in ids]) is buckets


def colon_rows(numbers: range, ts: int = 1) -> list[Row]:
    return [Row(f"a:{n}", "x", ts, str(ts)) for n in numbers]


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
