"""Table version 10: read as it is, written where an option says so, noticed when it comes under a handle or a run."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeindex
from lakeindex.api.table import LakeTable
from lakeindex.conductor.upsert import run_stage
from lakeindex.errors import LakeIndexError, OptionError, TableUnsupportedError, TimelineChangedError
from lakeindex.format.hfile import HFile
from lakeindex.format.java_properties import format_properties, parse_properties
from lakeindex.metadata.slices import LogForm
from lakeindex.metadata_upkeep.keeping import check_metadata_table
from lakeindex.model import IndexType, Operation
from lakeindex.options.types import Version10, WriteConfig
from lakeindex.pipeline import stages_for
from lakeindex.run.spec import RunSpec
from lakeindex.storage.local import LocalStorage
from lakeindex.storage.memory import Call, Fault, MemoryStorage
from lakeindex.storage.port import Storage
from lakeindex.table.handle import Table
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.tasks.stores import storage_at
from tests.vectors_support import VIRTUAL, unpack_table

WRITE = {"lakeindex.table.version10": "write"}
PROPERTIES = (".hoodie/hoodie.properties", ".hoodie/metadata/.hoodie/hoodie.properties")
VIRTUALS = sorted(path.name.removesuffix(".tar.gz") for path in VIRTUAL.glob("*.tar.gz"))
ROWS = pa.table({"id": ["a", "b", "c", "d"], "p": ["x", "x", "y", "y"], "v": [1, 2, 3, 4]})


def made(path: Path | str, version: int, index: str = "BLOOM") -> LakeTable:
    return lakeindex.create_table(
        str(path), like=ROWS, key="id", partition="p", table_version=version, index=index, properties=WRITE
    )


def upgrade(store: Storage) -> None:
    """What Hudi's main branch does to a table of version 9: properties of both tables, and nothing else."""
    for path, mode in zip(PROPERTIES, ("ALL", "NONE"), strict=True):
        if path in {one.path for one in store.list_folder(path.rpartition("/")[0]).objects}:
            entries = parse_properties(store.read(path), path)
            assert entries["hoodie.table.version"] == "9"
            said = {"hoodie.table.version": "10", "hoodie.meta.fields.mode": mode}
            store.write(path, format_properties({**entries, **said}))


def rows(table: LakeTable) -> list[tuple[Any, ...]]:
    return sorted(zip(*table.read(meta=False).select(["id", "p", "v"]).to_pydict().values(), strict=True))


def files(folder: Path) -> dict[str, bytes]:
    """All but what a writer notes of itself."""
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if not name.startswith(".hoodie/.lakeindex/")}


def logs(table: LakeTable) -> Iterator[tuple[LogForm, str]]:
    opened = Table.open(LocalStorage(table.uri))
    view = opened.metadata_view(opened.load_timeline())
    assert view is not None
    for partition in view.table.partitions:
        yield from ((log.form, log.path) for one in view.slices(partition) for log in one.logs)


DOORS: dict[str, Callable[[LakeTable, dict[str, str]], object]] = {
    "upsert": lambda table, options: table.upsert(ROWS, options=options),
    "insert": lambda table, options: table.insert(pa.table({"id": ["n"], "p": ["x"], "v": [9]}), options=options),
    "update": lambda table, options: table.update(set={"v": "v + 1"}, where="id = 'b'", options=options),
    "delete": lambda table, options: table.delete(pa.table({"id": ["a"], "p": ["x"]}), options=options),
    "delete by condition": lambda table, options: table.delete(where="id = 'c'", options=options),
    "insert overwrite": lambda table, options: table.insert_overwrite(ROWS.slice(2), options=options),
    "rollback": lambda table, options: table.rollback(table.history()[0].instant, options=options),
    "clean": lambda table, options: table.clean(options={"hoodie.cleaner.commits.retained": "1", **options}),
    "archive": lambda table, options: table.archive(options=options),
    "maintain": lambda table, options: table.maintain(options=options),
    "metadata build": lambda table, options: table.metadata_build(["bloom_filters"], options=options),
    "index build (lakeindex's own)": lambda table, options: table.index_build("RECORD_INDEX", options=options),
    "migrate": lambda table, options: table.index_migrate("SIMPLE", options=options),
}


