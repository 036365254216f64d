"""Whole runs take turns: writers of the same file groups lose no attempts, and others do not wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakeindex.commit.write_queue import EVERYTHING, TURNS_FOLDER, Turn, TurnScope
from lakeindex.operations.rescale import rescale_table
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from lakeindex.table.host import Host, this_process
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.timeline.clock import SystemClock
from tests.builders import Row, batch_of, content_of, make_table


def rows(version: int, day: str = "d0", count: int = 40) -> list[Row]:
    return [Row(f"k{n:03d}", day, version, f"{version}") for n in range(count)]


def rolled_back(folder: Path) -> int:
    return len(list((folder / ".hoodie").glob("*.rollback")))


def another(folder: Path) -> Turn:
    """The turn of a writer that is alive."""
    host = Host(SystemClock(), this_process(), lambda _: False)
    return Turn(open_storage(str(folder)), host, 60_000, 1_000)


def seconds(work: Callable[[], object]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def test_writers_of_one_file_group_lose_no_attempt(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of(rows(1)))
    together = threading.Barrier(4)

    def write(writer: int) -> None:
        together.wait()
        for number in range(2):
            table.upsert(batch_of(rows(10 + 10 * number + writer)), batch_id=f"{writer}-{number}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert rolled_back(tmp_path / "t") <= 1  # two that came at the same moment
    assert {row[3] for row in content_of(table)} == {23}
    assert not open_storage(table.uri).list(TURNS_FOLDER)


def test_a_run_waits_for_who_came_before(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of(rows(1)))
    (file,) = Table.open(open_storage(table.uri)).snapshot().base_files_all()
    other = another(tmp_path / "t")
    other.take(TurnScope.of([(file.partition_path, file.file_id)], ()))
    threading.Timer(0.6, other.end).start()
    assert seconds(lambda: table.upsert(batch_of(rows(2)))) >= 0.5


def test_a_run_does_not_wait_for_writers_of_other_file_groups(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of(rows(1)))
    other = another(tmp_path / "t")
    other.take(TurnScope.of([("d1", "another")], ["d0"]))
    assert seconds(lambda: table.upsert(batch_of(rows(2)), options={"lakeindex.lock.wait": "100"})) < 50
    other.end()


@pytest.mark.parametrize("scope", [EVERYTHING, TurnScope.of([("d0", "0"), ("d0", "1")], ())], ids=["all", "buckets"])
def test_a_batch_of_a_bucket_table_waits_for_its_buckets_even_those_without_a_file(tmp_path: Path, scope: TurnScope):
    table = make_table(tmp_path / "t", hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets="2")
    other = another(tmp_path / "t")
    other.take(scope)
    threading.Timer(0.6, other.end).start()
    assert seconds(lambda: table.upsert(batch_of(rows(1)))) >= 0.5


def test_a_rescaling_waits_for_every_writer(tmp_path: Path):
    table = make_table(tmp_path / "t", hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets="2")
    table.upsert(batch_of(rows(1)))
    other = another(tmp_path / "t")
    other.take(TurnScope.of([("elsewhere", "0")], ()))
    threading.Timer(0.6, other.end).start()
    assert seconds(lambda: rescale_table(table.uri, LocalRunner(1), buckets=3)) >= 0.5
