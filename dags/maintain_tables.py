"""The DAG ``maintain_tables``: clean, archive and the rest for every table of ``conf/tables``,
a mapped instance a table.
"""

from __future__ import annotations

import os

from lakeindex.airflow.dags import maintenance_dag
from lakeindex.airflow.tables import project_root, tables_folder

ROOT = project_root(__file__)

maintain_tables = maintenance_dag(tables_folder(ROOT), ROOT, schedule=os.environ.get("LAKEINDEX_MAINTENANCE") or None)
