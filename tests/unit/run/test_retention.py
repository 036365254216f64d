"""Which folders retention deletes: runs of the table, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import UsageError
from lakeindex.model import Operation
from lakeindex.run.run_folders import (
    Swept,
    _drop_finished,
    begin_run,
    roster_of,
    strike,
    sweep_runs,
    table_name_for_runs,
)
from lakeindex.run.spec import RunSpec
from lakeindex.storage.local import LocalStorage
from lakeindex.storage.port import Listing, ObjectMeta
from lakeindex.tasks import stores
from tests.builders import Row, batch_of, content_of, make_table
from tests.older_support import unpack_older

ONE = {"lakeindex.checkpoint.keep.runs": "1"}
AGE = 100 * 86_400


def upsert(table: LakeTable, number: int, checkpoints: Path | None = None, **options: str) -> str:
    rows = [Row(f"k{n}", "d", number, str(number)) for n in range(3)]
    where = None if checkpoints is None else str(checkpoints)
    summary = table.upsert(batch_of(rows), batch_id=f"b{number}", checkpoints=where, options={**ONE, **options})
    return summary.run_id


def age(folder: Path) -> None:
    for path in folder.rglob("*"):
        os.utime(path, (time.time() - AGE,) * 2)


def foreign(root: Path) -> dict[Path, bytes]:
    """Folders that look like runs, and are none of this table's, which lies beside the root."""
    mine = str(root.parent / "t")
    files = {
        root / "mine" / "summary.json": b'{"what": "my own"}',
        root / "mine" / "data.csv": b"1,2",
        root / "half" / "stage_input" / "part.parquet": b"rows",
        root / "other" / "run.json": json.dumps({"format": 1, "run_id": "other", "table": "later://another"}).encode(),
        root / "other" / "summary.json": b"{}",
        root / "renamed" / "run.json": json.dumps({"format": 1, "run_id": "r", "table": mine}).encode(),
        root / "renamed" / "summary.json": b"{}",
        root / "torn" / "run.json": b"",
        root / "torn" / "summary.json": b"{}",
    }
    for path, data in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (time.time() - AGE,) * 2)
    return files


def unchanged(files: dict[Path, bytes]) -> bool:
    return all(path.read_bytes() == data for path, data in files.items())


def test_folders_that_are_no_runs_stay_whatever_is_in_them(tmp_path: Path):
    table = make_table(tmp_path / "t")
    runs = tmp_path / "t.lakeindex"
    files = foreign(runs)
    ids = [upsert(table, number) for number in range(3)]
    (roster,) = (path for path in (runs / "_runs").iterdir() if path.is_dir())
    (roster / "of-later~x.json").write_bytes(b"{}")
    ids.append(upsert(table, 3))
    assert unchanged(files)
    assert not (runs / ids[0]).exists()
    assert (runs / ids[3] / "summary.json").exists()
    step = table.maintain(["runs"]).steps[0]
    assert unchanged(files)
    assert step.note is not None
    assert step.note.startswith("5 folders are no run of this table")
    assert step.note.endswith(": half, mine, other, renamed, torn")
    (runs / "sixth").mkdir()
    assert str(table.maintain(["runs"]).steps[0].note).endswith(": half, mine, other, renamed, sixth, ...")


def test_a_first_run_says_what_it_left(tmp_path: Path):
    table = make_table(tmp_path / "t")
    foreign(tmp_path / "t.lakeindex")
    summary = table.upsert(batch_of([Row("k", "d", 1, "v")]))
    assert any("no run of this table" in note and "mine" in note for note in summary.notes)


def test_a_root_that_is_a_table_or_holds_one_is_refused(tmp_path: Path):
    lake = tmp_path / "all" / "lake"
    sibling = make_table(lake / "zone" / "sibling")
    upsert(sibling, 1)
    before = content_of(sibling)
    table = make_table(tmp_path / "t")
    upsert(table, 1)
    age(lake)
    for root in (lake.parent, lake, lake / "zone", lake / "zone" / "sibling", tmp_path):
        with pytest.raises(UsageError, match=r"holds the table|is a table"):
            table.maintain(["runs"], checkpoints=str(root))
        with pytest.raises(UsageError, match=r"holds the table|is a table"):
            table.maintain(checkpoints=str(root), options={"lakeindex.checkpoint.keep.dead.days": "0"})
        with pytest.raises(UsageError, match=r"holds the table|is a table"):
            upsert(table, 2, root)
        assert not (root / "_runs").exists()
    assert content_of(sibling) == before
    assert len(table.history()) == 1


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_table_that_comes_later_is_left_alone(tmp_path: Path, *, is_replaced: bool):
    """The root was fine when it was first used; a run folder of its name in the roster does not make a table a run. Nor
    does a run's marker beside it.
    """
    lake = tmp_path / "lake"
    table = make_table(tmp_path / "t")
    run = upsert(table, 1, lake)
    if is_replaced:
        shutil.rmtree(lake / run)
    late = make_table(lake / run)
    upsert(late, 1, tmp_path / "elsewhere")
    before = content_of(late)
    for number in (2, 3, 4):
        upsert(table, number, lake)
    assert content_of(late) == before
    assert late.check().ok


