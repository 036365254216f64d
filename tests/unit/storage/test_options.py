"""Stores' options belong to a table handle: two handles of one process never meet, and no secret leaves task memory."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pyarrow as pa
import pytest

import lakeindex
from lakeindex.api.table import LakeTable
from lakeindex.errors import OptionError
from lakeindex.options.parse import parse_create_options
from lakeindex.options.types import ReportFormat
from lakeindex.storage import NO_OPTIONS, StoreOptions, current_options, open_storage, using
from lakeindex.storage.objects import ObjectStorage
from lakeindex.table.create import CreateSpec, create_table
from lakeindex.tasks.stores import storage_at
from lakeindex.write.types.avro_schema import schema_to_avro
from scripts.ports import free_port
from tests.builders import SCHEMA, Row, batch_of
from tests.moto_server import moto_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUCKET = "lake"
SECRET = "wJalrXUtnFEMI-a-secret-of-"


@contextmanager
def moto_process() -> Iterator[str]:
    """An S3 server in a process of its own: servers of one process share their buckets."""
    port = free_port()
    command = [str(Path(sys.executable).parent / "moto_server"), "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/", timeout=1):
                    break
            except OSError:
                process.poll()
                threading.Event().wait(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=30)


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, str]]:
    """Two S3 servers with a bucket of one name."""
    with ExitStack() as stack:
        endpoints = {"prod": stack.enter_context(moto_process()), "test": stack.enter_context(moto_here())}
        for name in endpoints:
            client(endpoints, name).create_bucket(Bucket=BUCKET)
        yield endpoints


def client(servers: dict[str, str], name: str) -> boto3.client:
    return boto3.client(
        "s3", endpoint_url=servers[name], region_name="us-east-1", aws_access_key_id="k", aws_secret_access_key="s"
    )


def options(servers: dict[str, str], name: str) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": servers[name],
        "AWS_REGION": "us-east-1",
        "aws_access_key_id": f"key-{name}",
        "aws_secret_access_key": SECRET + name,
    }


def made(servers: dict[str, str], name: str, folder: str, index: str = "BLOOM") -> LakeTable:
    uri = f"s3://{BUCKET}/{folder}"
    given = options(servers, name)
    config = parse_create_options({"hoodie.index.type": index})
    spec = CreateSpec("t", SCHEMA.names, ("id",), ("day",), ("ts",), config, schema_to_avro(SCHEMA, "t"))
    with using(StoreOptions.of(given)):
        create_table(open_storage(uri), spec)
    return lakeindex.open_table(uri, given)


def keys_of(table: LakeTable) -> set[object]:
    return set(table.read(meta=True).column("id").to_pylist())


def rows(name: str, number: int) -> pa.Table:
    return batch_of([Row(f"{name}-{number}-{n}", f"d{n % 2}", 1, name) for n in range(5)])


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)


@pytest.mark.few(0)
def test_two_handles_of_one_url_write_to_their_own_stores_at_the_same_time(servers: dict[str, str]):
    before = dict(os.environ)
    tables = {name: made(servers, name, "both", "INMEMORY") for name in servers}
    failed: list[BaseException] = []

    def write(name: str) -> None:
        try:
            for number in range(2):
                tables[name].upsert(rows(name, number), batch_id=f"b{number}")
        except BaseException as error:  # noqa: BLE001 - told below
            failed.append(error)

    threads = [threading.Thread(target=write, args=(name,)) for name in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    for name, table in tables.items():
        assert keys_of(table) == {f"{name}-{number}-{n}" for number in range(2) for n in range(5)}
        assert table.upsert(rows(name, 1)).updates == 5
        assert table.check().ok
        assert table.get([f"{name}-0-0"]).missing == ()
    assert dict(os.environ) == before


def test_the_environment_counts_where_the_handle_says_nothing(servers: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    table = made(servers, "test", "half")
    for name, value in options(servers, "prod").items():
        monkeypatch.setenv(name.upper(), value)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", servers["prod"])  # counts for more than AWS_ENDPOINT_URL
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-prod")
    half = lakeindex.open_table(table.uri, {"aws_endpoint_url": servers["test"]})
    half.upsert(rows("test", 0))
    assert len(keys_of(table)) == 5
    listed = client(servers, "prod").list_objects_v2(Bucket=BUCKET, Prefix="half/")
    assert listed["KeyCount"] == 0
    with pytest.raises(lakeindex.errors.TableNotFoundError):
        lakeindex.open_table(table.uri)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", servers["test"])
    assert len(keys_of(lakeindex.open_table(table.uri))) == 5  # the store that was opened before is another one


def test_rows_come_from_the_handle_s_store_in_every_form(servers: dict[str, str]):
    table = made(servers, "test", "forms")
    table.upsert(rows("test", 0))
    for scan in (table.scan(), table.scan(where="ts = 1")):
        forms: dict[str, Callable[[], int]] = {
            "arrow": lambda scan=scan: scan.to_arrow().num_rows,
            "batches": lambda scan=scan: scan.to_batches().read_all().num_rows,
            "head": lambda scan=scan: scan.head().num_rows,
            "pandas": lambda scan=scan: len(scan.to_pandas()),
            "polars": lambda scan=scan: scan.to_polars().collect().height,
            "duckdb": lambda scan=scan: len(scan.to_duckdb().fetchall()),
            "dataset": lambda scan=scan: scan.to_dataset().to_table().num_rows,
            "count": scan.count,
            "analyzed": lambda scan=scan: scan.explain(analyze=True).rows or 0,
            "stream": lambda scan=scan: pa.table(scan).num_rows,
        }
        assert {name: rows_of() for name, rows_of in forms.items()} == dict.fromkeys(forms, 5)
    changes = table.changes()
    assert [one.num_rows for one in (changes.to_arrow(), changes.to_batches().read_all(), pa.table(changes))] == [5] * 3
    assert len(changes.to_pandas()) == 5


def everything_in(servers: dict[str, str], name: str, prefix: str) -> dict[str, bytes]:
    s3 = client(servers, name)
    found = {}
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix):
        for one in page.get("Contents", ()):
            found[one["Key"]] = s3.get_object(Bucket=BUCKET, Key=one["Key"])["Body"].read()
    return found


def test_no_secret_is_left_anywhere(
    servers: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
):
    caplog.set_level("DEBUG")
    table = made(servers, "prod", "secrets")
    summary = table.upsert(rows("a", 0), batch_id="b", report=ReportFormat.HTML)
    with pytest.raises(lakeindex.errors.LakeIndexError) as refused:
        table.upsert(rows("a", 1), batch_id="b")
    found = everything_in(servers, "prod", "secrets")
    assert any(path.endswith("report.html") for path in found)
    assert any(path.endswith("summary.json") for path in found)
    texts = [*found.values(), summary.to_json().encode(), repr(table).encode(), str(refused.value).encode()]
    texts += [repr(storage).encode() for storage in (open_storage(table.uri, StoreOptions.of(table.storage_options)),)]
    out, err = capfd.readouterr()
    texts += [out.encode(), err.encode(), caplog.text.encode(), repr(dict(os.environ)).encode()]
    assert not [text[:200] for text in texts if SECRET.encode() in text or b"key-prod" in text]


@pytest.mark.spark
@pytest.mark.slow  # a session of its own beside two servers
def test_spark_tasks_have_the_options_in_memory_alone(servers: dict[str, str], spark: SparkSession, tmp_path: Path):
    given = Path(str(spark.sparkContext._temp_dir))
    tables = {name: made(servers, name, "spark") for name in servers}
    seen: list[bytes] = []
    real = type(spark.sparkContext)._serialize_to_jvm

    def watched(self, data, serializer, *rest):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN002, ANN202
        listed = list(data)
        seen.append(pickle.dumps(listed))
        return real(self, listed, serializer, *rest)

    type(spark.sparkContext)._serialize_to_jvm = watched
    try:
        for name, table in tables.items():
            frame = spark.createDataFrame(rows(name, 0).to_pandas())
            work = {"lakeindex.spark.driver.bytes": "0"}
            assert table.upsert(frame, runner="spark", options=work).inserts == 5
    finally:
        type(spark.sparkContext)._serialize_to_jvm = real
    assert seen
    assert not [one for one in seen if SECRET.encode() in one]
    assert not [path for path in given.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    for name, table in tables.items():
        assert keys_of(table) == {f"{name}-0-{n}" for n in range(5)}
    settings = repr(spark.sparkContext.getConf().getAll())
    assert SECRET not in settings


def test_options_are_a_value_that_hides_its_secrets():
    given = StoreOptions.of({"AWS_REGION": "eu", "aws_secret_access_key": "s3cr3t", "AWS_ALLOW_HTTP": True})
    assert given["aws_region"] == given["AWS_REGION"] == "eu"
    assert given == StoreOptions.of({"aws_allow_http": "true", "aws_region": "eu", "AWS_SECRET_ACCESS_KEY": "s3cr3t"})
    assert len({given, StoreOptions.of(given)}) == 1
    assert "s3cr3t" not in repr(given)
    assert "s3cr3t" not in repr(LakeTable("t", given))
    assert "'eu'" in repr(given)
    for url in ("http://me:p4ss@host", "http://host?sig=p4ss", "http://host/c?a=b&sig=p4ss"):
        assert "p4ss" not in repr(StoreOptions.of({"aws_endpoint_url": url}))
    assert "http://host/c" in repr(StoreOptions.of({"aws_endpoint_url": "http://host/c"}))
    assert pickle.loads(pickle.dumps(given)) == given
    assert pickle.loads(pickle.dumps(LakeTable("t", given))) == LakeTable("t", given)


@pytest.mark.parametrize(
    "wrong", [{"A": "1", "a": "2"}, {"": "1"}, {"a": None}, {1: "a"}, {"a": b"1"}, {"a": ["s3cr3t"]}]
)
def test_options_that_are_none_are_refused(wrong: dict[object, object]):
    with pytest.raises(OptionError) as refused:
        StoreOptions.of(wrong)
    assert "s3cr3t" not in str(refused.value)


def test_an_option_that_the_store_does_not_know_is_refused_without_its_value():
    with pytest.raises(OptionError, match="nonsense") as refused:
        open_storage("s3://b/t", StoreOptions.of({"nonsense": "s3cr3t"}))
    assert "s3cr3t" not in str(refused.value)


def test_hadoops_settings_keep_their_capitals():
    """Names of services are parts of them, and Hadoop takes notice of the case."""
    given = StoreOptions.of({"dfs.ha.namenodes.ClusterA": "nn1", "AWS_REGION": "eu"})
    assert dict(given) == {"dfs.ha.namenodes.ClusterA": "nn1", "aws_region": "eu"}
    assert given["dfs.ha.namenodes.ClusterA"] == "nn1"
    assert "dfs.ha.namenodes.clustera" not in given


def test_options_of_other_kinds_of_stores_are_left_out():
    given = StoreOptions.of(
        {
            "azure_storage_account_name": "a",
            "dfs.replication": "1",
            "aws_access_key_id": "k",
            "aws_secret_access_key": "s",
        }
    )
    assert isinstance(open_storage("s3://b/t", given), ObjectStorage)


@pytest.mark.parametrize("inherited", ["AWS_SESSION_TOKEN", "AWS_TOKEN"])
@pytest.mark.parametrize("name", ["aws_session_token", "AWS_TOKEN", "session_token", "token"])
def test_a_token_that_is_given_goes_with_its_key_by_any_of_its_names(
    name: str, inherited: str, monkeypatch: pytest.MonkeyPatch
):
    """Under other names than the first it was dropped where the environment has one, too: the store refused the key."""
    from lakeindex.storage.objects import _config, _own_credentials

    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    monkeypatch.setenv(inherited, "of-another-key")
    key = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
    assert _own_credentials("s3", _config("s3", StoreOptions.of(key)))["credential_provider"]()["token"] is None
    given = StoreOptions.of({**key, name: "mine"})
    assert _own_credentials("s3", _config("s3", given)) == {}
    assert isinstance(open_storage("s3://b/t", given), ObjectStorage)


def test_an_endpoint_of_something_else_does_not_decide_about_plain_http():
    from lakeindex.storage.objects import _allow_http

    here, elsewhere = "http://127.0.0.1:1", "http://storage.invalid"
    for name in ("aws_endpoint_url", "endpoint"):
        assert _allow_http("s3", StoreOptions.of({"aws_metadata_endpoint": elsewhere, name: here}))
        assert not _allow_http("s3", StoreOptions.of({"aws_metadata_endpoint": here, name: elsewhere}))


def test_options_end_with_the_call_and_reach_its_tasks_alone():
    given = StoreOptions.of({"aws_region": "x"})
    other: list[StoreOptions] = []
    with using(given):
        thread = threading.Thread(target=lambda: other.append(current_options()))
        thread.start()
        thread.join()
        assert current_options() == given
        with using(NO_OPTIONS):
            assert current_options() == NO_OPTIONS
    assert current_options() == NO_OPTIONS
    assert other == [NO_OPTIONS]
    assert storage_at("memory://options").uri == "memory://options"
