"""Paths and URLs as people write them: one function reads them all, and every door goes through it."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import lakeindex
from lakeindex.errors import OptionError
from lakeindex.runners.jobs import run_spec
from lakeindex.storage import is_local_disk, is_on_this_machine, open_storage
from lakeindex.storage.local import LocalStorage
from lakeindex.storage.paths import absolute, file_uri, plain
from lakeindex.tasks.stores import storage_at
from tests.builders import Row, batch_of, make_table
from tests.cli_support import lakeindex as command


def test_each_spelling_is_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    here = str(tmp_path.resolve())
    spellings = {
        "t": f"{here}/t",
        ".": here,
        "./t/.": f"{here}/t",
        "t//u/": f"{here}/t/u",
        "t/../u": f"{here}/u",
        "/data/../t/": "/t",
        "//data//t": "/data/t",
        "~": "/home/somebody",
        "~/lake/t": "/home/somebody/lake/t",
        "./~/t": f"{here}/~/t",
        "a~b": f"{here}/a~b",
        "file:/data/t": "/data/t",
        "file:///data/a%20b%2Fc/": "/data/a b/c",
        "file://localhost/data/t": "/data/t",
        "FILE:///data/t/.": "/data/t",
        Path("/data/a b %41 ä#?").as_uri(): "/data/a b %41 ä#?",
        "/data/a%20b": "/data/a%20b",
        "day:1/t": f"{here}/day:1/t",
        "12:/t": f"{here}/12:/t",
        "x/s3://b": f"{here}/x/s3:/b",
        "s3://bucket": "s3://bucket",
        "s3://bucket/a/./b//c/": "s3://bucket/a/b/c",
        "s3://bucket/a/../b": "s3://bucket/b",
        "S3://Bucket/T": "s3://Bucket/T",
        "s3:/bucket/t": "s3://bucket/t",
        "s3a:/bucket/t": "s3a://bucket/t",
        "s3://bucket/a%20b": "s3://bucket/a%20b",
        "gs:/bucket/t": "gs://bucket/t",
        "az:/container/t": "az://container/t",
        "abfss://c@a.dfs.core.windows.net/t/": "abfss://c@a.dfs.core.windows.net/t",
        "abfss:/c@a.dfs.core.windows.net/t": "abfss://c@a.dfs.core.windows.net/t",
        "hdfs:///t": "hdfs:///t",
        "hdfs:/lake/t": "hdfs:///lake/t",
        "hdfs:/namenode:8020/t": "hdfs://namenode:8020/t",
        "hdfs://namenode:8020/t/": "hdfs://namenode:8020/t",
        "memory:/lake/t": "memory://lake/t",
    }
    assert {text: plain(text) for text in spellings} == spellings
    again = {text: plain(place) for text, place in spellings.items()}
    assert again == spellings, "what was read is read again as the same"
    assert plain("t", "/base") == "/base/t"
    assert plain("s3:/b/t", "/base") == "s3://b/t"
    for url in ("s3://bucket/t", "hdfs:///lake/t", "hdfs://nn:8020/t", "memory://lake", "gs://b/t"):
        assert plain(Path(url)) == url, "pathlib takes one of the two slashes away"


def test_what_is_no_place_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    refused = {
        "": "a path",
        "  ": "a path",
        "a\x00b": "a path",
        "file:///a%00b": "this machine",
        "dbfs:/t": "/dbfs",
        "dbfs:///t": "/dbfs",
        "ftp://host/x": "known:",
        "day:/x": "./day:/x",
        "wasbs://c@a.blob.core.windows.net/t": "abfss://",
        "s3n://b/t": "s3://",
        "https://account.blob.core.windows.net/c/t": "az://",
        "webhdfs://nn:9870/t": "hdfs://",
        "gcs://b/t": "gs://",
        "file://host/x": "file:///path",
        "file:x": "file:///path",
        "file:///C:/lake": "file:///path",
        "C:/lake": "WSL",
        "C:\\lake": "WSL",
        "\\\\server\\share": "WSL",
        "s3://": "s3://bucket/path",
        "s3:///t": "s3://bucket/path",
        "s3:bucket/t": "s3://bucket/path",
        "s3://bucket/../../t": "..",
        "memory://": "memory://NAME",
        "~nobody-here/t": "./~nobody-here/t",
    }
    wrong = []
    for text, cure in refused.items():
        for read in (plain, absolute, open_storage, storage_at):
            try:
                read(text)
            except OptionError as error:
                if cure not in str(error.hint) or error.culprit != text:
                    wrong.append((text, str(error)))
            else:
                wrong.append((text, f"{read.__name__} took it"))
    assert wrong == []
    assert list(tmp_path.iterdir()) == []


def test_a_path_with_a_percent_sign_is_the_same_by_its_url(tmp_path: Path):
    """What a store says of itself is what it is opened by again."""
    folder = tmp_path / "a%20b%"
    store = open_storage(str(folder))
    store.write("x%41", b"1")
    assert store.uri == file_uri(str(folder)) == f"file://{tmp_path}/a%2520b%25"
    again = open_storage(store.uri)
    assert isinstance(again, LocalStorage)
    assert (again.root, again.read("x%41")) == (str(folder), b"1")
    assert open_storage(folder.as_uri()).uri == store.uri


def test_links_and_what_is_above_them(tmp_path: Path):
    (tmp_path / "real" / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "below")
    assert plain(tmp_path / "link") == f"{tmp_path}/link"
    assert absolute(tmp_path / "link") == f"{tmp_path}/real/below"
    assert plain(tmp_path / "link" / ".." / "t") == f"{tmp_path}/real/t", "as the system reads it"
    (tmp_path / "round").symlink_to(tmp_path / "round")
    assert absolute(tmp_path / "round").endswith("/round")


def test_what_is_near_goes_by_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    near = {"t": True, "file:/t": True, "~/t": True, "s3:/b/t": False, "hdfs:/t": False}
    assert {text: is_local_disk(text) for text in near} == near
    assert {text: is_on_this_machine(text) for text in near} == near
    assert is_on_this_machine("memory:/x")
    assert not is_local_disk("memory:/x")
    for name in ("one", "other"):
        (tmp_path / name / "t").mkdir(parents=True)
        monkeypatch.chdir(tmp_path / name)
        storage_at("t").write("said", name.encode())
    assert (tmp_path / "other" / "t" / "said").read_bytes() == b"other", "a relative path is one of the folder of now"


def test_a_run_is_at_one_place_however_the_table_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run folders, the lock and the binding of every door are those of the plain path."""
    lake = tmp_path / "a lake"
    table = lake / "t"
    make_table(table)
    (lake / "link").symlink_to(table)
    (tmp_path / "home").symlink_to(lake)
    batch = lake / "new rows.parquet"
    pq.write_table(batch_of([Row("a", "x", 1, "1")]), batch)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(table)
    spellings = (".", "./", "../t/.", "../link", "../../a lake/t", "~/t", table.as_uri(), f"file:{table}", "../link/.")
    there = {"t", "t.lakeindex", "link", batch.name}
    for number, text in enumerate(spellings):
        said = command("upsert", text, batch.as_uri(), "--batch-id", f"b{number}")
        assert said.exit_code == 0, said.stderr
        folder = said.stdout.rsplit("lakeindex report ", 1)[1].strip()
        assert command("report", folder).exit_code == 0
        again = lakeindex.open_table(text).upsert("~/new rows.parquet", batch_id=f"b{number}")
        assert again.noop, "the run of the same batch by the other door"
        given = {"run_id": "r", "batch_id": "b", "max_quarantined": 0, "force": False, "options": ()}
        spec = run_spec(
            table_uri=text, checkpoints_uri="~/t.lakeindex", inputs=(batch.as_uri(),), operation="UPSERT", **given
        )
        assert (spec.table_uri, spec.checkpoints_uri) == (str(table), f"{table}.lakeindex")
        assert spec.inputs == (str(batch),)
        assert {path.name for path in lake.iterdir()} == there, text
        report = lakeindex.open_table(text).report()
        assert report.run.batch_id == f"b{number}"
        assert command("report", text, "--json").json["run"]["run_id"] == report.run.run_id
    out = f"{tmp_path.as_uri()}/a%20file.parquet"
    assert command("read", "../link", "--out", out).exit_code == 0
    assert pq.read_table(tmp_path / "a file.parquet").num_rows == 1
    assert command("create", "~/u", "--like", batch.as_uri(), "--key", "id").exit_code == 0
    assert (lake / "u" / ".hoodie").is_dir()
    assert not any(path.name.startswith("..") for path in table.iterdir())


def test_a_table_is_never_made_in_a_folder_called_as_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    batch = tmp_path / "rows.parquet"
    pq.write_table(batch_of([Row("a", "x", 1, "1")]), batch)
    for text in ("dbfs:/t", "wasbs://c@a/t", "C:/t", "~nobody-here/t"):
        said = command("create", text, "--like", str(batch), "--key", "id", "--json")
        assert said.error["exit_code"] == 2
        for write in (
            ("upsert", text, batch),
            ("inspect", text),
            ("tables", text),
            ("read", text, "--out", "x.parquet"),
        ):
            assert command(*write).exit_code == 2, (write, command(*write))
    assert [path.name for path in tmp_path.iterdir()] == [batch.name]
    make_table(tmp_path / "t")
    for more in (("dbfs:/rows.parquet",), (batch, "--checkpoints", "dbfs:/runs")):
        assert command("upsert", tmp_path / "t", *more).exit_code == 2
    lock = (
        "-o",
        "hoodie.write.lock.provider=FileSystemBasedLockProvider",
        "-o",
        "hoodie.write.lock.filesystem.path=dbfs:/l",
    )
    assert command("upsert", tmp_path / "t", batch, *lock).exit_code == 2
    assert not (tmp_path / "dbfs:").exists()
