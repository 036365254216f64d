"""DAGs for the tables of ``conf/tables``: ``upsert_table`` for any of them, and one for each that has a schedule."""

from __future__ import annotations

import os
from pathlib import Path

from lakeindex.airflow.dag import manual_dag, table_dag
from lakeindex.airflow.tables import read_tables

ROOT = Path(os.environ.get("LAKEINDEX_HOME") or Path(__file__).resolve().parents[1])
TABLES, WRONG = read_tables(Path(os.environ.get("LAKEINDEX_TABLES") or ROOT / "conf" / "tables"), ROOT)

if TABLES:  # dags/table_files.py tells of the others
    upsert_table = manual_dag(TABLES, ROOT)

for table in TABLES.values():
    if table.schedule is not None:
        globals()[f"upsert_{table.name}"] = table_dag(table, ROOT)
