"""The pages that are made from results."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import page, pruning, report, timings
from benchmarks.pruning import Case, Timing
from lakeindex.index.key_ranges import Pruner
from tests.benchmarks.results import measurement, peer, result


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty pages and no results."""
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(report, "README", tmp_path / "README.md")
    monkeypatch.setattr(page, "PAGE", tmp_path / "docs" / "performance.md")
    (tmp_path / "docs").mkdir()
    page.PAGE.write_text(f"# Performance\n\n{page.BEGIN}\n{report.END}\n")
    report.README.write_text(f"# Benchmarks\n\n{report.BEGIN}\n{report.END}\n")
    return tmp_path


def test_pages_are_made_without_any_result(pages: Path) -> None:
    page.update()
    text = page.PAGE.read_text()
    assert "not measured" in text
    assert "![" not in text
    assert not (pages / "docs" / "images").exists()


def test_pages_show_what_is_there(pages: Path) -> None:
    report.save(result("M_mono", peer("floor", 2.0), peer("lakeindex", 1.0)))
    report.save(result("G1_tail", peer("lakeindex", 1.0), rows=1_000_000))
    report.save(result("G20_tail", peer("lakeindex", 1.1), rows=20_000_000))
    report.save(result("T_mono", peer("floor", 2.0)))
    pruning.save([Timing(Case("growing", 10, 2), 10, dict.fromkeys(Pruner, 1.5))])
    page.publish(measurement("cold", "L_small", help=0.5), dry=False)
    text = page.PAGE.read_text()
    assert "| M mono | local | <= 0.9 x the floor | with sync 0.50 x | floor | yes |" in text
    assert "## Growth" in text
    assert "## Cold commands" in text
    assert "T_mono" not in text
    assert "| L_small | help | 0.50 | 0.50 - 0.50 | 0.5 | help |" in text
    pictures = {"performance_upserts.svg", "performance_memory.svg", "performance_growth.svg"}
    assert {path.name for path in (pages / "docs" / "images").iterdir()} == pictures
    assert all(f"images/{name}" in text for name in pictures)
    readme = report.README.read_text()
    assert "**M_mono**" in readme
    assert "**Range pruning**" in readme


def test_the_same_results_give_the_same_files(pages: Path) -> None:
    report.save(result("M_mono", peer("floor", 2.0), peer("lakeindex", 1.0)))
    page.update()
    picture = pages / "docs" / "images" / "performance_upserts.svg"
    before = picture.read_bytes(), page.PAGE.read_bytes()
    page.update()
    assert (picture.read_bytes(), page.PAGE.read_bytes()) == before


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
