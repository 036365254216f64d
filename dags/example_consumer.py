"""An example to copy: a DAG that runs when a table has changed, and makes a copy follow it, deletes included."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

from airflow.sdk import DAG, task

from lakeindex.airflow.assets import table_asset, told_commits
from lakeindex.airflow.tables import load_table, project_root, tables_folder

ROOT = project_root(__file__)
TABLE = load_table(min(tables_folder(ROOT).glob("*.yaml")), ROOT, os.environ)  # the first one; name yours
ASSET = table_asset(TABLE.name, TABLE.uri)
COPY = os.environ.get("LAKEINDEX_COPY", f"{TABLE.uri}_copy")  # a table with the same columns and key

with DAG(
    "example_consumer",
    schedule=[ASSET],
    tags=["lakeindex", "example"],
    doc_md="Runs after each commit into a table, whatever DAG made it, and applies what it changed to a copy.",
) as dag:

    @task
    def apply_changes(**context: Any) -> dict[str, int]:
        """Apply what was changed since the last run, once; how many rows of the copy that were, by fate."""
        from lakeindex import open_table

        copy, done = open_table(COPY), Counter[str]()
        for uri in dict.fromkeys(commit.uri for commit in told_commits(context["triggering_asset_events"][ASSET])):
            changes = open_table(uri).changes(since=copy.applied_until(uri))
            summary = copy.apply(changes)
            print(f"{uri} until {changes.until}: {summary.outcome}, {summary.fates}")  # noqa: T201 - goes to the task's log
            done.update({} if summary.noop else summary.fates)
        return dict(done)

    apply_changes()
