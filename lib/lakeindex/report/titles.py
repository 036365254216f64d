"""What was done to which table by which run, in one line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from lakeindex.model import Change, Operation
from lakeindex.report.run_report import RunReport
from lakeindex.run.summary import RunSummary

_BATCH_OF_AIRFLOW: Final = re.compile(r"([^/]+)/(.+)/(-?\d+)")
_OPERATIONS: Final[Mapping[str, str]] = {
    Operation.UPSERT: "upsert into",
    Operation.INSERT: "insert into",
    Operation.BULK_INSERT: "bulk insert into",
    Operation.INSERT_OVERWRITE: "overwrite of partitions of",
    Operation.INSERT_OVERWRITE_TABLE: "overwrite of",
    Operation.DELETE: "delete from",
    Operation.DELETE_PARTITION: "delete of partitions of",
}
_CHANGES: Final[Mapping[str, str]] = {
    Change.DELETE: "delete from",
    Change.UPDATE: "update of",
    Change.REPLACE: "replacement of rows of",
    Change.REPAIR: "repair of keys of",
}


def done_to(run: RunSummary) -> str:
    """What was done, with the word that stands before the table: ``upsert into``, ``delete from``."""
    words = _OPERATIONS if run.change is None else _CHANGES
    what = run.change or run.operation
    return words.get(what, f"{what.lower()} of")  # a later release may know more


def title_of(report: RunReport) -> str:
    """What was done to which table by which run; Airflow names a batch by DAG, run and number of the mapped task."""
    run = report.run
    table = report.table.rstrip("/").rpartition("/")[2] or report.table
    by_airflow = _BATCH_OF_AIRFLOW.fullmatch(run.batch_id)
    if by_airflow is None:
        return f"{done_to(run)} {table}: {run.batch_id}"
    dag, name, part = by_airflow.groups()
    number = "" if part == "-1" else f", part {part}"
    return f"{done_to(run)} {table}: run {name}{number} of {dag}"
