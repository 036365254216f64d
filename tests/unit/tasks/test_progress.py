"""Who is shown a bar: a person at a terminal or a notebook, when work takes some time; nobody else."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

import lakeindex
from lakeindex.cli.shared import is_terminal
from lakeindex.tasks import progress_bars
from lakeindex.tasks.progress_bars import LateProgress, NoProgress, NotebookProgress, TerminalProgress, progress_of


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class OnlyWritten:
    def write(self, text: str) -> int:
        return len(text)


class Kept:
    def __init__(self) -> None:
        self.steps: list[tuple[str, int]] = []
        self.advanced = 0

    @contextmanager
    def step(self, title: str, total: int) -> Iterator[Callable[[], None]]:
        self.steps.append((title, total))
        yield self.advance

    def advance(self) -> None:
        self.advanced += 1


def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name in progress_bars._UNSEEN:
        monkeypatch.delenv(name, raising=False)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def test_only_a_person_sees_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    at_a_terminal(monkeypatch)
    shown = progress_of(None)
    assert isinstance(shown, LateProgress)
    assert isinstance(shown._shown, TerminalProgress)
    kept = Kept()
    assert progress_of(kept) is kept
    assert isinstance(progress_of(False), NoProgress)
    for name in ("CI", "AIRFLOW_CTX_DAG_ID"):
        with monkeypatch.context() as changed:
            changed.setenv(name, "true")
            assert isinstance(progress_of(None), NoProgress)
            assert progress_of(kept) is kept  # who asks gets it
    closed = io.StringIO()
    closed.close()
    for stream in (io.StringIO(), None, closed, OnlyWritten()):  # a pipe; a process without; one of a program's own
        monkeypatch.setattr(sys, "stderr", stream)
        assert isinstance(progress_of(None), NoProgress)
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert not is_terminal(err=True)


def test_what_is_done_in_a_moment_shows_nothing() -> None:
    kept = Kept()
    with LateProgress(kept, after=3600).step("a", 2) as advance:
        advance()
        advance()
    assert (kept.steps, kept.advanced) == ([], 0)
    late = LateProgress(kept, after=3600)
    with late.step("b", 3) as advance:
        advance()
        late._from = 0.0  # the time is up
        advance()
        assert (kept.steps, kept.advanced) == ([("b", 3)], 2)
        advance()
    assert kept.advanced == 3
    with late.step("c", 1):
        assert kept.steps[-1] == ("c", 1)


def test_an_upsert_from_python_shows_its_steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    terminal = at_a_terminal(monkeypatch)
    monkeypatch.setattr(LateProgress.__init__, "__defaults__", (0.0,))
    columns = pa.schema([("id", pa.string()), ("ts", pa.int64())])
    table = lakeindex.create_table(tmp_path / "t", columns, key="id", ordering="ts")
    table.upsert(pa.table({"id": ["a"], "ts": [1]}), progress=False)
    assert terminal.getvalue() == ""
    table.upsert(pa.table({"id": ["b"], "ts": [1]}))
    assert "1/1" in terminal.getvalue()


def test_a_notebook_shows_a_bar_that_goes_with_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    bar = SimpleNamespace(update=shown.append)
    ipython = SimpleNamespace(HTML=str, display=lambda text, **_: (shown.append(text), bar)[1])
    monkeypatch.setitem(sys.modules, "IPython.display", ipython)
    seconds = iter(range(0, 100, 10))
    monkeypatch.setattr("lakeindex.tasks.progress_bars.time", SimpleNamespace(monotonic=lambda: next(seconds)))
    with NotebookProgress().step("a <b>", 2) as advance:
        advance()
    assert ["0/2" in shown[0], "1/2" in shown[1], shown[2:]] == [True, True, [""]]
    assert "<b>" not in shown[0]
