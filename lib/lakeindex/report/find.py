"""Find a run's report by where its folder is."""

from __future__ import annotations

from lakeindex.errors import ObjectNotFoundError, UsageError
from lakeindex.format.file_names import METADATA_FOLDER
from lakeindex.pipeline import SUMMARY_FILE, default_checkpoints
from lakeindex.report.build import REPORT_FILE, build_report, runs_with
from lakeindex.report.run_report import RunReport
from lakeindex.run.run_folders import is_run_of
from lakeindex.storage.paths import absolute
from lakeindex.tasks.stores import storage_at

_SUFFIX = ".lakeindex"


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
