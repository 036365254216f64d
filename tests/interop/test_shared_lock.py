"""Hudi's lock and heartbeats with real Hudi: who holds the lock keeps the other out, and both write at once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import lakeindex
from lakeindex.errors import FencedError, LockTimeoutError
from lakeindex.lock.hudi_lock import LOCK_PATH, decode_lock
from lakeindex.lock.lock import TableLock
from lakeindex.lock.write_context import WriteContext
from lakeindex.options.parse import parse_options
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from lakeindex.table.host import this_host
from tests.interop import ours
from tests.interop.beside_hudi import LOCK, OPTIMISTIC, RIGHT, race
from tests.interop.hudi_client import HudiError, HudiServer
from tests.interop.rows import SCHEMA, SIMPLE
from tests.interop.story import Story, completed_writes, instant_files, keeping_story, rows_of
from tests.moto_server import moto_here, use_aws

pytestmark = pytest.mark.interop

_CRASH = Path(__file__).with_name("crash_before_commit.py")
BOTH = pytest.mark.parametrize("hudi", ["0.15.0_v6", "1.0.2_v8", "1.2.0_v9"], indirect=True)
"""The lock is the same on all versions of a table."""
_IMPATIENT = {**OPTIMISTIC, "hoodie.write.lock.client.num_retries": "2", "hoodie.write.lock.wait_time_ms": "200"}


@contextmanager
def we_hold(path: Path | str, options: Mapping[str, str]) -> Iterator[TableLock]:
    """Our lock of a table and Hudi's, as a commit holds them."""
    table = Table.open(open_storage(str(path)))
    with WriteContext(table, this_host(), parse_options(dict(options))).locked("interop") as held:
        yield held


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """A server that does not look at signatures, and a bucket on it."""
    with moto_here() as endpoint:
        use_aws(monkeypatch, endpoint)
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/interop", method="PUT"), timeout=10).close()
        yield endpoint, "interop"


@pytest.fixture
def story(hudi: HudiServer, folder: Path) -> Story:
    told = keeping_story(folder, SIMPLE, hudi)
    told.options |= OPTIMISTIC
    told.our_options |= LOCK
    told.we_create()
    told.we_upsert(range(40), 1)
    return told


@BOTH
def test_who_holds_the_file_lock_keeps_the_other_out(story: Story) -> None:
    """Hudi leaves its file empty, in all its releases."""
    file = story.path / ".hoodie/lock"
    with we_hold(story.path, LOCK) as held:
        assert not story.hudi.lock(story.path, LOCK)
        held.check()
    assert story.hudi.lock(story.path, LOCK)
    assert file.read_bytes() == b""
    with pytest.raises(LockTimeoutError, match="a writer of Hudi since"):
        ours.upsert(story.path, rows_of(range(5), 9), {**LOCK, "lakeindex.lock.wait": "1"})
    assert file.exists()
    story.hudi.unlock(story.path)
    story.we_upsert(range(10, 30), 2)
    story.hudi_upserts(range(20, 45), 3)
    story.we_upsert(range(40, 50), 4)
    story.judge("after both have waited for each other", sound=True)


@BOTH
def test_a_hudi_writer_that_gives_up_writes_nothing_and_one_of_0_15_costs_us_the_lock(story: Story) -> None:
    """When that one closes, it deletes the file, whoever has it: our check finds out."""
    before = completed_writes(story.path)
    with we_hold(story.path, LOCK) as held:
        with pytest.raises(HudiError, match="Unable to acquire"):
            story.hudi_upserts(range(5), 9, _IMPATIENT)
        assert completed_writes(story.path) == before
        if story.hudi.release < (1, 1):
            assert not (story.path / ".hoodie/lock").exists()
            with pytest.raises(FencedError, match="was lost"):
                held.check()
        else:
            held.check()
    story.we_upsert(range(10, 30), 2)
    story.judge("after a writer of Hudi gave up")


@BOTH
def test_lazy_cleaning_leaves_our_living_instant_alone_and_rolls_our_dead_one_back(story: Story) -> None:
    batch = story.path.with_name("killed.parquet")
    pq.write_table(rows_of([*range(10), *range(100, 110)], 9), batch)
    line = [sys.executable, str(_CRASH), str(story.path), str(batch), "*/verdicts/*"]
    assert subprocess.run(line, check=False, timeout=120).returncode == 137
    (beat,) = (story.path / ".hoodie/.heartbeat").glob("2*")
    story.hudi_upserts(range(10, 20), 2)
    assert instant_files(story.path, f"{beat.name}.inflight"), "Hudi rolled back what had a young heartbeat"
    story.judge("with an instant of ours that seems to live")
    old = time.time() - 121
    os.utime(beat, (old, old))
    story.hudi_upserts(range(15, 25), 3)
    assert not instant_files(story.path, f"{beat.name}.*inflight")
    assert not beat.exists()
    story.judge("after Hudi rolled our dead instant back")
    story.we_upsert(range(100, 110), 4)
    story.judge("after our next turn", sound=True)


@pytest.mark.parametrize("hudi", ["1.0.2_v8", "1.2.0_v9"], indirect=True)
def test_both_write_at_once_and_nothing_is_lost_or_doubled(hudi: HudiServer, folder: Path) -> None:
    figures = race(hudi, folder / "table", 6)
    assert figures["lakeindex"] == figures["Hudi"] == RIGHT, figures


STORAGE = {
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider",
    "hoodie.write.lock.storage.validity.timeout.secs": "10",
    "hoodie.write.lock.storage.renew.interval.secs": "1",
}


def test_who_holds_the_storage_lock_keeps_the_other_out(
    servers: dict[str, HudiServer], s3: tuple[str, str], folder: Path
) -> None:
    """On an object store, with Hudi 1.2's own provider; the S3 client below it is ours (S3StorageLockClient.java)."""
    endpoint, bucket = s3
    table, theirs = f"s3://{bucket}/table", f"s3a://{bucket}/table"
    hudi, options = servers["1.2.0"], {**STORAGE, "interop.s3.endpoint": endpoint}
    hudi.compile(Path(__file__).with_name("S3StorageLockClient.java"))
    pq.write_table(SCHEMA.empty_table(), folder / "like.parquet")
    made = ours.command("create", table, "--like", folder / "like.parquet", "--key", "id", "--ordering", "ts")
    assert made.code == 0, made.text
    store = open_storage(table)
    assert hudi.lock(theirs, options)
    held = store.read(LOCK_PATH)
    found = decode_lock(held)
    assert found.encode() == held, "the bytes that we write are those of Hudi"
    assert not found.expired
    with pytest.raises(LockTimeoutError, match=found.owner):
        lakeindex.open_table(table).upsert(rows_of(range(5), 1), options={**STORAGE, "lakeindex.lock.wait": "2"})
    renewed = decode_lock(store.read(LOCK_PATH))
    assert renewed.owner == found.owner
    assert renewed.valid_until_ms > found.valid_until_ms
    hudi.unlock(theirs)
    assert decode_lock(store.read(LOCK_PATH)).expired
    lakeindex.open_table(table).upsert(rows_of(range(5), 1), options=STORAGE)
    assert decode_lock(store.read(LOCK_PATH)).owner.startswith("lakeindex ")
    with we_hold(table, STORAGE) as mine:
        assert not hudi.lock(theirs, options)
        mine.check()
    assert hudi.lock(theirs, options)
    hudi.unlock(theirs)
    with we_hold(table, STORAGE) as mine:
        mine.check()
