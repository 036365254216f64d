"""The DAG ``upsert_tables``: every table of ``conf/tables`` in one run, a mapped instance a table."""

from __future__ import annotations

import os
from pathlib import Path

from lakeindex.airflow.many import tables_dag

ROOT = Path(os.environ.get("LAKEINDEX_HOME") or Path(__file__).resolve().parents[1])

upsert_tables = tables_dag(
    Path(os.environ.get("LAKEINDEX_TABLES") or ROOT / "conf" / "tables"), ROOT, pool="default_pool", at_once=2
)
