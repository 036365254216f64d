"""The cost model of docs/scaling.md, its fit and its extension."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import scaling, scaling_fit
from benchmarks.scaling import Figure, expected_seconds
from benchmarks.scaling_extension import SCENARIOS, Cluster, extension, lines
from benchmarks.scaling_fit import Measured
from benchmarks.scaling_model import COLUMNS, TARGETS, Constants, Load, counts_of, predicted
from lakeindex.pipeline import Stage

TRUE: Constants = {
    stage: {target: {column: 1.0 / 10**n for n, column in enumerate(columns)} for target in TARGETS}
    for stage, columns in COLUMNS.items()
}


def _runs() -> list[Measured]:
    runs = []
    for files in (5, 20, 100):
        for batch in (100, 5_000, 40_000):
            for candidates in (1.0, float(files)):
                for footers in (0.0, float(files)):
                    load = Load(files, 20_000, batch, batch * 0.8, files, candidates, footers)
                    counts = counts_of(load)
                    stages = {
                        str(s): {target: predicted(TRUE, s, counts[s], target) for target in TARGETS} for s in COLUMNS
                    }
                    runs.append(Measured("any", load, stages))
    return runs


def test_fit_explains_what_the_model_made():
    runs = _runs()
    constants = scaling_fit.fit(runs)
    for target in TARGETS:
        found = scaling_fit.errors(runs, constants, target)
        assert max(abs(error) for errors in found.values() for error in errors) < 1e-6


def test_model_grows_with_what_it_says():
    load = Load(100, 10_000, 1_000, 1_000, 100)
    counts, doubled = counts_of(load), counts_of(replace(load, files=200, touched_files=200))
    assert doubled[Stage.INDEX_LOOKUP]["files in scope"] == 2 * counts[Stage.INDEX_LOOKUP]["files in scope"]
    assert counts[Stage.VERIFY_KEYS]["files opened"] <= 100
    random = counts_of(replace(load, candidates=100))
    assert random[Stage.BLOOM_CHECK]["pairs probed"] == 100 * counts[Stage.BLOOM_CHECK]["pairs probed"]


def test_more_executors_never_take_longer():
    for scenario in SCENARIOS:
        few, many = (
            sum(line.seconds for line in lines(scenario, TRUE, Cluster(executors=count))) for count in (10, 100)
        )
        assert many < few


def test_a_step_that_would_take_too_long_is_foreseen():
    assert expected_seconds([]) == 0
    assert expected_seconds([Figure(2.0)]) == 20.0
    assert expected_seconds([Figure(1.0), Figure(100.0)]) == 10_000.0


def test_tables_are_made_from_saved_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = scaling.section(scaling.load())
    assert "| publish, every file |" in text
    for scenario in SCENARIOS:
        assert scenario.title in extension(TRUE)
    kept = scaling_fit.PAGE.read_text()
    page = tmp_path / "scaling.md"
    page.write_text(kept)
    monkeypatch.setattr(scaling_fit, "PAGE", page)
    scaling_fit.write_page(json.loads(scaling_fit.RESULT.read_text()))
    assert page.read_text() == kept