def test_the_newest_runs_of_each_table_count(tmp_path: Path):
    root = tmp_path / "runs"
    one, two = make_table(tmp_path / "one"), make_table(tmp_path / "two")
    first = upsert(one, 1, root)
    theirs = [upsert(two, 100 + number, root, **{"lakeindex.checkpoint.keep.runs": "2"}) for number in range(5)]
    left = {path.name for path in root.iterdir()} - {"_runs"}
    assert left == {first, *theirs[-2:]}
    one.maintain(["runs"], checkpoints=str(root), options=ONE)
    assert {path.name for path in root.iterdir()} - {"_runs"} == {first, *theirs[-2:]}
    two.maintain(["runs"], checkpoints=str(root), options=ONE)
    assert {path.name for path in root.iterdir()} - {"_runs"} == {first, theirs[-1]}


@pytest.mark.parametrize("way", ["link", "dots"])
def test_a_table_by_another_path_is_the_same_table(tmp_path: Path, way: str):
    """A job is given the path as it is, Python's door resolves it, maintenance makes it absolute."""
    table = make_table(tmp_path / "real" / "t")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    other = str(tmp_path / "link" / "t") if way == "link" else str(tmp_path / "real" / ".." / "real" / "t")
    root = tmp_path / "runs"
    spec = RunSpec(other, str(root), "shared", "shared", Operation.UPSERT, (), ())
    begin_run(spec)
    ids = [upsert(table, number, root) for number in range(3)]
    table.upsert(batch_of([Row("k", "d", 9, "v")]), checkpoints=str(root), run_id="shared")
    step = LakeTable(other).maintain(["runs"], checkpoints=str(root), options=ONE).steps[0]
    assert step.note is None
    assert {path.name for path in root.iterdir()} - {"_runs"} == {"shared"}
    assert len(ids) == 3


def test_a_table_on_s3_is_the_same_table_by_both_of_its_names() -> None:
    assert table_name_for_runs("s3a://bucket/t/") == table_name_for_runs("s3://bucket/t") == "s3://bucket/t"


def test_two_tables_do_not_share_a_run(tmp_path: Path):
    root = tmp_path / "runs"
    upsert(make_table(tmp_path / "one"), 1, root)
    with pytest.raises(UsageError, match=r"is one of table .*one"):
        upsert(make_table(tmp_path / "two"), 1, root)


def test_nothing_is_left_of_a_dropped_run_and_emptied_ones_go(tmp_path: Path):
    table = make_table(tmp_path / "t")
    runs = tmp_path / "t.lakeindex"
    (runs / "emptied" / "stage_input" / "abc").mkdir(parents=True)
    (runs / "not-ours" / "photos").mkdir(parents=True)
    (runs / "empty").mkdir()
    ids = [upsert(table, number) for number in range(3)]
    for keep in (1, 0):  # the newest stays
        table.maintain(["runs"], options={"lakeindex.checkpoint.keep.runs": str(keep)})
        assert {path.name for path in runs.iterdir()} == {"_runs", "not-ours", "empty", ids[-1]}