def test_it_is_read_and_each_write_asks_for_the_option(tmp_path: Path) -> None:
    table, wrong = made(tmp_path / "t", 10), []
    table.upsert(ROWS, options=WRITE)
    table.upsert(ROWS.slice(1, 2), options=WRITE)
    before, stored = files(tmp_path / "t"), rows(table)
    assert stored == sorted(zip(*ROWS.to_pydict().values(), strict=True))
    assert len(table.get("b").rows) == table.scan(where="v = 3").count() == 1
    assert table.metadata_verify().ok
    assert {form for form, _ in logs(table)} == {LogForm.PUTS}
    for door, write in DOORS.items():
        if "own" in door:
            continue
        try:
            write(table, {})
        except TableUnsupportedError as error:
            said = f"{error.message} {error.hint}"
            wrong += [
                (door, word)
                for word in ("version 10", "is read", "not written", "1.2 still writes 9", "version10=write")
                if word not in said
            ]
        else:
            wrong.append((door, "taken"))
    assert not wrong
    assert files(tmp_path / "t") == before
    report = table.check()
    assert report.ok
    assert "version 10" in " ".join(report.notes)
    (found,) = lakeindex.find_tables(str(tmp_path)).tables
    assert (found.version, "version 10" in " ".join(found.findings)) == (10, True)
    for door, write in DOORS.items():
        write(table, WRITE)
        assert table.metadata_verify().ok, door
    assert table.check().ok
    with pytest.raises(OptionError, match=r"version 10.*only for who asks"):
        lakeindex.create_table(str(tmp_path / "u"), like=ROWS, key="id", table_version=10)
    assert not (tmp_path / "u" / ".hoodie").exists()


def batch_of(chance: random.Random) -> pa.Table:
    ids = chance.sample([f"k{number}" for number in range(40)], chance.randint(1, 12))
    values = [chance.randrange(1000) for _ in ids]
    return pa.table({"id": ids, "p": [f"p{int(one[1:]) % 3}" for one in ids], "v": values})


@pytest.mark.slow
def test_the_same_batches_give_the_same_rows(tmp_path: Path) -> None:
    """On version 9, on version 10, and where Hudi upgrades the table in the middle; metadata tables say what there is."""
    index = "RECORD_INDEX"
    kinds = {"9": made(tmp_path / "9", 9, index), "10": made(tmp_path / "10", 10, index)}
    kinds["upgraded"] = made(tmp_path / "upgraded", 9, index)
    chance, seen = random.Random(index), set[LogForm]()
    for turn in range(6):
        batch, goes = batch_of(chance), chance.random() < 0.3
        for table in kinds.values():
            if goes:
                table.delete(batch.select(["id", "p"]), options=WRITE)
            else:
                table.upsert(batch, options=WRITE)
        if turn == 2:
            upgrade(LocalStorage(kinds["upgraded"].uri))
        mixed = [log for log in logs(kinds["upgraded"]) if turn > 2]
        seen |= {form for form, _ in mixed}
        if turn % 3 == 2:
            assert rows(kinds["9"]) == rows(kinds["10"]) == rows(kinds["upgraded"])
    kinds["10"].maintain(options=WRITE)
    for table in kinds.values():
        assert table.metadata_verify().ok
        assert table.check().ok
    assert {form for form, _ in logs(kinds["9"])} <= {LogForm.BLOCKS}
    assert seen >= {LogForm.BLOCKS, LogForm.PUTS}
    for form, path in logs(kinds["10"]):
        data = (Path(kinds["10"].uri) / path).read_bytes()
        assert form is not LogForm.BLOCKS
        assert HFile.of(data, path).info[b"hudi.log.format.metadata"].startswith(b'{"VERSION":"2","INSTANT_TIME"')


def test_an_upgrade_under_an_open_handle_is_noticed_inside_the_commit(tmp_path: Path) -> None:
    made(tmp_path / "t", 9).upsert(ROWS)
    opened = Table.open(LocalStorage(str(tmp_path / "t")))
    upgrade(opened.storage)
    with pytest.raises(TableUnsupportedError, match="has version 10"):
        check_metadata_table(opened, WriteConfig())
    with pytest.raises(TimelineChangedError, match="from version 9 to 10"):
        check_metadata_table(opened, WriteConfig(version10=Version10.WRITE))


@pytest.mark.parametrize(("options", "step"), [({}, 41), (WRITE, 61)], ids=["refused", "to be written"])
@pytest.mark.few(1)
def test_an_upgrade_at_any_moment_of_a_run_loses_nothing(options: dict[str, str], step: int) -> None:
    """Before some storage calls: nothing is half published, and no file that was there goes; who runs again writes."""
    calls, outcomes = 0, list[str]()
    while True:
        uri = f"memory://upgraded-{len(options)}-{calls}"
        store, table = MemoryStorage.named(uri.removeprefix("memory://")), made(uri, 9, "RECORD_INDEX")
        runs = f"{uri}-runs"
        table.upsert(ROWS, checkpoints=runs)
        before, left = store.snapshot(), calls

        def hook(call: Call, store: MemoryStorage = store) -> Fault | None:
            nonlocal left
            left -= 1
            if left == -1:
                store.hook = None
                upgrade(store)
            return None

        store.hook = hook
        batch = pa.table({"id": ["a", "n"], "p": ["x", "y"], "v": [100, 200]})
        try:
            table.upsert(batch, checkpoints=runs, options=options, runner=LocalRunner(1))
            outcomes.append("done")
        except LakeIndexError as error:
            outcomes.append("refused" if "version 10" in error.message or "to 10" in error.message else str(error))
        store.hook = None
        if left >= 0:
            break
        gone = [path for path in before if path not in store.snapshot() and ".lakeindex" not in path]
        assert not [path for path in gone if not path.endswith((".requested", ".inflight"))], (calls, gone)
        new = {("a", "x", 100), ("n", "y", 200)}
        found = set(rows(table)) & new
        assert len(found) == (2 if outcomes[-1] == "done" else 0), (calls, outcomes[-1], found)
        assert table.metadata_verify().ok, calls
        table.upsert(batch, checkpoints=runs, options=WRITE)
        assert new <= set(rows(table))
        assert table.metadata_verify().ok, calls
        assert table.check().ok, calls
        calls += step
    assert set(outcomes) == {"done", "refused"}


