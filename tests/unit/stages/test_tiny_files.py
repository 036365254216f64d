"""A run whose partitions are so fine that it makes thousands of very small files says so, with what helps; no other does."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

import lakeindex
from lakeindex.stages.merge_write import file_slices as written_files

CUSTOM = {"hoodie.table.keygenerator.type": "CUSTOM"}
DAYS = [dt.date(2024, 1, 1) + dt.timedelta(days=number) for number in range(30)]


def rows(days: list[dt.date], ts: int = 1) -> pa.Table:
    names = [str(number) for number in range(len(days))]
    times = pa.array(days, pa.date32()).cast(pa.timestamp("us"))
    return pa.table({"id": names, "day": days, "city": names, "at": times, "ts": [ts] * len(days)})


def noted(path: Path, partition: str | list[str], days: list[dt.date] = DAYS) -> list[str]:
    custom = CUSTOM if isinstance(partition, list) and partition else None
    table = lakeindex.create_table(
        path, like=rows(days), key="id", partition=partition, ordering="ts", properties=custom
    )
    first = table.upsert(rows(days))
    again = table.upsert(rows(days, ts=2))
    assert [note for note in again.notes if "new files" in note] == [], "it is said once, by the run that makes them"
    return [note for note in first.notes if "new files" in note]


@pytest.mark.few(0)
def test_what_is_said_and_when(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_files, "_MANY_FILES", 25)
    (said,) = noted(tmp_path / "days", "day")
    assert said.startswith("30 new files of ")
    assert said.endswith("in a new table `lakeindex create --partition day:year` makes larger ones")
    assert "--partition at:year" in noted(tmp_path / "times", "at")[0]
    assert "--partition day:year" in noted(tmp_path / "by_day", "day:day")[0]
    assert "--partition day:year" in noted(tmp_path / "both", ["city:SIMPLE", "day:SIMPLE"])[0]
    (said,) = noted(tmp_path / "cities", "city")
    assert "--partition" not in said
    assert said.endswith("use a coarser field")
    monkeypatch.setattr(written_files, "_TINY_BYTES", 60_000)
    assert "--partition day:month" in noted(tmp_path / "larger", "day")[0]
    monkeypatch.setattr(written_files, "_TINY_BYTES", 2**20)
    assert noted(tmp_path / "cured", "day:month") == []
    assert noted(tmp_path / "few", "day", DAYS[:24]) == []
    assert noted(tmp_path / "none", []) == []
    monkeypatch.setattr(written_files, "_TINY_BYTES", 100)
    assert noted(tmp_path / "large", "day") == []


def test_thousands_of_them() -> None:
    assert (written_files._MANY_FILES, written_files._TINY_BYTES) == (200, 2**20)
