"""What there is to show of a run that may not have finished: its report, or how far it came and why it failed."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.errors import LakeIndexError, ObjectNotFoundError
from lakeindex.frozen import Frozen
from lakeindex.pipeline import SUMMARY_FILE
from lakeindex.report.make_report import find_report
from lakeindex.report.page import render_page, template
from lakeindex.run.checkpoints import RunFolder, finished_stages
from lakeindex.run.run_folders import RUN_FILE
from lakeindex.run.summary import RunSummary, StageSummary
from lakeindex.storage.port import ObjectMeta, Storage
from lakeindex.tasks.stores import storage_at

_ERROR_SUFFIX: Final = ".error.json"
_NEVER_BEGAN: Final = "The run failed before it began"
_SHOWN_ROWS: Final = 20


class Link(Frozen):
    """Where to read on: a name and a URL."""

    name: str
    url: str


class Failures(Frozen):
    """What is known of the tasks of a run that failed.

    Attributes:
        logs: where the log of each is.
        errors: what some said: class, message, culprit, hint, whether it may pass, and the task as ``stage``.
    """

    logs: tuple[Link, ...] = ()
    errors: tuple[Mapping[str, Any], ...] = ()
    waits: bool = False


NO_FAILURES: Final = Failures()


def run_page(checkpoints_uri: str | None, run_id: str, table: str, failures: Failures = NO_FAILURES) -> str:
    """A page on a run, whatever became of it.

    Args:
        checkpoints_uri: root of the run folders; None if the run has not said yet where that is.
    """
    if checkpoints_uri is None:
        title = "No report yet: no task has said what it upserts"
        if failures.logs:
            title = "The run has not begun: what failed is tried again" if failures.waits else _NEVER_BEGAN
        return _progress(title, table, run_id, _Found(failures.errors, failed=failures.logs))
    store = storage_at(checkpoints_uri)
    objects = store.list_folder(run_id).objects
    listed = {one.path for one in objects}
    title = "The run failed" if failures.logs and not failures.waits else "The run has not finished"
    if _is_over(run_id, objects):
        try:
            return render_page(find_report(f"{checkpoints_uri.rstrip('/')}/{run_id}"))
        except (LakeIndexError, ValueError, TypeError, KeyError) as error:
            title = f"The run has finished, but its report cannot be made: {error}"
    errors = [*_errors(store, listed), *failures.errors]
    rows = next((rows for error in errors if (rows := _set_aside(checkpoints_uri, error)) is not None), _NO_ROWS)
    found = _Found(tuple(errors), tuple(finished_stages(RunFolder(store, run_id))), rows, failures.logs)
    return _progress("The run failed" if errors and not failures.waits else title, table, run_id, found)


def run_outcome(checkpoints_uri: str, run_id: str) -> str:
    """What became of a run, in a line."""
    store = storage_at(checkpoints_uri)
    objects = store.list_folder(run_id).objects
    if _is_over(run_id, objects):
        try:
            run = RunSummary.from_json(store.read(f"{run_id}/{SUMMARY_FILE}"))
        except (LakeIndexError, ValueError, TypeError) as error:
            return f"finished, but its summary cannot be read: {error}"
        counts = [f"{count:,} {name}" for name, count in run.fates.items()]
        return ", ".join([run.outcome, *counts])
    errors = _errors(store, {one.path for one in objects})
    return f"{errors[0]['error']}: {errors[0]['message']}" if errors else "not finished"


def _is_over(run_id: str, objects: Iterable[ObjectMeta]) -> bool:
    """Whether a run has ended, and has not begun again since: a task of a DAG that was cleared tells of itself anew."""
    times = {one.path: one.modified_ms for one in objects}
    ended = times.get(f"{run_id}/{SUMMARY_FILE}")
    return ended is not None and times.get(f"{run_id}/{RUN_FILE}", 0) <= ended


def overview_page(title: str, runs: Sequence[tuple[Link, str]], failures: Failures = NO_FAILURES) -> str:
    """A page on a DAG run that upserted several tables: a line each, with a link to its page and what became of it."""
    return template("overview.html.jinja").render(title=title, runs=runs, failures=failures)


def history_list(title: str, tables: Sequence[Link]) -> str:
    """A page with links to the histories of several tables; or that no run has said yet what it writes."""
    return template("tables.html.jinja").render(title=title, tables=tables, error=None)


def no_history(uri: str, error: LakeIndexError) -> str:
    """A page that says why a table's history cannot be shown."""
    return template("tables.html.jinja").render(title=uri, tables=(), error=error)


class _Rows(Frozen):
    """Rows that are shown, where they are from, how many more there are."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    source: str = ""
    more: int = 0


_NO_ROWS: Final = _Rows()


class _Found(Frozen):
    """What there is of a run that left no report."""

    errors: tuple[Mapping[str, Any], ...] = ()
    stages: tuple[StageSummary, ...] = ()
    rows: _Rows = _NO_ROWS
    failed: tuple[Link, ...] = ()


def _progress(title: str, table: str, run_id: str, found: _Found) -> str:
    return template("progress.html.jinja").render(title=title, table=table, run_id=run_id, found=found)


def _errors(store: Storage, listed: Collection[str]) -> list[dict[str, Any]]:
    return [_error(store, path) for path in sorted(listed) if path.endswith(_ERROR_SUFFIX)]


def _error(store: Storage, path: str) -> dict[str, Any]:
    """What a failed job left, with the stage it was."""
    empty = {"error": "error", "message": "", "culprit": None, "hint": None, "transient": True}
    stage = posixpath.basename(path).removesuffix(_ERROR_SUFFIX)
    try:
        return {**empty, **dict(json.loads(store.read(path))), "stage": stage}
    except (ObjectNotFoundError, ValueError, TypeError) as error:
        return {**empty, "message": f"{path} cannot be read: {error}", "stage": stage}


def _set_aside(checkpoints_uri: str, error: Mapping[str, Any]) -> _Rows | None:
    """The first rows of the quarantine file that an error names."""
    root, place = checkpoints_uri.rstrip("/") + "/", str(error["culprit"] or "").split(", ")[0]
    if not place.startswith(root) or not place.endswith(".parquet"):
        return None
    try:
        found = pq.read_table(pa.BufferReader(storage_at(checkpoints_uri).read(place.removeprefix(root))))
    except (LakeIndexError, pa.ArrowException, OSError):
        return None
    shown = found.slice(0, _SHOWN_ROWS).to_pylist()
    rows = tuple(tuple("" if value is None else str(value) for value in row.values()) for row in shown)
    return _Rows(tuple(found.column_names), rows, place, found.num_rows - len(rows))