def test_a_mode_that_stores_some_meta_columns_is_read_as_virtual_keys_and_stops_every_write(tmp_path: Path) -> None:
    """On tables that Hudi wrote, of every version: a downgrade may leave the mode there."""
    modes, wrong = ("COMMIT_TIME_ONLY", "FILE_NAME_ONLY", "commit_time_and_file_name"), []
    for number, name in enumerate(VIRTUALS):
        for version in ("", "10"):
            mode = modes[number % len(modes)]
            folder = unpack_table(name, tmp_path / f"{number}{version}", VIRTUAL)
            file = folder / ".hoodie/hoodie.properties"
            stored = LakeTable(str(folder)).read(meta=False)
            said = {"hoodie.meta.fields.mode": mode} | ({"hoodie.table.version": version} if version else {})
            entries = parse_properties(file.read_bytes())
            if version and entries["hoodie.table.version"] == "6":
                continue
            file.write_bytes(format_properties({**entries, **said}))
            table, before = LakeTable(str(folder)), files(folder)
            assert table.read(meta=False).equals(stored)
            for door in ("upsert", "delete by condition", "clean", "metadata build"):
                try:
                    DOORS[door](table, WRITE)
                except TableUnsupportedError as error:
                    wrong += [] if f"hoodie.meta.fields.mode={mode}" in error.message else [(name, door, error.message)]
                else:
                    wrong.append((name, door, "taken"))
            with pytest.raises(TableUnsupportedError, match=f"some meta columns only.*{mode}"):
                table.read(since="2020-01-01T00:00:00Z", meta=False)
            assert files(folder) == before
    assert not wrong


@pytest.mark.parametrize("version", [9, 10])
def test_a_log_of_a_form_that_nobody_knows_stops_reader_and_writer_by_name(version: int, tmp_path: Path) -> None:
    table = made(tmp_path / "t", version)
    table.upsert(ROWS, options=WRITE)
    folder = tmp_path / "t/.hoodie/metadata/files"
    log = folder / "files-0000-0_1-0-1_20260101000000000_1.log.parquet"
    log.write_bytes(b"PAR1")
    before = files(tmp_path / "t")
    for work in (table.count, table.check, table.metadata_verify, lambda: table.upsert(ROWS, options=WRITE)):
        with pytest.raises(TableUnsupportedError, match=rf"{log.name} is a log of the form log\.parquet"):
            work()
    assert files(tmp_path / "t") == before
    assert table.count(options={"hoodie.metadata.enable": "false"}) == 4


def test_a_version_that_nobody_has_heard_of_is_not_read(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 10)
    file = tmp_path / "t/.hoodie/hoodie.properties"
    file.write_text(file.read_text().replace("hoodie.table.version=10", "hoodie.table.version=11"))
    for work in (table.count, lambda: table.upsert(ROWS, options=WRITE)):
        with pytest.raises(TableUnsupportedError, match=r"version 11.*6, 8 and 9 are read and written, and 10 is read"):
            work()


@pytest.mark.parametrize("options", [{}, WRITE], ids=["refused", "written"])
def test_an_upgrade_between_two_stages(options: dict[str, str]) -> None:
    """Each stage is a process of its own, which opens the table anew."""
    stages = stages_for(IndexType.BLOOM)
    for number in range(1, len(stages), 3 if options else 1):
        uri = f"memory://stages-{len(options)}-{number}"
        store, table = MemoryStorage.named(uri.removeprefix("memory://")), made(uri, 9)
        table.upsert(ROWS, checkpoints=f"{uri}-runs")
        sink, runs = pa.BufferOutputStream(), f"{uri}-stages"
        pq.write_table(pa.table({"id": ["a", "n"], "p": ["x", "y"], "v": [100, 200]}), sink)
        storage_at(runs).write("in.parquet", sink.getvalue().to_pybytes())
        spec = RunSpec(uri, runs, "run", "batch", Operation.UPSERT, (f"{runs}/in.parquet",), tuple(options.items()))
        for stage in stages[:number]:
            run_stage(stage, spec, LocalRunner(1))
        upgrade(store)
        before = store.snapshot()
        if options:
            for stage in stages[number:]:
                run_stage(stage, spec, LocalRunner(1))
            assert {("a", "x", 100), ("n", "y", 200)} <= set(rows(table))
            assert any(path.endswith(".log.hfile") for path in store.snapshot())
        else:
            with pytest.raises(TableUnsupportedError, match=r"version 10.*not written to yet"):
                run_stage(stages[number], spec, LocalRunner(1))
            assert store.snapshot() == before
        assert table.metadata_verify().ok
