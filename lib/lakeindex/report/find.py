"""Find a run's report by where its folder is."""

from __future__ import annotations

from pathlib import Path

from lakeindex.errors import ObjectNotFoundError, UsageError
from lakeindex.pipeline import SUMMARY_FILE
from lakeindex.report.build import REPORT_FILE, build_report, runs_with
from lakeindex.report.run_report import RunReport
from lakeindex.tasks.stores import storage_at

_SUFFIX = ".lakeindex"


def find_report(run: str) -> RunReport:
    """The report of a run, as it was left, or made from what the run left.

    Args:
        run: a run's folder, ``TABLE.lakeindex/RUN``; or the root of run folders, whose newest finished run is meant.

    Raises:
        UsageError: there is no finished run.
    """
    run = run.rstrip("/") if "://" in run else str(Path(run).absolute())
    root, _, name = run.rpartition("/")
    at_run = f"{name}/{SUMMARY_FILE}"
    if not root or not any(o.path == at_run for o in storage_at(root).list_folder(name).objects):
        root, name = run, _newest(run)
    try:
        return RunReport.from_json(storage_at(root).read(f"{name}/{REPORT_FILE}"))
    except (ObjectNotFoundError, ValueError, TypeError, KeyError):
        return build_report(root, name, root.removesuffix(_SUFFIX))


def _newest(root: str) -> str:
    found = runs_with(storage_at(root), SUMMARY_FILE)
    if not found:
        raise UsageError(
            f"{root!r} is not the folder of a finished run, and contains none",
            culprit=root,
            hint="name a run's folder, as TABLE.lakeindex/RUN, or the root of run folders, TABLE.lakeindex",
        )
    return found[0]
