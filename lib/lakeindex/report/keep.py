"""Leave a run's report in its folder."""

from __future__ import annotations

from lakeindex.aftermath import noted
from lakeindex.options.types import ReportFormat
from lakeindex.report.build import PAGE_FILE, REPORT_FILE, build_report
from lakeindex.run.spec import RunSpec
from lakeindex.run.summary import RunSummary
from lakeindex.tasks.stores import storage_at


def keep_report(spec: RunSpec, run: RunSummary, default: ReportFormat) -> tuple[str, ...]:
    """Write ``report.json`` and, if ``lakeindex.report`` asks for it, ``report.html`` into the
    folder of a finished run.

    Args:
        spec: the run.
        run: its summary.
        default: what is written if the option is not given.

    Returns:
        Notes on what went wrong, if anything did: the batch is committed, and a report is no
        reason to call that a failure.
    """
    wanted = spec.config.report or default
    if wanted is ReportFormat.NONE:
        return ()

    def keep() -> None:
        report = build_report(spec.checkpoints_uri, spec.run_id, spec.table_uri, run)
        store = storage_at(spec.checkpoints_uri)
        if wanted is ReportFormat.HTML:
            from lakeindex.report.page import render_page

            store.write(f"{spec.run_id}/{PAGE_FILE}", render_page(report).encode())
        store.write(f"{spec.run_id}/{REPORT_FILE}", report.to_json().encode())

    return noted("the run's report could not be written", keep)
