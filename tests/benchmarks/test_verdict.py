"""Targets against results."""

from __future__ import annotations

import pytest

from benchmarks import verdict
from benchmarks.peers import PEERS
from benchmarks.verdict import TARGETS, Finding, figures, judge
from benchmarks.workloads import names
from tests.benchmarks.results import measurement, peer, result, small_result


def _finding(findings: list[Finding], group: str, text: str) -> Finding:
    (one,) = [f for f in findings if f.target.group == group and text in f.target.text]
    return one


def test_ratios_to_the_floor_and_to_the_best_of_hudi() -> None:
    known = figures(
        [
            result(
                "M_mono",
                peer("floor", 2.0),
                peer("lakeindex", 2.0),
                peer("lakeindex-nosync", 1.0),
                peer("lakeindex-spark", 3.0),
                peer("hudi", 30.0),
                peer("hudi-bucket", 15.0),
            )
        ],
        [],
    )
    found = judge(known)
    floor = _finding(found, "M mono", "the floor")
    assert floor.values == {"lakeindex-nosync": 0.5, "lakeindex": 1.0}
    assert floor.beaten == {"lakeindex-nosync": True, "lakeindex": False}
    hudi = _finding(found, "M mono", "Hudi's best")
    assert (hudi.best, hudi.values, hudi.beaten) == (
        "hudi-bucket",
        {"lakeindex-spark": 5.0},
        {"lakeindex-spark": False},
    )
    assert _finding(found, "M mono", "delta-rs").values == {}
    text = verdict.table(found)
    assert "| M mono | local | <= 0.8 x the floor | 0.50 x, with sync 1.00 x | floor | without sync only |" in text
    assert "| M mono | Spark | >= 6 x faster than Hudi's best | 5.00 x | hudi-bucket | no |" in text
    assert "| M mono | local | not slower than delta-rs | not measured |  |  |" in text


def test_memory_growth_and_the_other_measurements() -> None:
    known = figures(
        [
            result("M_uuid", peer("lakeindex", 1.0, mb=300), peer("delta-rs", 9.0, mb=400)),
            result("G1_tail", peer("lakeindex-spark", 2.0)),
            result("G20_tail", peer("lakeindex-spark", 2.5, runs=3)),
        ],
        [
            measurement("bulk_load", "M_mono", lakeindex=2.0, delta_rs=8.0),
            measurement("footers", "far_2000", cached=0.1, without=3.0),
            measurement("operations", "stream", mb=232, stream=9.0),
            measurement("metadata", "M_mono_v9", none=2.0, statistics=2.2, record_index=2.2, filters=2.6),
            measurement("dag", "L_small", dag=30.0, dag_single=12.0),
            measurement("cold", "thousand", upsert=0.8, get=0.6, delta_rs=0.5),
        ],
    )
    found = judge(known)
    assert _finding(found, "peak memory, M uuid", "delta-rs").values == {"lakeindex": 0.75}
    spark = next(f for f in found if f.target.group.startswith("growth") and f.target.runner == "Spark")
    assert spark.values == {"lakeindex-spark": 1.25}
    assert spark.few_runs
    assert _finding(found, "bulk load of 5 M rows", "delta-rs").values == {"lakeindex": 0.25}
    assert _finding(found, "2,000 footers, 10 ms away", "cache").values["cached"] == pytest.approx(30.0)
    assert _finding(found, "whole DAG, 1 k batch", "five jobs").beaten == {"dag": False}
    assert _finding(found, "whole DAG, 1 k batch", "one job").beaten == {"dag-single": True}
    cold = [one.values for one in found if one.target.group.startswith("cold, ")]
    assert cold == [{"upsert": 0.8}, {}, {}, {}, {"get": 0.6}, {"upsert": pytest.approx(1.6)}]
    kept = _finding(found, "metadata table kept, M mono", "1.15 x")
    assert (kept.best, kept.beaten) == ("none", {"statistics": True, "record-index": True, "filters": False})
    text = verdict.table(found)
    assert "| none | with statistics and with the record index only |" in text
    assert "| five jobs <= 24 s | five jobs 30.00 s |  | no |" in text
    assert "| <= 600 MB | 232 MB |  | yes |" in text
    assert "| 1.25 x | lakeindex-spark | yes (few runs) |" in text


def test_wrong_and_failed_results_count_for_nothing() -> None:
    assert set(figures([small_result()], [])) == {("S_mono", "floor")}
    assert all(not finding.values for finding in judge(figures([small_result()], [])))


def test_targets_name_what_is_measured() -> None:
    for target in TARGETS:
        assert (target.most is None) != (target.least is None)
        for where in filter(None, (target.workload, target.their_workload)):
            if " " not in where:
                assert where in names()
                assert set(target.ours) | set(target.theirs) <= set(PEERS)
