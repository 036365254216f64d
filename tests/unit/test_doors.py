"""What callers hand over in Python's own types, and what the machine refuses: it works, or an error of our tree says what to do."""

from __future__ import annotations

import datetime as dt
import errno
import inspect
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeindex
from lakeindex.api import table as api
from lakeindex.api.arguments import RunArguments
from lakeindex.api.run import Request, run, run_upsert
from lakeindex.api.table import LakeTable
from lakeindex.cli.program import Failure
from lakeindex.errors import (
    AccessDeniedError,
    InputError,
    LakeIndexError,
    MachineError,
    MetadataTableError,
    OptionError,
    QuarantineExceededError,
    StorageError,
    UsageError,
    described,
    first_line,
    in_our_words,
)
from lakeindex.model import Operation
from tests.builders import Row, batch_of, make_table
from tests.cli_support import lakeindex as command
from tests.golden import made_once
from tests.unit.operations.tables import unstamped

NOBODY = 65534
BATCH = batch_of([Row("a", "x", 1, "1"), Row("b", "x", 1, "1")])


@made_once
def made(folder: Path) -> LakeTable:
    table = make_table(folder)
    table.upsert(BATCH)
    return table


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    return made(tmp_path / "t")


def test_a_table_is_opened_by_a_path(table: LakeTable) -> None:
    opened = lakeindex.open_table(Path(table.uri))
    assert opened.uri == table.uri
    assert opened.read(meta=True).num_rows == 2
    assert LakeTable(Path(table.uri)) == table  # type: ignore[arg-type] # paths are taken, too


def test_names_are_a_list_and_a_single_text_is_none_of_one_letter_each(table: LakeTable) -> None:
    """What Python takes for a list and people do not; the hint is what works."""
    ways = {
        "get": (lambda names: table.get(["a"], columns=names), "columns"),
        "scan": (lambda names: table.scan(columns=names), "columns"),
        "scan of partitions": (lambda names: table.scan(partitions=names), "partitions"),
        "changes": (lambda names: table.changes(columns=names), "columns"),
        "metadata_build": (table.metadata_build, "partitions"),
        "metadata_drop": (table.metadata_drop, "partitions"),
        "maintain": (table.maintain, "steps"),
        "delete_partitions": (table.delete_partitions, "partitions"),
    }
    taken = []
    for way, (call, argument) in ways.items():
        for names in ("files", b"files", 3, [3], ["files", None]):
            try:
                call(names)
                taken.append(f"{way}: {names!r}")
            except UsageError as error:
                if (
                    error.culprit != argument
                    or f"cannot be {names!r}" not in error.message
                    or "['" not in str(error.hint)
                ):
                    taken.append(f"{way}: {error}")
    assert taken == []
    for nothing in (None, [], ()):
        with pytest.raises(UsageError, match="truncate takes all of them"):
            table.delete_partitions(nothing)  # type: ignore[arg-type] # a variable that nobody has set
    assert table.count() == 2
    assert table.scan(columns=(name for name in ["v", "id"])).to_arrow().column_names == ["v", "id"]
    assert [one.step for one in table.maintain(["settle"]).steps] == ["settle"]


def test_a_metadata_table_from_python(table: LakeTable) -> None:
    assert table.metadata_build(options={"lakeindex.parallelism": "1"}).partitions == ("files",)
    assert table.metadata_status().partitions[0].kept
    table.upsert(batch_of([Row("c", "y", 1, "1")]))
    verified = table.metadata_verify()
    assert (verified.ok, verified.files) == (True, 2)
    with pytest.raises(MetadataTableError, match="column_stats"):
        table.metadata_drop(["column_stats"])
    assert table.metadata_drop(["files"]).left == ()
    with pytest.raises(MetadataTableError, match="metadata table"):
        table.metadata_verify()


@pytest.mark.parametrize("uri", [None, 7, b"t", ""])
def test_what_is_no_place_is_refused(uri: Any) -> None:
    with pytest.raises(LakeIndexError) as caught:
        lakeindex.open_table(uri)
    assert caught.value.hint


def test_points_in_time_may_be_datetimes(table: LakeTable) -> None:
    first = table.history()[0].instant
    at = dt.datetime.strptime(first + "000", "%Y%m%d%H%M%S%f").replace(tzinfo=dt.UTC)
    table.upsert(batch_of([Row("c", "x", 1, "1")]))
    berlin = at.astimezone(dt.timezone(dt.timedelta(hours=2)))
    for point in (first, at, at.replace(tzinfo=None), berlin, at.isoformat()):
        assert table.read(as_of=point, meta=True).num_rows == 2
        assert table.read(since=point, meta=True).num_rows == 1
        assert table.get(["a", "c"], as_of=point).rows.num_rows == 1
    assert table.read(since=dt.date(2000, 1, 1), meta=True).num_rows == 3
    with pytest.raises(UsageError, match="as_of cannot be 5"):
        table.read(as_of=5, meta=True)  # type: ignore[arg-type] # refused


