"""Shared by unit tests: a commit protocol's world, a bucket."""

import uuid
from collections.abc import Iterator

import boto3
import pytest

from tests.moto_server import moto_here, use_aws
from tests.unit.commit.protocol_support import World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def s3_bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with moto_here() as endpoint:
        use_aws(monkeypatch, endpoint)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        bucket = f"uploads-{uuid.uuid4().hex[:8]}"
        boto3.client("s3").create_bucket(Bucket=bucket)
        yield bucket
