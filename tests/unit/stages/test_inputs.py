"""The batch from files: every format, several files, several buckets; what is wrong with one names the file."""

import bz2
import gzip
import json
from pathlib import Path

import mmh3
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from lakeindex.errors import InputError, QuarantineExceededError, SchemaMismatchError
from lakeindex.options.types import InputFormat, WriteConfig
from lakeindex.run import input_rows
from lakeindex.stages.stage_input import inputs
from lakeindex.stages.stage_input import stage as stage_input
from lakeindex.stages.stage_input import staged_rows as staging
from lakeindex.storage import is_on_this_machine
from lakeindex.storage.local import LocalStorage
from lakeindex.storage.memory import MemoryStorage
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Oracle, Row, batch_of, content_of, counts_of, make_table, rows_of

ROWS = [Row(f"k{n:03d}", f"d{n % 2}", n % 5, f"é,{n}") for n in range(100)]


def write(path: Path, rows: list[Row], kind: str) -> str:
    table = batch_of(rows)
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=10)
    elif kind == "csv":
        pa.csv.write_csv(table, path)
    elif kind.startswith("csv."):
        plain = pa.BufferOutputStream()
        pa.csv.write_csv(table, plain)
        path.write_bytes(PACKED[kind.split(".")[1]](plain.getvalue()))
    else:
        text = "".join(pa_line + "\n" for pa_line in map(json_line, table.to_pylist())).encode()
        path.write_bytes(PACKED[kind.split(".")[1]](text) if "." in kind else text)
    return str(path)


PACKED = {"gz": gzip.compress, "bz2": bz2.compress, "zst": lambda data: pa.compress(data, "zstd", asbytes=True)}


def json_line(row: dict[str, object]) -> str:
    return json.dumps(row, ensure_ascii=False)


@pytest.mark.parametrize("kind", ["parquet", "csv", "csv.gz", "csv.zst", "csv.bz2", "jsonl", "json.zst", "ndjson.gz"])
def test_upsert_of_a_file_of_any_format(tmp_path: Path, kind: str):
    table, oracle = make_table(tmp_path / "t"), Oracle()
    summary = table.upsert(write(tmp_path / f"b.{kind}", ROWS, kind))
    assert counts_of(summary) == oracle.apply(ROWS)
    assert content_of(table) == oracle.content()


def test_upsert_of_several_files_in_several_buckets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stage_input, "_BUCKET_BYTES", 2000)
    monkeypatch.setattr(inputs, "SPLIT_BYTES", 1000)
    table, oracle = make_table(tmp_path / "t"), Oracle()
    folder = tmp_path / "in"
    folder.mkdir()
    later = [Row(r.id, r.day, r.ts, "later") for r in ROWS[::3]]
    write(folder / "a.parquet", ROWS, "parquet")
    write(folder / "b.jsonl", later, "jsonl")
    (folder / "_SUCCESS").touch()
    summary = table.upsert(str(folder))
    assert counts_of(summary) == oracle.apply(ROWS + later)
    assert content_of(table) == oracle.content()


def test_find_inputs_takes_folders_files_and_patterns(tmp_path: Path):
    for name in ("a.parquet", "b.csv", "c.parquet", "C.PARQUET", "D.CSV.GZ"):
        (tmp_path / name).touch()
    asked = (f"{tmp_path}/*.parquet", f"{tmp_path}/b.csv", f"{tmp_path}/D.*", f"{tmp_path}/C.*")
    found = inputs.find_inputs(asked, InputFormat.AUTO)
    assert [f.path for f in found] == ["a.parquet", "c.parquet", "b.csv", "D.CSV.GZ", "C.PARQUET"]
    kinds = [str(inputs.format_of(f, InputFormat.AUTO)) for f in found]
    assert kinds == ["parquet", "parquet", "csv", "csv", "parquet"]


def test_a_folder_is_listed_once_however_many_of_its_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    names = [str(tmp_path / f"{n}.csv") for n in range(5)]
    for name in names:
        Path(name).write_text("id\n")
    (tmp_path / "[0-4].csv").write_text("id\n")
    listings = []
    listed = LocalStorage.list_folder
    monkeypatch.setattr(LocalStorage, "list_folder", lambda self, path: listings.append(path) or listed(self, path))
    assert [f.path for f in inputs.find_inputs(tuple(names), InputFormat.AUTO)] == [f"{n}.csv" for n in range(5)]
    assert listings == [""]
    (named,) = inputs.find_inputs((str(tmp_path / "[0-4].csv"),), InputFormat.AUTO)
    assert named.path == "[0-4].csv"  # the file of that name, not what it would match


