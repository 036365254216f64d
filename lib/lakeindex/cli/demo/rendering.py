"""What the demo tells a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lakeindex.pipeline import Stage
from lakeindex.showing.grid import escape
from lakeindex.showing.notebook import Screen
from lakeindex.showing.results import show_check, show_run

if TYPE_CHECKING:
    from lakeindex.cli.demo.story import DemoResult

_TITLES: Final = {
    "table": "1  A table: record key order_id, partition day, ordering updated_at",
    "load": "2  Six days of orders, one batch",
    "changes": "3  What is heard on the seventh day: new, paid, returned, late, repeated, cancelled and bad rows",
    "row": "4  One order before and after",
    "check": "5  Every invariant of the table",
}
_STAGES: Final = {
    Stage.STAGE_INPUT: "made keys, set rows without a key aside, combined repeated ones",
    Stage.INDEX_LOOKUP: "read footers; left a key only with files whose key range holds it",
    Stage.BLOOM_CHECK: "asked their bloom filters: orders that were forgotten fall out here",
    Stage.VERIFY_KEYS: "read the key column of what is left, and found which rows are older than the stored ones",
    Stage.MERGE_WRITE: "rewrote the files that change, and published one commit",
}


def show_step(console: Screen, step: str, done: Any) -> None:
    """A step, when it is done."""
    console.print(f"[bold]{_TITLES[step]}[/bold]", soft_wrap=True)
    if step == "table":
        console.print(escape(done.uri), soft_wrap=True)
    elif step in ("load", "changes"):
        show_run(console, done)
    elif step == "row":
        for name, row in zip(("before", "now"), done, strict=True):
            console.print(f"{name:>6}: {', '.join(map(str, row.values()))}", markup=False)
    else:
        show_check(console, done)
    if step == "changes":
        console.print()
        for stage, text in _STAGES.items():
            console.print(f"{stage:>12}  {text}", markup=False, soft_wrap=True)
    console.print()


def show_demo(console: Screen, result: DemoResult) -> None:
    """Where everything is, and what to try now."""
    table = escape(result.table)
    console.print(
        f"""[green]Every count is what the data say[/green]; {result.seconds:.1f} s.

  table   {table}
  report  {escape(result.report)}

Try next:
  lakeindex report  {table}.lakeindex
  lakeindex history {table}
  lakeindex get     {table} {result.before["order_id"]}
  lakeindex read    {table} --where "status = 'returned'" --out returned.parquet""",
        soft_wrap=True,
    )
