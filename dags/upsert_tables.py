"""The DAG ``upsert_tables``: every table of ``conf/tables`` in one run, a mapped instance a table."""

from __future__ import annotations

from lakeindex.airflow.dags import tables_dag
from lakeindex.airflow.tables import project_root, tables_folder

ROOT = project_root(__file__)

upsert_tables = tables_dag(tables_folder(ROOT), ROOT, pool="default_pool", at_once=2)