def test_options_may_be_bools_and_numbers(table: LakeTable) -> None:
    options: dict[str, Any] = {
        "lakeindex.footer.cache": False,
        "lakeindex.parallelism": 1,
        "hoodie.index.bloom.fpp": 0.01,
    }
    assert table.upsert(batch_of([Row("a", "x", 2, "2")]), options=options).updates == 1
    assert table.get(["a"], options=options).rows.num_rows == 1
    assert table.clean(dry_run=True, options=options).files == ()
    asked: RunArguments = {"options": {"lakeindex.parallelism": 3}}
    assert Request.of(table.uri, Operation.UPSERT, asked).runner.slots == 3


@pytest.mark.parametrize(
    "options",
    [{"lakeindex.footer.cache": None}, {"lakeindex.footer.cache": [True]}, {7: "x"}, {"lakeindex.footer.cache": 1}],
)
def test_an_option_that_is_nothing_of_the_kind_is_refused(table: LakeTable, options: Any) -> None:
    with pytest.raises(OptionError) as caught:
        table.upsert(BATCH, options=options)
    assert caught.value.hint


@pytest.mark.parametrize("value", [3, b"x", 1.5, ["a"], True, pa.scalar("x")], ids=repr)
def test_an_argument_of_another_type_is_named(table: LakeTable, value: Any) -> None:
    names = ["batch_id", "run_id", "runner", "progress", "report", "options"]
    names += [] if value == 3 else ["max_quarantined"]
    calls = {name: partial(table.upsert, BATCH, **{name: value}) for name in names}
    for look in (partial(table.get, ["a"]), table.count, table.files):
        calls["partition"] = partial(look, partition=value)
        for name, call in calls.items():
            with pytest.raises(UsageError) as caught:
                call()
            assert caught.value.culprit == name
            assert caught.value.hint
        calls = {"options": partial(table.clean, options=value)}


@pytest.mark.parametrize(
    "columns",
    [
        {"id": ["a", 1], "day": ["x", "x"], "ts": [1, 2], "v": ["a", "b"]},
        {"id": ["a", "b"], "day": ["x", "x"], "ts": [1, "2"], "v": ["a", "b"]},
        {"id": ["a", "b"], "day": ["x", "x"], "ts": [1, 2], "v": ["a", object()]},
    ],
)
def test_a_column_of_many_types_is_named(table: LakeTable, columns: dict[str, list[Any]]) -> None:
    odd = next(name for name, values in columns.items() if len({type(one) for one in values}) > 1)
    with pytest.raises(InputError, match=f"column {odd} ") as caught:
        table.upsert(pd.DataFrame(columns))
    assert caught.value.culprit == odd
    assert "astype" in (caught.value.hint or "")


@pytest.mark.parametrize("data", [["a"], ["a", "b"], [1], [], {"id": ["a"]}])
def test_keys_that_are_no_table_are_refused_with_the_way_to_give_them(table: LakeTable, data: Any) -> None:
    with pytest.raises(InputError) as caught:
        table.delete(data)
    assert "pyarrow.table({'id': ['a', 'b']})" in (caught.value.hint or "")
    keys = pa.table({"id": ["a", "b"], "day": ["x", "x"]})
    assert table.delete(keys).deletes == 2


def test_a_partition_of_another_writer_with_a_control_character_is_read_and_noted(table: LakeTable) -> None:
    folder = Path(table.uri)
    odd = "x\ny"
    (folder / "x").rename(folder / odd)
    for path in (folder / odd).glob("*.parquet"):
        rows = pq.read_table(path)
        fields = {"day": [odd] * len(rows), "_hoodie_partition_path": [odd] * len(rows)}
        for name, values in fields.items():
            rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(values))
        pq.write_table(rows.replace_schema_metadata(unstamped(rows.schema.metadata)), path)
    commit = next((folder / ".hoodie").glob("*.commit"))
    commit.write_text(commit.read_text().replace('"x/', '"x\\ny/').replace('"x"', '"x\\ny"'))
    assert set(table.read(meta=True)["day"].to_pylist()) == {odd}
    report = table.check()
    assert not {one.kind.value for one in report.violations} & {"partition_path", "record_key"}
    assert any("no upsert writes to" in note for note in report.notes)
    with pytest.raises(QuarantineExceededError, match="the control character"):
        table.upsert(batch_of([Row("a", odd, 2, "2")]))


def test_every_public_method_is_a_door() -> None:
    methods = inspect.getmembers(LakeTable, lambda one: inspect.isfunction(one) and not one.__name__.startswith("_"))
    assert len(methods) > 15
    properties = [one.fget for name, one in vars(LakeTable).items() if isinstance(one, property)]
    assert len(properties) == 2
    for function in (
        api.open_table,
        lakeindex.create_table,
        lakeindex.import_table,
        run,
        run_upsert,
        *(one for _, one in methods),
        *properties,
    ):
        assert hasattr(function, "__wrapped__"), function.__name__


