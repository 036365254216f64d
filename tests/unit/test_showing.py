"""How tables, histories and summaries show themselves in a notebook and at a prompt."""

from __future__ import annotations

import html.parser
import io
from importlib import import_module
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console

import lakeindex
from lakeindex.operations.check_violations import Broken, Checked, CheckReport, Violation
from lakeindex.operations.look.history import History, HistoryEntry
from lakeindex.run.summary import RunSummary, StageSummary
from lakeindex.showing.facts import facts_of
from lakeindex.showing.notebook import Shown, shower
from tests.unit.cli.tables import batch, new_table, row

HOSTILE = "<script>alert(1)</script>'\"&"


def test_facts_that_are_nothing_are_shown_and_those_that_are_not_known_are_not() -> None:
    written = io.StringIO()
    facts = {"zero": 0, "no": False, "none": None, "empty": "", "nobody": ()}
    Console(file=written, width=80).print(facts_of("t", facts))
    assert [line.split()[0] for line in written.getvalue().splitlines() if line.strip()] == ["t", "zero", "no"]


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


def test_every_result_shows_itself_as_the_command_line_does(tmp_path: Path):
    """All that the handle returns: the HTML has what is printed; a text of somebody else's is escaped."""
    path = new_table(tmp_path)
    table = lakeindex.open_table(str(path))
    run = table.upsert(str(batch(tmp_path / "b.parquet", [row(n) for n in range(150)])), batch_id=HOSTILE)
    table.upsert(str(batch(tmp_path / "c.parquet", [row(n) for n in range(7)])), batch_id="second")
    key = table.scan(columns=["_hoodie_record_key"]).head(1).column(0)[0].as_py()
    shown = {
        "report": (table.report(run), "index_lookup"),
        "report_history": (table.report_history(), "changed"),
        "compare": (table.compare(run, table.report().run.run_id), "ratio"),
        "inspect": (table.inspect(), "record key"),
        "get": (table.get([key, "gone"]), "not there: gone"),
        "files": (table.files(), ".parquet"),
        "partitions": (table.partitions(), "1 files"),
        "history": (table.history(), "UPSERT"),
        "check": (table.check(), "every invariant holds"),
        "scan": (table.scan(), "the first 10 rows that are found"),
        "no such row": (table.scan(where="id = 'gone'"), "no rows"),
        "not a scan": (table.scan(where="gone = 1"), "gone"),
        "explain": (table.scan().explain(), "files left"),
        "clean": (table.clean(dry_run=True), "would delete"),
        "archive": (table.archive(dry_run=True), "nothing to archive"),
        "maintain": (table.maintain(["clean"]), "what it changed"),
        "advise": (table.advise(str(tmp_path / "c.parquet")), "after filters"),
        "metadata": (table.metadata_build(), "built files"),
        "metadata status": (table.metadata_status(), "file groups"),
        "metadata verify": (table.metadata_verify(), "it says what is there"),
        "index": (table.index_build("RECORD_INDEX"), "150 keys"),
        "index status": (table.index_status("RECORD_INDEX"), "covers"),
        "index verify": (table.index_verify("RECORD_INDEX"), "every entry is right"),
        "repair": (table.repair_keys(), "every key is stored once"),
    }
    wrong = [name for name, (found, text) in shown.items() if text not in Tags(found._repr_html_()).text]
    assert wrong == []
    assert [name for name, (found, _) in shown.items() if "script" in Tags(found._repr_html_()).tags] == []
    assert HOSTILE in Tags(table.report(run)._repr_html_()).text


def test_every_result_names_what_prints_it():
    """Each subclass's link leads to a function; who adds a result without one sees it here."""
    for name in ("advise", "changes", "check_violations", "index", "look.find_tables"):
        import_module(f"lakeindex.operations.{name}")
    results = all_below(Shown)
    assert len(results) > 30
    assert [kind.__name__ for kind in results if not callable(shower(kind.shown_by))] == []


def all_below(kind: type) -> list[type]:
    return [one for below in kind.__subclasses__() for one in (below, *all_below(below))]


def test_a_run_that_did_nothing():
    run = RunSummary(None, "b", "r", "DELETE", True)
    assert repr(run) == "<delete 'b': nothing committed; 0 rows in; 0.00 s>"
    assert replace(run, ignored=2, rows_in=2).fates == {"ignored": 2}
