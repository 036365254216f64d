"""``lakeindex report`` and ``lakeindex compare``."""

from __future__ import annotations

from pathlib import Path

import click

from lakeindex.cli.completion import complete_run
from lakeindex.cli.shared import json_option, say


@click.command()
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.option("--history", is_flag=True, help="Show the table RUN over its runs, commit by commit.")
@click.option("--checkpoints", metavar="URI", help="Of a table: root of its run folders; default: TABLE.lakeindex.")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write the report as an HTML page: one file that needs no network.",
)
@json_option
def report(run: str, *, history: bool, checkpoints: str | None, html: Path | None, as_json: bool) -> None:
    """Show what each stage of a run passed on and what it cost.

    RUN: the run's folder, TABLE.lakeindex/RUN; or TABLE, or TABLE.lakeindex, for the newest run.
    """
    if history:
        from lakeindex.operations.look.report_history import table_report

        over_time = table_report(run, checkpoints)
        if html is not None:
            from lakeindex.report.history_page import render_history

            html.write_text(render_history(over_time), encoding="utf-8")
        say(over_time, as_json=as_json)
        return
    from lakeindex.report.kept import find_report

    found = find_report(run, checkpoints)
    if html is not None:
        from lakeindex.report.page import render_page

        html.write_text(render_page(found), encoding="utf-8")
    say(found, as_json=as_json)


@click.command()
@click.argument("first", metavar="RUN", shell_complete=complete_run)
@click.argument("second", metavar="RUN", shell_complete=complete_run)
@json_option
def compare(first: str, second: str, as_json: bool) -> None:
    """Show two runs side by side: rows, files, bytes and seconds by stage."""
    from lakeindex.report.compared_runs import compare as compared
    from lakeindex.report.kept import find_report

    found = compared(find_report(first), find_report(second))
    say(found, as_json=as_json)