def digest_of(path: Path) -> str:
    return inputs.content_digest(inputs.find_batch((str(path),), InputFormat.AUTO, None), LocalRunner(1), WriteConfig())


def test_content_digest_is_of_the_content(tmp_path: Path):
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text("a")
    two.write_text("a")
    assert digest_of(one) == digest_of(two)
    two.write_text("b")
    assert digest_of(one) != digest_of(two)
    assert digest_of(one).startswith("content-1:")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.parquet", b"PAR1 not really"),
        ("x.parquet", b""),
        ("x.csv", b"id,day\n1"),
        ("x.jsonl", b"{broken"),
        ("x.csv.gz", b"no"),
    ],
)
def test_input_that_cannot_be_read_names_the_file(tmp_path: Path, name: str, content: bytes):
    table = make_table(tmp_path / "t")
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        table.upsert(str(path))
    assert caught.value.exit_code == 3
    assert name in str(caught.value.culprit) or isinstance(caught.value, SchemaMismatchError)
    assert rows_of(table) == []


def test_truncated_parquet_input_publishes_nothing(tmp_path: Path):
    table = make_table(tmp_path / "t")
    path = Path(write(tmp_path / "b.parquet", ROWS, "parquet"))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"b\.parquet"):
        table.upsert(str(path))
    assert rows_of(table) == []


def test_input_that_is_not_there_names_it(tmp_path: Path):
    with pytest.raises(InputError, match="nothing-here"):
        make_table(tmp_path / "t").upsert(str(tmp_path / "nothing-here.parquet"))


def test_quarantined_rows_are_kept_with_their_reason(tmp_path: Path):
    table = make_table(tmp_path / "t")
    batch = pa.table(
        {
            "id": [None, "a", "", "b", "c"],
            "day": ["x", "x", "x", "../up", "x"],
            "ts": pa.array([1, 1, 1, 1, None], pa.int64()),
            "v": ["1", "2", "3", "4", "5"],
        }
    )
    with pytest.raises(QuarantineExceededError, match="4 bad rows, 0 allowed") as caught:
        table.upsert(batch)
    kept = pq.read_table(str(caught.value.culprit).removeprefix("file://"))
    assert kept.column("_li_row").to_pylist() == [0, 2, 3, 4]
    assert all(kept.column("_li_reason").to_pylist())
    assert rows_of(table) == []
    summary = table.upsert(batch, max_quarantined=4)
    assert (summary.quarantined, summary.inserts) == (4, 1)
    assert [r["id"] for r in rows_of(table)] == ["a"]


@pytest.mark.parametrize(
    ("columns", "culprit"),
    [
        ({"id": ["a"], "day": ["x"], "ts": [1]}, "v"),
        ({"id": ["a"], "day": ["x"], "ts": [1], "v": ["1"], "extra": [1]}, "extra"),
        ({"id": ["a"], "day": ["x"], "ts": ["one"], "v": ["1"]}, "ts"),
        ({"id": ["a"], "day": ["x"], "ts": [1.5], "v": ["1"]}, "ts"),
        ({"id": ["a"], "day": ["x"], "ts": [1], "v": ["1"], "_hoodie_is_deleted": ["yes"]}, "_hoodie_is_deleted"),
    ],
)
def test_batch_that_does_not_fit_names_the_column(tmp_path: Path, columns: dict[str, list[object]], culprit: str):
    table = make_table(tmp_path / "t")
    with pytest.raises(SchemaMismatchError) as caught:
        table.upsert(pa.table(columns))
    assert (caught.value.exit_code, caught.value.culprit) == (3, culprit)
    assert rows_of(table) == []


