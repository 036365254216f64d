"""The performance budget: counted costs of small fixed workloads may not grow by more than a tenth.

The figures stand in ``budget.json``. Record them anew after a change that is meant to cost more, or that costs less::

    LAKEINDEX_BUDGET=record .venv/bin/python scripts/env.py run -- .venv/bin/pytest tests/budget
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

import pytest

from lakeindex.files import footer_cache
from lakeindex.model import IndexType
from tests.budget.workloads import WORKLOADS, CountingRunner, Figures, table_of_many_files

BUDGET: Final = Path(__file__).with_name("budget.json")
MARGIN: Final = 0.10
RECORD: Final = "LAKEINDEX_BUDGET=record .venv/bin/python scripts/env.py run -- .venv/bin/pytest tests/budget"


def growth(workload: str, allowed: Figures, found: Figures) -> list[str]:
    """A line for each figure that is beyond its budget."""
    lines = []
    for name in sorted(found.keys() | allowed.keys()):
        old, new = allowed.get(name, 0), found.get(name, 0)
        if new > old * (1 + MARGIN):
            by = f"{(new - old) / old:+.0%}" if old else "it was none"
            lines.append(f"{workload}: {name}: budget {old:,}, now {new:,} ({by})")
    return lines


@pytest.mark.parametrize("workload", WORKLOADS)
def test_costs_stay_within_the_budget(workload: str):
    found = WORKLOADS[workload]()
    budget: dict[str, Figures] = json.loads(BUDGET.read_text()) if BUDGET.exists() else {}
    if os.environ.get("LAKEINDEX_BUDGET") == "record":
        budget = {name: figures for name, figures in budget.items() if name in WORKLOADS} | {workload: found}
        BUDGET.write_text(json.dumps(budget, indent=1, sort_keys=True) + "\n")
        return
    lines = growth(workload, budget.get(workload, {}), found)
    assert not lines, (
        "\n".join(lines) + f"\nFind what asks for more. If it is meant, record it and say why in the change: {RECORD}"
    )


def test_every_recorded_workload_is_still_there():
    assert set(json.loads(BUDGET.read_text())) == set(WORKLOADS)


def test_a_figure_beyond_the_margin_is_named_with_both_values():
    assert growth("w", {"a": 100, "b": 100, "c": 5}, {"a": 110, "b": 111, "d": 1}) == [
        "w: b: budget 100, now 111 (+11%)",
        "w: d: budget 0, now 1 (it was none)",
    ]


def test_a_workload_costs_the_same_twice():
    first, second = (WORKLOADS["upsert of the newest keys"]() for _ in range(2))
    assert not growth("again", first, second)
    assert not growth("again", second, first)


@pytest.mark.parametrize("count", [500, pytest.param(2_000, marks=pytest.mark.slow)])
def test_a_scan_by_key_opens_two_files_of_many(count: int) -> None:
    table = table_of_many_files(count)
    for kind in (IndexType.BLOOM, IndexType.RECORD_INDEX):
        if kind is IndexType.RECORD_INDEX:
            table.index_migrate(kind, runner=CountingRunner())
        footer_cache._remembered.clear()
        scan = table.scan(where="id IN ('k00000777')", columns=["id", "v"])
        report = scan.explain(analyze=True)
        assert (report.files, report.keys, report.rows) == (count, 1, 1)
        assert report.files_opened is not None
        assert report.files_opened <= 2, kind
        assert report.files_pruned_by_key >= count - 2, kind
