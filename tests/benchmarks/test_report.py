"""The tables of the benchmark's README."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.report import PeerResult, WorkloadResult


def _result() -> WorkloadResult:
    floor = PeerResult("floor", "the floor", None, True, 1.0, [2.0, 1.0, 4.0], [2.0] * 3, [0.0] * 3, 2**30)
    other = PeerResult("other", "the other", None, False, 1.0, [6.0, 5.0, 9.0], [2.0] * 3, [0.0, 1.0, 0.0], 2**30)
    broken = PeerResult("broken", "the broken", "it broke")
    return WorkloadResult("S_mono", 1000, 10, 12, "a machine", "today", "abc", [floor, other, broken])


def test_table_shows_medians_ratios_noise_and_wrong_results() -> None:
    text = report.table(_result())
    assert "| the floor | 2.00 | 1.00 - 4.00 | 1.00 |" in text
    assert "| the other | ~6.00 | 5.00 - 9.00 | 3.00 |" in text
    assert text.count("| yes |") == 1
    assert "**NO**" in text
    assert "| the broken | failed |" in text


def test_saved_results_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    report.save(_result())
    assert report.load_all() == [_result()]


def test_readme_keeps_what_is_around_the_markers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    monkeypatch.setattr(report, "README", readme)
    report.update_page(["new"])
    assert readme.read_text() == f"before\n{report.BEGIN}\n\nnew\n\n{report.END}\nafter\n"
    readme.write_text("no markers")
    with pytest.raises(ValueError, match="no lines"):
        report.update_page(["new"])
