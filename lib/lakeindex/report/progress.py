"""What there is to show of a run that may not have finished: its report, or how far it came and why it failed."""

from __future__ import annotations

import json
import posixpath
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.errors import LakeIndexError, ObjectNotFoundError
from lakeindex.report.finding import find_report
from lakeindex.report.page import render_page, template
from lakeindex.stages.checkpoints import RunFolder
from lakeindex.stages.context import storage_at
from lakeindex.stages.driving import finished_stages
from lakeindex.stages.upserting import SUMMARY_FILE
from lakeindex.storage.protocol import Storage

_ERROR_SUFFIX: Final = ".error.json"
_SHOWN_ROWS: Final = 20


def run_page(checkpoints_uri: str | None, run_id: str, table: str) -> str:
    """A page on a run, whatever became of it.

    Args:
        checkpoints_uri: root of the run folders; None if the run has not said yet where that is.
        run_id: the run.
        table: the table's folder.
    """
    if checkpoints_uri is None:
        return _progress("No report yet: the first task has not finished", table, run_id, [], [], _NO_ROWS)
    store = storage_at(checkpoints_uri)
    listed = {one.path for one in store.list_folder(run_id).objects}
    title = "The run has not finished"
    if f"{run_id}/{SUMMARY_FILE}" in listed:
        try:
            return render_page(find_report(f"{checkpoints_uri.rstrip('/')}/{run_id}"))
        except (LakeIndexError, ValueError, TypeError, KeyError) as error:
            title = f"The run has finished, but its report cannot be made: {error}"
    errors = [_error(store, path) for path in sorted(listed) if path.endswith(_ERROR_SUFFIX)]
    rows = next((rows for error in errors if (rows := _set_aside(checkpoints_uri, error)) is not None), _NO_ROWS)
    return _progress(
        "The run failed" if errors else title,
        table,
        run_id,
        errors,
        list(finished_stages(RunFolder(store, run_id))),
        rows,
    )


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows that are shown, where they are from, how many more there are."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    source: str = ""
    more: int = 0


_NO_ROWS: Final = _Rows()


def _progress(title: str, table: str, run_id: str, errors: list[dict[str, Any]], stages: list[Any], rows: _Rows) -> str:
    return template("progress.html.jinja").render(
        title=title,
        table=table,
        run_id=run_id,
        errors=errors,
        stages=stages,
        columns=rows.columns,
        rows=rows.rows,
        rows_from=rows.source,
        more=rows.more,
    )


def _error(store: Storage, path: str) -> dict[str, Any]:
    """What a failed job left, with the stage it was."""
    empty = {"error": "error", "message": "", "culprit": None, "hint": None, "transient": True}
    stage = posixpath.basename(path).removesuffix(_ERROR_SUFFIX)
    try:
        return {**empty, **dict(json.loads(store.read(path))), "stage": stage}
    except (ObjectNotFoundError, ValueError, TypeError) as error:
        return {**empty, "message": f"{path} cannot be read: {error}", "stage": stage}


def _set_aside(checkpoints_uri: str, error: dict[str, Any]) -> _Rows | None:
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