@pytest.mark.parametrize(
    ("codec", "place", "expected"),
    [
        ("auto", "", "UNCOMPRESSED"),
        ("auto", "s3://bucket/", "ZSTD"),
        ("auto", "file:///", "UNCOMPRESSED"),
        ("zstd", "", "ZSTD"),
        ("lz4", "", "LZ4"),
        ("uncompressed", "s3://bucket/", "UNCOMPRESSED"),
    ],
)
def test_staged_rows_are_packed_where_they_cross_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str, place: str, expected: str
):
    seen = []
    monkeypatch.setattr(staging, "is_on_this_machine", lambda uri: seen.append(uri) or is_on_this_machine(place + "x"))
    table = make_table(tmp_path / "t")
    table.upsert(batch_of(ROWS), options={"lakeindex.staged.codec": codec})
    (staged,) = tmp_path.glob("t.lakeindex/*/stage_input/*/staged/*.parquet")
    group = pq.read_metadata(staged).row_group(0)
    assert {group.column(c).compression for c in range(group.num_columns)} == {expected}
    assert (seen != []) is (codec == "auto")


def test_what_staged_rows_take_in_base_files_is_estimated_from_some_of_them(tmp_path: Path):
    n = 60_000
    texts = [mmh3.hash_bytes(str(i)).hex()[:9] for i in range(n)]
    batch = pa.table({"id": [f"k{i:08d}" for i in range(n)], "day": ["x"] * n, "ts": range(n), "v": texts})
    table = make_table(tmp_path / "t")
    summary = table.upsert(batch)
    estimated = summary.stages[0].counters["staged_column_bytes"]
    (path,) = tmp_path.glob("t/x/*.parquet")
    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
    names = ("_hoodie_record_key", "id", "day", "ts", "v")
    columns = [g.column(c) for g in groups for c in range(g.num_columns)]
    taken = sum(c.total_compressed_size for c in columns if c.path_in_schema in names)
    assert 0.9 * taken < estimated < 1.2 * taken


def test_what_is_hidden_at_any_level_is_no_part_of_a_batch(tmp_path: Path) -> None:
    shown = ["a.csv", "day=1/b.csv", "day=1/x_y.z/c.csv"]
    hidden = [
        "_SUCCESS",
        ".a.csv.crc",
        "_temporary/0/d.csv",
        "day=1/_temporary/d.csv",
        "day=1/.spark/e.csv",
        "day=1/_f.csv",
    ]
    for name in (*shown, *hidden):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("id\n1\n")
    found = inputs.find_inputs((str(tmp_path / "in"),), InputFormat.AUTO)
    assert sorted(one.path for one in found) == shown


def test_every_byte_of_a_large_file_is_in_its_digest() -> None:
    store, size = MemoryStorage.named("large-inputs"), input_rows._HASH_STEP_BYTES + 3
    files = {}
    for at in (None, 0, input_rows._HASH_STEP_BYTES - 1, input_rows._HASH_STEP_BYTES, size - 1):
        data = bytearray(size)
        if at is not None:
            data[at] = 1
        store.write(f"{at}", bytes(data))
        files[at] = inputs.hash_file(inputs.InputFile("memory://large-inputs", f"{at}", size))
    store.restore({})
    assert len(set(files.values())) == len(files)


def test_splits_say_at_which_row_of_their_file_they_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "b.parquet", ROWS[:35], "parquet")
    (file,) = inputs.find_inputs((path,), InputFormat.AUTO)
    monkeypatch.setattr(inputs, "SPLIT_BYTES", 1)
    splits = inputs.split_inputs([file], InputFormat.AUTO)
    assert [(one.first_row_group, one.last_row_group, one.first_row) for one in splits] == [
        (0, 1, 0),
        (1, 2, 10),
        (2, 3, 20),
        (3, 4, 30),
    ]
    monkeypatch.setattr(inputs, "SPLIT_BYTES", file.size_bytes // 2)
    splits = inputs.split_inputs([file], InputFormat.AUTO)
    assert [(one.first_row_group, one.last_row_group, one.first_row) for one in splits] == [(0, 2, 0), (2, 4, 20)]


def test_of_rows_to_delete_only_the_key_is_looked_at(tmp_path: Path) -> None:
    """An export may have other columns, in types that are not the table's."""
    table = make_table(tmp_path / "t")
    table.upsert(batch_of(ROWS[:4]))
    path = tmp_path / "gone.csv"
    path.write_text("id,ts,day,v,more\nk001,yesterday,d1,x,y\nk003,,d1,,\n")
    done = table.delete(str(path))
    assert (done.deletes, done.quarantined) == (2, 0)
    assert sorted(row["id"] for row in rows_of(table)) == ["k000", "k002"]
