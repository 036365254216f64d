"""An example to copy: a DAG that runs when a table has changed, and reads exactly the rows that the commits changed."""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import DAG, task

from lakeindex.airflow.assets import table_asset, told_commits
from lakeindex.airflow.tables import load_table, project_root, tables_folder

ROOT = project_root(__file__)
TABLE = load_table(min(tables_folder(ROOT).glob("*.yaml")), ROOT, os.environ)  # the first one; name yours
ASSET = table_asset(TABLE.name, TABLE.uri)

with DAG(
    "example_consumer",
    schedule=[ASSET],
    tags=["lakeindex", "example"],
    doc_md="Runs after each commit into a table, whatever DAG made it, and reads the rows that it changed.",
) as dag:

    @task
    def read_changes(**context: Any) -> dict[str, dict[str, int]]:
        """Of each commit since the last run how many rows it changed, and how."""
        from collections import Counter

        from lakeindex import open_table

        found: dict[str, dict[str, int]] = {}
        for commit in told_commits(context["triggering_asset_events"][ASSET]):
            changes = open_table(commit.uri).changes(since=commit.previous, until=commit.point)
            counts: Counter[str] = Counter()
            for batch in changes.to_batches():  # do something with the rows here, under the commit's name
                counts.update(batch.column("_change_type").to_pylist())
            print(f"{commit.uri} {commit.instant}: {dict(counts)}")  # noqa: T201 - goes to the task's log
            found[commit.instant] = dict(counts)
        return found

    read_changes()
