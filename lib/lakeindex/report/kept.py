"""Leave a run's report in its folder, and find it by where the folder is."""

from __future__ import annotations

from lakeindex.errors import ObjectNotFoundError, UsageError, noted
from lakeindex.format.file_names import METADATA_FOLDER
from lakeindex.options.types import ReportFormat
from lakeindex.pipeline import SUMMARY_FILE, default_checkpoints
from lakeindex.report.make_report import PAGE_FILE, REPORT_FILE, build_report, runs_with
from lakeindex.report.run_report import RunReport
from lakeindex.run.run_folders import is_run_of
from lakeindex.run.spec import RunSpec
from lakeindex.run.summary import RunSummary
from lakeindex.storage.paths import absolute
from lakeindex.tasks.stores import storage_at

_SUFFIX = ".lakeindex"


def keep_report(spec: RunSpec, run: RunSummary, default: ReportFormat) -> tuple[str, ...]:
    """Write ``report.json`` and, if ``lakeindex.report`` asks for it, ``report.html`` into the
    folder of a finished run.

    Args:
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


def find_report(run: str, checkpoints: str | None = None) -> RunReport:
    """The report of a run, as it was left, or made from what the run left.

    Args:
        run: a run's folder, ``TABLE.lakeindex/RUN``; a table, whose newest finished run is meant; or the root of run
            folders, ``TABLE.lakeindex``, likewise.
        checkpoints: root of the run folders of a table; by default ``<table>.lakeindex`` beside it.

    Raises:
        UsageError: there is no finished run.
    """
    place = absolute(run)
    root, _, name = place.rpartition("/")
    at_run, table = f"{name}/{SUMMARY_FILE}", None
    if not root or not any(one.path == at_run for one in storage_at(root).list_folder(name).objects):
        table = place if METADATA_FOLDER in storage_at(place).list_folder().folders else None
        root = place if table is None else absolute(checkpoints or default_checkpoints(place))
        name = _newest(root, table)
    try:
        return RunReport.from_json(storage_at(root).read(f"{name}/{REPORT_FILE}"))
    except (ObjectNotFoundError, ValueError, TypeError, KeyError):
        return build_report(root, name, table or root.removesuffix(_SUFFIX))


def _newest(root: str, table: str | None) -> str:
    store = storage_at(root)
    for name in runs_with(store, SUMMARY_FILE):
        if table is None or is_run_of(store, name, table):
            return name
    if table is not None:
        raise UsageError(
            f"there is no finished run of table {table} in {root}",
            culprit=root,
            hint="run folders are kept for some time, there or where --checkpoints said; name their root, or a run's "
            "folder; `lakeindex report TABLE --history` shows every commit",
        )
    raise UsageError(
        f"{root!r} is neither a table nor the folder of a finished run, and contains none",
        culprit=root,
        hint="name TABLE, a run's folder, as TABLE.lakeindex/RUN, or the root of run folders, TABLE.lakeindex",
    )
