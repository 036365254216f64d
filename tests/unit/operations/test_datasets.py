"""Scans as datasets: engines that read them never wait for themselves, and a dataset is a batch."""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from lakeindex.api.table import LakeTable, open_table
from tests.builders import Row, batch_of, content_of, make_table
from tests.golden import made_once

PARTITIONS = 40


@made_once
def many_files(folder: Path) -> LakeTable:
    table = make_table(folder / "t")
    table.upsert(batch_of([Row(f"k{n:03d}", f"d{n % PARTITIONS}", 1, "x") for n in range(200)]))
    return table


def read_often(uri: str, times: int) -> None:
    """Begin to read so often that a thread would have waited for another one that waits for it; else end with 1."""
    found = open_table(uri).scan().to_dataset()
    for _ in range(times):
        faulthandler.dump_traceback_later(20, exit=True)
        reader = found.scanner(batch_readahead=500, fragment_readahead=PARTITIONS).to_reader()
        assert reader.read_all().num_rows == 200
        faulthandler.cancel_dump_traceback_later()


@pytest.mark.few(0)
def test_a_reader_of_many_files_begins_without_waiting_for_itself(tmp_path: Path) -> None:
    table = many_files(tmp_path)
    command = [sys.executable, "-c", f"from {__name__} import read_often; read_often({table.uri!r}, 100)"]
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_scanner_has_all_that_scanners_have(tmp_path: Path) -> None:
    found = many_files(tmp_path).scan(where="id >= 'k100'").to_dataset()
    scanner = found.scanner(columns=["id"], filter=ds.field("id") < "k110")
    assert scanner.to_reader().schema == scanner.projected_schema == pa.schema([pa.field("id", pa.string(), False)])
    assert scanner.to_table().num_rows == scanner.count_rows() == 10
    assert found.head(3).num_rows == 3
    assert sum(batch.num_rows for batch in found.to_batches()) == 100


def test_a_scan_as_a_dataset_is_a_batch(tmp_path: Path) -> None:
    table, other = many_files(tmp_path / "a"), make_table(tmp_path / "b")
    other.upsert(table.scan().to_dataset())
    assert content_of(other) == content_of(table)
    assert other.upsert(ds.Scanner.from_dataset(table.scan().to_dataset())).rows_in == 200
