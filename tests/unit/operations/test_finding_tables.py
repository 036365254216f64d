"""The tables below a folder: found where they are, described without reading their files, and nobody is held up."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import lakeindex
from lakeindex.errors import InputError, OptionError
from lakeindex.operations.look import find_tables as module
from lakeindex.tasks.runner import do_task
from tests.cli_support import lakeindex as command
from tests.cli_support import validate

COLUMNS = pa.schema([("id", pa.string()), ("day", pa.string()), ("ts", pa.int64())])


def make(place: Path, days: int = 1, **more: object) -> lakeindex.LakeTable:
    """A table with a row a day."""
    table = lakeindex.create_table(place, COLUMNS, key="id", partition="day", ordering="ts", **more)
    names = [f"{number:03d}" for number in range(days)]
    if days:
        table.upsert(pa.table({"id": names, "day": names, "ts": [1] * days}, schema=COLUMNS), batch_id="b")
    return table


def requests_of(place: Path, **more: bool) -> int:
    return do_task(lambda one: lakeindex.find_tables(one, **more), place).cost.io.requests


def test_every_table_is_found_with_what_it_is(tmp_path: Path):
    first = make(tmp_path / "a" / "b" / "c", days=3, index="BUCKET")
    make(tmp_path / "nine", days=2, table_version=9)
    make(tmp_path / "none", days=0)
    for other in ("plain/x", "p/day=1/x", ".hidden/t", "delta/_delta_log", "delta/part"):
        (tmp_path / other).mkdir(parents=True)
    make(tmp_path / "p" / "day=1" / "hidden")
    make(tmp_path / ".hidden" / "t2")
    make(tmp_path / "delta" / "inside")
    found = lakeindex.find_tables(tmp_path, size=True)
    assert found.complete
    assert [(t.name, t.version, t.index_type, t.files, t.health) for t in found.tables] == [
        ("c", 6, "BUCKET", 3, "ok"),
        ("nine", 9, "BLOOM", 2, "ok"),
        ("none", 6, "BLOOM", 0, "ok"),
    ]
    (c, nine, none) = found.tables
    assert (c.bytes, c.last_commit) == (sum(file.bytes for file in first.files()), first.history()[0].instant)
    assert (nine.metadata_partitions != (), none.last_commit, none.table_type) == (True, None, "COPY_ON_WRITE")
    assert lakeindex.find_tables(tmp_path).tables[0].bytes is None
    validate("tables", found.as_dict())


def test_a_table_itself_is_found(tmp_path: Path):
    make(tmp_path / "t")
    assert [table.name for table in lakeindex.find_tables(tmp_path / "t").tables] == ["t"]


def test_a_broken_table_is_a_line_with_its_error(tmp_path: Path):
    make(tmp_path / "good")
    for name in ("cut", "empty", "unread"):
        make(tmp_path / name)
    (tmp_path / "cut/.hoodie/hoodie.properties").write_text("hoodie.table.name=cut\n")
    shutil.rmtree(tmp_path / "empty/.hoodie")
    (tmp_path / "empty/.hoodie").mkdir()
    properties = tmp_path / "unread/.hoodie/hoodie.properties"
    properties.write_text(properties.read_text().replace("hoodie.table.version=6", "hoodie.table.version=99"))
    found = {Path(table.uri).name: table for table in lakeindex.find_tables(tmp_path).tables}
    assert {name: table.health.value for name, table in found.items()} == {
        "cut": "broken",
        "empty": "broken",
        "good": "ok",
        "unread": "broken",
    }
    assert "no Hudi table" in found["empty"].findings[0] or "no table" in found["empty"].findings[0]
    told = command("tables", tmp_path)
    assert told.exit_code == 0
    assert all(any(line.startswith(f"{name}: ") for line in told.stdout.splitlines()) for name in ("cut", "unread"))


def test_what_the_timeline_says_of_its_health(tmp_path: Path):
    make(tmp_path / "pending")
    timeline = tmp_path / "pending" / ".hoodie"
    (timeline / "20200101000000000.commit.requested").touch()
    (timeline / "20200101000000000.inflight").touch()
    make(tmp_path / "stale", table_version=6, metadata=True)
    (delta,) = (tmp_path / "stale/.hoodie/metadata/.hoodie").glob(
        f"{lakeindex.open_table(tmp_path / 'stale').history()[0].instant}.deltacommit"
    )
    delta.unlink()
    shutil.copytree(tmp_path / "pending", tmp_path / "foreign")
    for path in timeline.parent.with_name("foreign").rglob(".hoodie/*lakeindex*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    make(tmp_path / "future")
    (tmp_path / "future" / ".hoodie" / "20200101000000000.reshaping").write_bytes(b"{}")
    found = {
        table.name if table.uri.endswith("stale") else Path(table.uri).name: table
        for table in lakeindex.find_tables(tmp_path).tables
    }
    assert {table.health.value for table in found.values()} == {"attention"}
    assert found["pending"].pending == 1
    assert found["pending"].findings[0].startswith("pending: commit 20200101000000000 (inflight, since 2020-01-01T")
    assert "stale: it does not know of 1 commits" in found["stale"].findings[0]
    assert "an instant of an action or a state that this release does not know" in found["future"].findings[0]


def test_requests_do_not_grow_with_partitions_and_files(tmp_path: Path):
    make(tmp_path / "few" / "t", days=2)
    make(tmp_path / "many" / "t", days=40)
    assert requests_of(tmp_path / "few") == requests_of(tmp_path / "many") < 12
    assert requests_of(tmp_path / "many", size=True) > 40


def test_listing_is_bounded_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for number in range(6):
        (tmp_path / f"f{number}" / "x" / "y" / "z").mkdir(parents=True)
    deep = lakeindex.find_tables(tmp_path, depth=1)
    assert (deep.folders, deep.complete, deep.skipped) == (7, False, 6)
    assert "6 folders were not listed" in command("tables", tmp_path, "--depth", 1).stdout
    monkeypatch.setattr(module, "MOST_FOLDERS", 4)
    assert (lakeindex.find_tables(tmp_path).folders, lakeindex.find_tables(tmp_path).complete) == (4, False)


def test_no_folder_and_a_wrong_depth(tmp_path: Path):
    with pytest.raises(InputError, match="nothing at"):
        lakeindex.find_tables(tmp_path / "nowhere")
    with pytest.raises(OptionError, match="-1"):
        lakeindex.find_tables(tmp_path, depth=-1)
    refused = command("tables", tmp_path / "nowhere", "--json")
    assert refused.error["class"] == "InputError"
