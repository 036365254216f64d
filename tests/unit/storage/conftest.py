"""One store of every adapter, empty, for the contract suite."""

import os
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeindex.storage import Storage, open_storage
from lakeindex.storage.memory import MemoryStorage
from tests.moto_server import moto_here

_FAKE_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
_BUCKET = "lakeindex-contract"
_SERVERS = {
    "s3": ("LAKEINDEX_S3_ENDPOINT", "s3://{LAKEINDEX_S3_BUCKET}"),
    "azure": ("LAKEINDEX_AZURE_CONTAINER", "az://{LAKEINDEX_AZURE_CONTAINER}"),
    "hdfs": ("LAKEINDEX_HDFS", "{LAKEINDEX_HDFS}"),
}
"""The variable without which there is no server of that kind, and where a store is on it."""


@pytest.fixture(scope="session")
def moto_endpoint() -> Iterator[str]:
    with moto_here() as endpoint:
        request = urllib.request.Request(f"{endpoint}/{_BUCKET}", method="PUT")
        with urllib.request.urlopen(request, timeout=10):
            pass
        yield endpoint


@pytest.fixture
def moto_env(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in _FAKE_CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    return f"s3://{_BUCKET}/{uuid.uuid4().hex}"


@pytest.fixture(
    params=[
        "memory",
        "local",
        "moto",
        *(pytest.param(name, marks=getattr(pytest.mark, name)) for name in _SERVERS),
    ]
)
def storage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """An empty store; ``s3``, ``azure`` and ``hdfs`` are those of scripts/*_server.py."""
    if request.param == "memory":
        return MemoryStorage.named(f"contract-{uuid.uuid4().hex}")
    if request.param == "local":
        return open_storage(str(tmp_path / "store"))
    if request.param == "moto":
        return open_storage(request.getfixturevalue("moto_env"))
    variable, root = _SERVERS[request.param]
    if not os.environ.get(variable):
        pytest.skip(f"{variable} is not set")
    if request.param == "s3":
        monkeypatch.setenv("AWS_ENDPOINT_URL", os.environ["LAKEINDEX_S3_ENDPOINT"])
    return open_storage(f"{root.format_map({'LAKEINDEX_S3_BUCKET': 'lakeindex', **os.environ})}/{uuid.uuid4().hex}")