@pytest.mark.parametrize(
    ("error", "kind", "cure"),
    [
        (MemoryError(), MachineError, "lakeindex.memory"),
        (pa.ArrowMemoryError("malloc of size 7 failed"), MachineError, "lakeindex.memory"),
        (RuntimeError("can't start new thread"), MachineError, "lakeindex.parallelism"),
        (PermissionError(errno.EACCES, "Permission denied", "/lake/x"), AccessDeniedError, "the right to it"),
        (OSError(errno.ENOSPC, "No space left on device", "/lake/x"), StorageError, "free some space"),
        (OSError(errno.EMFILE, "Too many open files"), StorageError, "ulimit -n"),
    ],
)
def test_errors_of_the_machine_are_said_in_our_words(error: Exception, kind: type[LakeIndexError], cure: str) -> None:
    ours = in_our_words(error)
    assert type(ours) is kind
    shown = Failure.of(error)
    said = described(error)
    assert shown.kind == said["error"] == kind.__name__
    assert shown.exit_code == said["exit_code"] == 1
    assert said["transient"] is (kind is not AccessDeniedError)
    for hint in (shown.hint, said["hint"]):
        assert cure in str(hint)
    if isinstance(error, OSError) and error.filename:
        assert shown.culprit == said["culprit"] == "/lake/x"
        assert "/lake/x" in shown.message


def test_other_errors_stay_what_they_are() -> None:
    assert in_our_words(RuntimeError("odd")) is None
    assert in_our_words(ValueError("odd")) is None
    assert in_our_words(OSError("odd")) is None


def test_no_more_threads_is_said_at_each_door(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    batch = tmp_path / "batch.parquet"
    pq.write_table(BATCH, batch)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(MachineError, match="no more threads"):
            table.upsert(batch_of([Row("c", "x", 1, "1")]))
        answer = command("upsert", table.uri, str(batch), "--json")
    assert (answer.exit_code, answer.error["class"]) == (1, "MachineError")
    assert table.check().ok
    assert table.upsert(batch_of([Row("c", "x", 1, "1")])).inserts == 1


@contextmanager
def as_nobody() -> Iterator[None]:
    """A user without rights of its own: root may read anything."""
    if os.geteuid() != 0:
        yield
        return
    temporary, tempfile.tempdir = tempfile.tempdir, "/tmp"  # root's own may be closed to others
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        tempfile.tempdir = temporary


@pytest.fixture
def shared() -> Iterator[LakeTable]:
    """A table that belongs to the user without rights."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    table = made(folder / "t")
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    yield table
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700)
    shutil.rmtree(folder)


DOORS: dict[str, Callable[[LakeTable], object]] = {
    "read": lambda table: table.read(meta=True),
    "upsert": lambda table: table.upsert(batch_of([Row("a", "x", 2, "2")])),
    "get": lambda table: table.get(["a"]),
    "check": lambda table: table.check(),
    "history": lambda table: table.history(),
}


@pytest.mark.parametrize(
    ("name", "closed"),
    [
        (name, closed)
        for name in DOORS
        for closed in ("x", "file", ".hoodie")
        if name != "history" or closed == ".hoodie"
    ],
)
def test_no_permission_is_said_with_the_path_and_is_no_damage(shared: LakeTable, name: str, closed: str) -> None:
    folder = Path(shared.uri)
    path = next((folder / "x").glob("*.parquet")) if closed == "file" else folder / closed
    path.chmod(0)
    try:
        with as_nobody(), pytest.raises(StorageError, match="Permission denied") as caught:
            DOORS[name](shared)
    finally:
        path.chmod(0o700)
    assert str(path.name) in str(caught.value.culprit)
    assert "the right to it" in (caught.value.hint or "")
    with as_nobody():
        assert shared.check().ok


def test_a_folder_of_checkpoints_that_may_not_be_written_is_named(shared: LakeTable) -> None:
    closed = Path(shared.uri).parent / "closed"
    closed.mkdir()
    closed.chmod(0o500)
    if os.geteuid() == 0:
        os.chown(closed, NOBODY, NOBODY)
    with as_nobody(), pytest.raises(StorageError, match="Permission denied") as caught:
        shared.upsert(batch_of([Row("a", "x", 2, "2")]), checkpoints=str(closed / "runs"))
    assert "closed" in str(caught.value.culprit)
    assert caught.value.hint


def test_a_mistyped_table_leaves_no_folder_of_runs(tmp_path: Path) -> None:
    batch = tmp_path / "batch.parquet"
    pq.write_table(batch_of([Row("a", "x", 1, "1")]), batch)
    done = command("upsert", str(tmp_path / "tabel"), str(batch))
    assert done.exit_code == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["batch.parquet"]


@pytest.mark.parametrize(("error", "said"), [(ValueError("a\nb"), "a"), (ValueError(""), "ValueError"), ("x", "x")])
def test_an_error_is_cited_by_its_first_line(error: object, said: str) -> None:
    assert first_line(error) == said


def test_a_table_made_through_a_link_is_called_as_the_link(tmp_path: Path) -> None:
    like = tmp_path / "like.parquet"
    pq.write_table(batch_of([]), like)
    (tmp_path / "v1").mkdir()
    (tmp_path / "orders").symlink_to(tmp_path / "v1")
    done = command("create", str(tmp_path / "orders"), "--like", str(like), "--key", "id", "--json")
    assert (done.exit_code, json.loads(done.stdout)["table"]) == (0, "orders")
