"""What a run tells the logger ``lakeindex``; and that the library alone prints nothing."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lakeindex.api.table import LakeTable
from lakeindex.conductor import upsert as conductor
from lakeindex.errors import WriteConflictError, show_warnings
from lakeindex.stages.merge_write.stage import MergeAttempt
from tests.builders import Row, batch_of, make_table

ROOT = Path(__file__).resolve().parents[2]


def lines(caplog: pytest.LogCaptureFixture, run_id: str) -> list[str]:
    """What was logged of a run, behind its name."""
    start = f"run {run_id}: "
    return [text.removeprefix(start) for text in caplog.messages if text.startswith(start)]


def test_a_run_tells_its_stages_and_how_it_ended(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = make_table(tmp_path / "t")
    with caplog.at_level(logging.INFO, "lakeindex"):
        done = table.upsert(batch_of([Row("a", "x", 1, "1")]), batch_id="b")
    told = lines(caplog, done.run_id)
    assert told[0] == f"UPSERT of batch b into {table.uri}"
    assert [text.partition(" done: ")[0] for text in told[1:-1]] == [
        "stage_input",
        "index_lookup",
        "bloom_check",
        "verify_keys",
    ]
    assert told[-1].startswith(f"committed {done.instant}; {{'inserts': 1}}")
    assert {record.name.partition(".")[0] for record in caplog.records if record.message.startswith("run ")} == {
        "lakeindex"
    }


def test_conflicts_and_attempts_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(tmp_path / "t")
    run, tries = MergeAttempt.run, []

    def lost_twice(self: MergeAttempt) -> Any:
        tries.append(1)
        if len(tries) <= 2:
            raise WriteConflictError("somebody was faster", culprit="t", hint="again")
        return run(self)

    monkeypatch.setattr(MergeAttempt, "run", lost_twice)
    with caplog.at_level(logging.INFO, "lakeindex"):
        done = table.upsert(batch_of([Row("a", "x", 1, "1")]))
    told = lines(caplog, done.run_id)
    assert [text for text in told if "lost" in text] == [
        f"attempt {n} was lost to another writer: somebody was faster (again)" for n in (1, 2)
    ]


def test_a_table_that_moves_under_a_reader_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, other = make_table(tmp_path / "t"), LakeTable(str(tmp_path / "t"))
    table.upsert(batch_of([Row("a", "x", 1, "1")]))
    look_up, moved = conductor.look_up, []

    def late(*args: Any, **named: Any) -> Any:
        if not moved:
            moved.append("begun")
            other.upsert(batch_of([Row("b", "x", 1, "1")]))
            raise WriteConflictError("its files are gone", culprit="t", hint="again")
        return look_up(*args, **named)

    monkeypatch.setattr(conductor, "look_up", late)
    with caplog.at_level(logging.INFO, "lakeindex"):
        table.upsert(batch_of([Row("c", "x", 1, "1")]))
    assert "was changed by another writer meanwhile" in caplog.text


def printed(code: str, folder: Path) -> tuple[str, str]:
    """What a program prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env={"PYTHONPATH": f"{ROOT}/lib"},
    )
    return done.stdout, done.stderr


@pytest.mark.few(0)
def test_the_library_prints_nothing_and_a_program_of_ours_its_warnings(tmp_path: Path) -> None:
    run = (
        "import lakeindex, logging, pyarrow as pa\n"
        "t = lakeindex.create_table('t', pa.schema([('id', pa.string())]), key='id')\n"
        "t.upsert([{'id': 'a'}]); t.upsert([{'id': 'b'}], dry_run=True); t.read(meta=True)\n"
        "logging.getLogger('lakeindex.telemetry').warning('something is odd')\n"
    )
    assert printed(run, tmp_path) == ("", "")
    ours = "from lakeindex.errors import show_warnings; show_warnings(); show_warnings()\n" + run.replace("'t'", "'u'")
    assert printed(ours, tmp_path) == ("", "something is odd\n")


def test_warnings_go_where_logging_is_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    before = list(logging.getLogger("lakeindex").handlers)
    monkeypatch.setattr(logging.getLogger(), "handlers", [logging.NullHandler()])
    show_warnings()
    assert logging.getLogger("lakeindex").handlers == before


def test_a_progress_of_ones_own_sees_every_step(tmp_path: Path) -> None:
    class Steps:
        """What docs/api.md describes."""

        def __init__(self) -> None:
            self.seen: list[tuple[str, int, int]] = []

        @contextmanager
        def step(self, title: str, total: int) -> Iterator[Callable[[], None]]:
            done: list[None] = []
            yield lambda: done.append(None)
            self.seen.append((title, total, len(done)))

    steps = Steps()
    make_table(tmp_path / "t").upsert(batch_of([Row("a", "x", 1, "1")]), progress=steps)
    assert steps.seen
    assert all(total == done for _, total, done in steps.seen)
    assert any(title.startswith("merge write") for title, _, _ in steps.seen)