def test_a_sweep_that_is_cut_short_anywhere_is_taken_up_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(tmp_path / "t")
    runs = [upsert(table, number, **{"lakeindex.checkpoint.keep.runs": "9"}) for number in range(2)]
    root, delete = tmp_path / "t.lakeindex", LocalStorage.delete
    files = [path for path in (root / runs[0]).rglob("*") if path.is_file()]
    for number in range(len(files)):
        shutil.copytree(root, tmp_path / f"{number}", symlinks=True)
        left = [number]

        def cut(store: LocalStorage, path: str, left: list[int] = left) -> None:
            if not left[0]:
                raise PermissionError(13, "Permission denied", path)
            left[0] -= 1
            delete(store, path)

        with monkeypatch.context() as patch:
            patch.setattr(LocalStorage, "delete", cut)
            with pytest.raises(PermissionError):
                _sweep(table, tmp_path / f"{number}")
        assert (tmp_path / f"{number}" / runs[0]).exists()
        assert _sweep(table, tmp_path / f"{number}", days=40).dropped == 1
        assert {path.name for path in (tmp_path / f"{number}").iterdir()} == {"_runs", runs[1]}


def _sweep(table: LakeTable, root: Path, days: int = 0) -> Swept:
    """So many days later."""
    return sweep_runs(table.uri, str(root), keep=1, days=30, now_ms=int((time.time() + days * 86_400) * 1000))


def test_emptied_folders_of_any_kind_of_run_go(tmp_path: Path):
    """A sweep that is cut short, or a person, leaves the folders of a run without its files."""
    table = make_table(tmp_path / "t")
    runs, keep = tmp_path / "t.lakeindex", {"lakeindex.checkpoint.keep.runs": "100"}
    rows = batch_of([Row("a", "d", 1, "v"), Row("b", "d", 1, "v"), Row("c", "d", 1, "v")])
    table.upsert(rows, options=keep)
    table.update({"v": "'w'"}, where="id = 'a'", options=keep)
    table.replace_where(rows.slice(1, 1), where="id = 'b'", options=keep)
    table.delete(where="id = 'c'", options=keep)
    folders = [path for path in runs.iterdir() if path.name != "_runs"]
    assert {path.name for one in folders for path in one.iterdir() if path.is_dir()} >= {"chosen", "input"}
    for file in [path for one in folders for path in one.rglob("*") if path.is_file()]:
        file.unlink()
    step = table.maintain(["runs"]).steps[0]
    assert step.note is None
    assert {path.name for path in runs.iterdir()} <= {"_runs"}


def test_a_run_again_counts_once(tmp_path: Path):
    table = make_table(tmp_path / "t")
    runs = tmp_path / "t.lakeindex"
    two = {"lakeindex.checkpoint.keep.runs": "2"}
    first = upsert(table, 1, **two)
    second = upsert(table, 2, **two)
    assert upsert(table, 1, **two) == first  # a noop, but the newest now
    third = upsert(table, 3, **two)
    assert {path.name for path in runs.iterdir()} - {"_runs"} == {first, third}
    assert second


def test_an_upsert_does_not_look_into_the_folders_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    table = make_table(tmp_path / "t")
    runs = tmp_path / "t.lakeindex"
    upsert(table, 1)
    asked: list[str] = []

    class Watched(LocalStorage):
        def list(self, prefix: str = "") -> list[ObjectMeta]:
            asked.append(f"{self.uri}:{prefix}")
            return super().list(prefix)

        def list_folder(self, prefix: str = "") -> Listing:
            asked.append(f"{self.uri}:{prefix}")
            return super().list_folder(prefix)

    def listings(number: int) -> int:
        asked.clear()
        upsert(table, number, **{"lakeindex.checkpoint.keep.runs": "1000"})
        return sum("t.lakeindex:" in one for one in asked)

    monkeypatch.setattr(stores, "_opened", lambda uri, *_: Watched(uri.removeprefix("file://")))
    few = listings(2)
    for number in range(50):
        (runs / f"x{number}" / "stage_input").mkdir(parents=True)
    assert listings(3) == few > 0


def test_runs_of_another_release_stay(tmp_path: Path):
    """They have no marker that names the table."""
    older = unpack_older("bloom", tmp_path)
    before = {path.name for path in older.runs.iterdir()}
    age(older.runs)
    older.table.upsert(older.batch("b3"), batch_id="b3", options={"lakeindex.checkpoint.keep.runs": "1"})
    older.table.maintain(["runs"])
    assert before < {path.name for path in older.runs.iterdir()}


def test_a_commit_whose_old_runs_cannot_be_dropped_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    table = make_table(tmp_path / "t")
    first = upsert(table, 1)
    write = LocalStorage.write

    def refusing(self: LocalStorage, path: str, data: bytes) -> None:
        if path.startswith("_runs/"):
            raise PermissionError(13, "Permission denied", path)
        write(self, path, data)

    monkeypatch.setattr(LocalStorage, "write", refusing)
    summary = table.upsert(batch_of([Row("k", "d", 9, "v")]), options=ONE)
    assert summary.instant is not None
    assert any("could not be dropped" in note for note in summary.notes)
    assert (tmp_path / "t.lakeindex" / first).exists()


