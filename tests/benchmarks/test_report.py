"""The tables of the benchmark's README."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import report, timings
from tests.benchmarks.results import small_result


def test_table_shows_medians_ratios_noise_and_wrong_results() -> None:
    text = report.table(small_result())
    assert "| the floor | 2.00 | 1.00 - 4.00 | 1.00 |  |" in text
    assert "| the other | ~6.00 | 5.00 - 9.00 | 3.00 |  |" in text
    assert text.count("| yes |") == 1
    assert "**NO**" in text
    assert "| the broken | failed |" in text
    assert "12 of 40 files" in text


def test_saved_results_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timings, "RESULTS", tmp_path)
    (tmp_path / "index_lookup_M_mono.json").write_text("{}")  # of another measurement
    report.save(small_result())
    assert report.load_all() == [small_result()]


def test_readme_keeps_what_is_around_the_markers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    monkeypatch.setattr(report, "README", readme)
    report.update_page(["new"])
    assert readme.read_text() == f"before\n{report.BEGIN}\n\nnew\n\n{report.END}\nafter\n"
    readme.write_text("no markers")
    with pytest.raises(ValueError, match="no lines"):
        report.update_page(["new"])
