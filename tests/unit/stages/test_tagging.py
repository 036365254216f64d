"""Where tagging is done: near, unless rows or many locations have to be read for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Oracle, Row, batch_of, content_of, counts_of, make_table


class FarRunner(LocalRunner):
    """Executors elsewhere, as far as the stages can tell; notes what was sent to them."""

    def __init__(self) -> None:
        super().__init__(1)
        self.sent: list[str] = []

    def nearby(self) -> LocalRunner:
        return LocalRunner(1)

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any], title: str) -> list[Any]:
        self.sent.append(title.partition(":")[2].strip())
        return super().map(function, tasks, title)


BATCHES = [
    [Row(f"k{n:04d}", "x", 1, "v") for n in range(500)],
    [Row(f"k{n:04d}", "x", 2, "v") for n in range(900, 1400)],
    [Row(f"k{n:04d}", "x", 3, "v", deleted=n % 2 == 0) for n in range(500)],
]


@pytest.mark.parametrize(
    ("index", "sent"),
    [
        ("SIMPLE", [False, False, True]),  # the third has deletes: its rows are read
        ("GLOBAL_SIMPLE", [True, True, True]),  # new rows have to be parted by partition
    ],
)
def test_what_reads_no_rows_is_tagged_near(tmp_path: Path, index: str, sent: list[bool]):
    table, oracle = make_table(tmp_path / "t", hoodie__index__type=index), Oracle()
    for batch, is_sent in zip(BATCHES, sent, strict=True):
        runner = FarRunner()
        summary = table.upsert(batch_of(batch), runner=runner, options={"lakeindex.spark.driver.bytes": "1000"})
        assert counts_of(summary) == oracle.apply(batch)
        assert "keys, partitions, quarantine" in runner.sent
        assert ("tag inserts" in runner.sent) is is_sent
    assert content_of(table) == oracle.content()
