"""What the demo prints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from demo.readback import Comparison
from lakeindex.airflow.funnel import FATES
from lakeindex.run.summary import RunSummary
from lakeindex.showing.results import funnel

_SHOWN_COMPARISONS = 8


def show_counts(console: Console, title: str, summary: dict[str, Any]) -> None:
    """What happened to the rows of a batch, in a line."""
    parts = [f"{summary[name]:,} {name.replace('_', ' ')}" for name in FATES if summary.get(name)]
    console.print(f"{title}: {', '.join(parts)}; instant {summary['instant']}", soft_wrap=True)


def show_funnel(console: Console, summary: dict[str, Any]) -> None:
    """How many rows and (key, file) pairs each stage took in and let through."""
    console.print(Padding(funnel(RunSummary.from_json(json.dumps(summary))), (0, 0, 0, 4)))


def show_comparisons(console: Console, comparisons: Sequence[Comparison]) -> None:
    """The verdict; everything that differs, else a few of what is equal."""
    wrong = [c for c in comparisons if not c.holds]
    if wrong:
        console.print(f"[bold]7[/] [red]{len(wrong)} of {len(comparisons)} differ from a plain dictionary replay")
    else:
        console.print(
            f"[bold]7[/] [green]all {len(comparisons)} counts equal a plain dictionary replay of the same feed[/]"
        )
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("    compared", "expected", "found"):
        table.add_column(name, justify="left" if "compared" in name else "right")
    for comparison in wrong or comparisons[-_SHOWN_COMPARISONS:]:
        table.add_row(f"    {comparison.what}", _text(comparison.expected), _text(comparison.found))
    console.print(table)


def show_next(console: Console, uri: str, *, holds: bool) -> None:
    """What to try now."""
    if not holds:
        console.print("the table is left as it is: look at it with lakeindex inspect, history and check")
        return
    console.print(
        f"""
Try next:
  .venv/bin/lakeindex history {uri}
  .venv/bin/lakeindex read {uri} --as-of 2013-12-31 --out flights.parquet
  make airflow      then http://127.0.0.1:8080: trigger upsert_table by hand, or unpause upsert_flights and backfill
                    December (the feed of every day is in {uri.removesuffix("/lake/flights")}/feed)
  conf/tables/      a yaml file a table: add your own, it gets into the trigger form""",
        highlight=False,
        soft_wrap=True,
    )


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
