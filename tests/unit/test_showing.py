"""How tables, histories and summaries show themselves in a notebook and at a prompt."""

from __future__ import annotations

import dataclasses
import html.parser
from pathlib import Path

import lakeindex
from lakeindex.commands.check.report import Broken, Checked, CheckReport, Violation
from lakeindex.commands.look.history import History, HistoryEntry
from lakeindex.run.summary import RunSummary, StageSummary
from tests.unit.cli.tables import batch, new_table, row

HOSTILE = "<script>alert(1)</script>'\"&"


class Tags(html.parser.HTMLParser):
    """Every tag and all text of a piece of HTML; each table must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert attrs == []
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def test_a_table_a_run_and_a_history(tmp_path: Path):
    path = new_table(tmp_path)
    table = lakeindex.open_table(str(path))
    assert repr(table) == f"LakeTable({str(path)!r})"
    run = table.upsert(str(batch(tmp_path / "b.parquet", [row(n) for n in range(1500)])), batch_id="first")
    shown = Tags(table._repr_html_())
    assert {"id", "region", "ts", "BLOOM"} <= set(shown.text.split("\n"))
    assert run.instant is not None
    assert run.instant in shown.text
    assert repr(run).startswith(f"<upsert 'first': committed {run.instant}; 1,500 rows in, 1,500 inserts; ")
    assert "1,500" in Tags(run._repr_html_()).text
    assert "merge_write" in Tags(run._repr_html_()).text
    history = table.history()
    assert repr(history) == f"<1 instants: {run.instant} UPSERT completed>"
    assert run.instant in Tags(history._repr_html_()).text
    assert "every invariant holds" in Tags(table.check()._repr_html_()).text


def test_a_table_that_is_gone_says_so_and_raises_nothing(tmp_path: Path):
    shown = Tags(lakeindex.LakeTable(str(tmp_path / HOSTILE.replace("/", "")))._repr_html_())
    assert "no Hudi table" in shown.text
    assert "script" not in shown.tags


def test_whatever_is_shown_is_escaped():
    stage = StageSummary(HOSTILE, 1.0, 1, 1, 0, 0, 10, 1)
    run = RunSummary("20260101000000000", HOSTILE, HOSTILE, "UPSERT", False, stages=(stage,), notes=(HOSTILE,))
    entry = HistoryEntry(
        "20260101000000000", HOSTILE, HOSTILE, None, operation=HOSTILE, batch_id=HOSTILE, problem=HOSTILE
    )
    violation = Violation(Broken.FILE, HOSTILE, HOSTILE, HOSTILE)
    report = CheckReport(HOSTILE, "uri", False, (violation,), (HOSTILE,), Checked(), 0.1)
    for one in (run, History((entry,)), report):
        shown = Tags(one._repr_html_())
        assert "script" not in shown.tags
        assert shown.text.count(HOSTILE) >= 3


def test_long_histories_are_cut():
    entries = [HistoryEntry(f"{n:017d}", "commit", "completed", None) for n in range(250)]
    history = History(entries)
    assert repr(history).endswith("and 247 more>")
    assert "and 150 more" in Tags(history._repr_html_()).text
    assert history == tuple(entries)
    assert repr(History(())) == "<no instants>"


def test_a_run_that_did_nothing():
    run = RunSummary(None, "b", "r", "DELETE", True)
    assert repr(run) == "<delete 'b': nothing committed; 0 rows in; 0.00 s>"
    assert dataclasses.replace(run, ignored=2, rows_in=2).fates == {"ignored": 2}
