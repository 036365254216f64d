"""What is special about object stores."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lakeindex.errors import (
    AccessDeniedError,
    ObjectExistsError,
    ObjectNotFoundError,
    OptionError,
    StorageError,
    UnknownOutcomeError,
    may_pass,
)
from lakeindex.storage import open_storage
from lakeindex.storage.objects import ObjectStorage


def test_prefixes_do_not_see_each_other(moto_env: str) -> None:
    one, other = open_storage(f"{moto_env}/t"), open_storage(f"{moto_env}/t2")
    one.write("x", b"1")
    other.write("y", b"2")
    assert [o.path for o in one.list()] == ["x"]
    assert [o.path for o in open_storage(moto_env).list()] == ["t/x", "t2/y"]


def test_keys_are_not_encoded(moto_env: str) -> None:
    store = open_storage(f"{moto_env}/a b%20")
    store.write("c%2Fd e", b"1")
    assert [one.path for one in open_storage(moto_env).list()] == ["a b%20/c%2Fd e"]


def test_a_large_write_is_one_object(moto_env: str) -> None:
    store = open_storage(moto_env)
    data = bytes(range(256)) * 50_000
    store.write("big.parquet", data)
    assert store.head("big.parquet").size_bytes == len(data)
    assert store.read_range("big.parquet", 12_000_000, 256) == data[12_000_000:12_000_256]


def test_a_create_that_finds_its_own_bytes_still_says_exists(moto_env: str) -> None:
    store = open_storage(moto_env)
    store.create("x", b"1")
    with pytest.raises(ObjectExistsError):
        store.create("x", b"1")


def test_without_an_endpoint_a_write_is_of_unknown_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import timedelta

    monkeypatch.setattr("lakeindex.storage.objects.CONTROL_TIMEOUT", timedelta(milliseconds=300))
    for name, value in (("AWS_ACCESS_KEY_ID", "x"), ("AWS_SECRET_ACCESS_KEY", "x"), ("AWS_REGION", "us-east-1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    store = open_storage("s3://bucket/x")
    with pytest.raises(UnknownOutcomeError) as caught:
        store.create("y", b"1")
    assert "y" in caught.value.message
    assert "\n" not in caught.value.message


def test_plain_http_only_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://storage.invalid:9000")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    with pytest.raises(OptionError, match=r"http://storage\.invalid is plain HTTP") as refused:
        open_storage("s3://bucket/x")
    assert "AWS_ALLOW_HTTP=true" in str(refused.value.hint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "storage.invalid:9000")
    with pytest.raises(OptionError, match="no http:// or https://"):
        open_storage("s3://bucket/x")


@pytest.mark.parametrize("uri", ["s3:///x", "s3://", "ftp://b/x"])
def test_urls_without_a_bucket(uri: str) -> None:
    with pytest.raises(OptionError):
        ObjectStorage(uri)


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_other_clouds_are_named_by_their_scheme(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    store = open_storage(f"{scheme}://bucket/table")
    assert isinstance(store, ObjectStorage)
    assert store.uri == f"{scheme}://bucket/table"


def test_azure_takes_the_account_from_the_url_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(OptionError, match=r"cannot open az://lake/t: .*[Aa]ccount") as caught:
        open_storage("az://lake/t")
    assert "docs/storage.md" in str(caught.value)
    uri = "abfss://lake@someone.dfs.core.windows.net/t"
    store = open_storage(uri)
    assert store.uri == uri
    assert "someone" in repr(ObjectStorage(uri)._bulk)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "another")
    assert isinstance(open_storage("az://lake/t"), ObjectStorage)


@pytest.mark.parametrize(
    ("scheme", "variable"),
    [
        ("s3", "AWS_ENDPOINT_URL_S3"),
        ("s3", "AWS_ENDPOINT"),
        ("az", "AZURE_STORAGE_ENDPOINT"),
        ("abfss", "AZURE_ENDPOINT"),
    ],
)
def test_plain_http_is_allowed_by_the_endpoint_of_the_store_at_hand(
    scheme: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeindex.storage.objects import _allow_http

    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP", "AZURE_ALLOW_HTTP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "http://127.0.0.1:1/x")
    assert _allow_http(scheme)
    assert not _allow_http("gs")
    monkeypatch.setenv(variable, "http://storage.invalid/x")
    assert not _allow_http(scheme)
    monkeypatch.setenv("AZURE_ALLOW_HTTP", "true")
    assert _allow_http(scheme) == (scheme != "s3")


@pytest.mark.parametrize(
    ("status", "kind"), [(401, AccessDeniedError), (403, AccessDeniedError), (404, ObjectNotFoundError)]
)
def test_a_store_that_refuses_is_told_from_one_that_does_not_answer(
    status: int, kind: type[StorageError], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refuses(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET  # noqa: N815 - the server's name for it

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Refuses) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        for name, value in (("AWS_ACCESS_KEY_ID", "x"), ("AWS_SECRET_ACCESS_KEY", "x"), ("AWS_REGION", "us-east-1")):
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        store = open_storage("s3://bucket/x")
        for ask in (store.list, store.list_folder, lambda: store.read("y"), lambda: store.head("y")):
            with pytest.raises(kind) as caught:
                ask()
            assert may_pass(caught.value) is (kind is ObjectNotFoundError)
        server.shutdown()
        thread.join()
