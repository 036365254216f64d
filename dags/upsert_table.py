"""DAGs for the tables of ``conf/tables``: ``upsert_table`` for any of them, and one for each that has a schedule."""

from __future__ import annotations

from lakeindex.airflow.dags import manual_dag, table_dag
from lakeindex.airflow.tables import project_root, read_tables, tables_folder

ROOT = project_root(__file__)
TABLES, WRONG = read_tables(tables_folder(ROOT), ROOT)

if TABLES:  # dags/table_files.py tells of the others
    upsert_table = manual_dag(TABLES, ROOT)

for table in TABLES.values():
    if table.schedule is not None:
        globals()[f"upsert_{table.name}"] = table_dag(table, ROOT)
