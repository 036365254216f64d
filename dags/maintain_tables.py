"""The DAG ``maintain_tables``: clean, archive and the rest for every table of ``conf/tables``, a mapped instance a table."""

from __future__ import annotations

import os
from pathlib import Path

from lakeindex.airflow.maintenance import maintenance_dag

ROOT = Path(os.environ.get("LAKEINDEX_HOME") or Path(__file__).resolve().parents[1])

maintain_tables = maintenance_dag(
    Path(os.environ.get("LAKEINDEX_TABLES") or ROOT / "conf" / "tables"),
    ROOT,
    schedule=os.environ.get("LAKEINDEX_MAINTENANCE") or None,
)