def test_a_run_that_has_begun_again_is_no_finished_one(tmp_path: Path):
    table = make_table(tmp_path / "t")
    runs = tmp_path / "t.lakeindex"
    first = upsert(table, 1)
    begin_run(RunSpec(table.uri, str(runs), first, "b1", Operation.UPSERT, ()))  # its rows were restored away
    second, third = upsert(table, 2), upsert(table, 3)
    assert {path.name for path in runs.iterdir()} - {"_runs"} == {first, third}
    os.utime(runs / first / "summary.json", (1, 1))
    table.maintain(["runs"])
    assert (runs / first / "run.json").exists()
    assert upsert(table, 1) == first  # it ends, and counts as the newest
    assert {path.name for path in runs.iterdir()} - {"_runs"} == {first}
    assert second


def test_a_first_look_into_every_folder_takes_no_run_that_has_begun_again_for_finished(tmp_path: Path):
    table = make_table(tmp_path / "t")
    runs = tmp_path / "t.lakeindex"
    first = upsert(table, 1)
    begin_run(RunSpec(table.uri, str(runs), first, "b1", Operation.UPSERT, ()))
    os.utime(runs / first / "summary.json", (1, 1))
    shutil.rmtree(runs / "_runs")
    second = upsert(table, 2)
    assert {path.name for path in runs.iterdir()} - {"_runs"} == {first, second}


def test_a_run_that_has_begun_again_meanwhile_keeps_its_folder(tmp_path: Path) -> None:
    """It is struck from the roster between the look at that and the deletion of what is too much."""
    table = make_table(tmp_path / "t")
    runs = [upsert(table, number, tmp_path / "runs", **{"lakeindex.checkpoint.keep.runs": "9"}) for number in range(3)]
    store = LocalStorage(str(tmp_path / "runs"))
    finished = roster_of(store, table.uri)
    assert [one.run_id for one in finished] == runs
    strike(store, table.uri, finished[:1])
    _drop_finished(store, table.uri, finished[:2])
    assert [name for name in runs if (tmp_path / "runs" / name).exists()] == [runs[0], runs[2]]
    assert [one.run_id for one in roster_of(store, table.uri)] == runs[2:]


@pytest.mark.parametrize("is_enrolled", [True, False])
def test_a_run_that_begins_again_while_a_sweep_looks_at_others_keeps_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_enrolled: bool
) -> None:
    """A task of Airflow that is cleared while the step `runs` of maintenance is at work."""
    table, root = make_table(tmp_path / "t"), tmp_path / "t.lakeindex"
    runs = [upsert(table, number, **{"lakeindex.checkpoint.keep.runs": "9"}) for number in range(3)]
    again = RunSpec(table.uri, str(root), runs[0], "b0", Operation.UPSERT, ())
    if not is_enrolled:
        shutil.rmtree(root / "_runs")  # it died when its batch was committed
    look = LocalStorage.list

    def beginning(store: LocalStorage, prefix: str = "") -> list[ObjectMeta]:
        if prefix == runs[2]:  # the last one
            begin_run(again)
        return look(store, prefix)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "list", beginning)
        assert _sweep(table, root).dropped == 1
    assert [name for name in runs if (root / name).exists()] == [runs[0], runs[2]]
    assert [one.run_id for one in roster_of(LocalStorage(str(root)), table.uri)] == runs[2:] * is_enrolled


def test_a_run_that_is_struck_is_over_no_more_before_its_marker_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, root = make_table(tmp_path / "t"), tmp_path / "t.lakeindex"
    runs = [upsert(table, number, **{"lakeindex.checkpoint.keep.runs": "9"}) for number in range(3)]
    look, store = LocalStorage.list, LocalStorage(str(root))

    def striking(self: LocalStorage, prefix: str = "") -> list[ObjectMeta]:
        if prefix == runs[2]:
            strike(store, table.uri, roster_of(store, table.uri)[:1])
        return look(self, prefix)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "list", striking)
        assert _sweep(table, root).dropped == 1
    assert [name for name in runs if (root / name).exists()] == [runs[0], runs[2]]
