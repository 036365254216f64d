"""The pages that are made from results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import page, report, scorecard, timings
from tests.benchmarks.results import measurement, peer, result


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty pages and no results."""
    monkeypatch.setattr(timings, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(report, "README", tmp_path / "README.md")
    monkeypatch.setattr(page, "PAGE", tmp_path / "docs" / "performance.md")
    monkeypatch.setattr(page, "SCORECARD", tmp_path / "docs" / "scorecard.md")
    (tmp_path / "docs").mkdir()
    page.SCORECARD.write_text(f"# Scorecard\n\n{page.BEGIN}\n{report.END}\n")
    page.PAGE.write_text(f"# Performance\n\n{page.BEGIN}\n{report.END}\n")
    report.README.write_text(f"# Benchmarks\n\n{report.BEGIN}\n{report.END}\n")
    return tmp_path


def test_pages_are_made_without_any_result(pages: Path) -> None:
    page.update()
    text = page.PAGE.read_text()
    assert "not measured" in text
    assert "![" not in text
    assert not (pages / "docs" / "images").exists()


@pytest.mark.slow
def test_pages_show_what_is_there(pages: Path) -> None:
    report.save(result("M_mono", peer("floor", 2.0), peer("lakeindex", 1.0)))
    report.save(result("G1_tail", peer("lakeindex", 1.0), rows=1_000_000))
    report.save(result("G20_tail", peer("lakeindex", 1.1), rows=20_000_000))
    report.save(result("T_mono", peer("floor", 2.0)))
    page.publish(measurement("cold", "L_small", help=0.5), dry=False)
    text = page.PAGE.read_text()
    assert "| M mono | local | <= 0.8 x the floor | with sync 0.50 x | floor | yes |" in text
    assert "## Growth" in text
    assert "## Cold commands" in text
    assert "T_mono" not in text
    assert "| L_small | help | 0.50 | 0.50 - 0.50 | 0.5 | help |" in text
    pictures = {"performance_upserts.svg", "performance_memory.svg", "performance_growth.svg"}
    assert {path.name for path in (pages / "docs" / "images").iterdir()} == pictures | {"scorecard.svg"}
    assert all(f"images/{name}" in text for name in pictures)
    assert "**M_mono**" in report.README.read_text()


@pytest.mark.slow
def test_the_scorecard_sets_every_engine_beside_ours(pages: Path) -> None:
    ours = peer("lakeindex", 2.0)
    wrong = replace(peer("lance", 1.0), correct=False)
    failed = replace(peer("floor", 1.0), seconds=[], failed="it broke")
    report.save(
        result("M_mono", ours, peer("delta-rs", 1.0), peer("hudi", 9.0), peer("hudi-bucket", 8.0), wrong, failed)
    )
    report.save(result("wide", ours, peer("delta-rs", 5.0)))
    report.save(result("text", peer("delta-rs", 5.0)))
    page.publish(measurement("bulk_load", "M_mono", lakeindex=2.0, hudi=6.0), dry=False)
    rows = [line for line in page.SCORECARD.read_text().splitlines() if line.startswith("|")]
    assert rows == [
        "| workload | lakeindex, s | floor | delta-rs | lance | best of Hudi | right | measured |",
        "|---|---|---|---|---|---|---|---|",
        "| M_mono | 2.00 | failed | **0.50** | **wrong rows** | 4.00 | **not all** | today, abc |",
        "| wide | 2.00 |  | 2.50 |  |  | all | today, abc |",
        "| bulk load, M_mono | 2.00 |  |  |  | 3.00 | all | today, abc |",
    ]
    assert (pages / "docs" / "images" / "scorecard.svg").exists()


def test_the_scorecard_says_that_there_is_nothing(pages: Path) -> None:
    assert scorecard.made([], pages) == ["Nothing was measured yet."]


def test_the_same_results_give_the_same_files(pages: Path) -> None:
    report.save(result("M_mono", peer("floor", 2.0), peer("lakeindex", 1.0)))
    page.update()
    made = [*(pages / "docs" / "images").iterdir(), page.PAGE, page.SCORECARD]
    assert len(made) == 5
    before = [path.read_bytes() for path in made]
    page.update()
    assert [path.read_bytes() for path in made] == before


@pytest.mark.usefixtures("pages")
def test_a_new_measurement_keeps_other_workloads() -> None:
    timings.save(measurement("dag", "L_small", dag=40.0, submit=10.0))
    timings.save(measurement("dag", "M_mono", dag=90.0))
    timings.save(measurement("dag", "L_small", dag=30.0))
    whole = timings.load("dag")
    assert whole is not None
    assert {(t.workload, t.peer, t.median) for t in whole.timings} == {
        ("L_small", "dag", 30.0),
        ("M_mono", "dag", 90.0),
    }


@pytest.mark.usefixtures("pages")
def test_a_trial_keeps_nothing_and_a_failure_is_shown() -> None:
    trial = measurement("cold", "L_small", help=0.5)
    trial.timings[0].fail(RuntimeError("first\nno such table"))
    assert page.publish(trial, dry=True) == 1
    assert trial.timings[0].failed == "no such table"
    assert "| L_small | help | failed |" in timings.table(trial)
    assert timings.load("cold") is None
