"""No DAG: an import error that names each file of ``conf/tables`` that is wrong, while the DAGs of the other tables run.

(Airflow parses a file that speaks of airflow and of a dag.)
"""

from __future__ import annotations

import os
from pathlib import Path

from lakeindex.airflow.tables import read_tables
from lakeindex.errors import UsageError

ROOT = Path(os.environ.get("LAKEINDEX_HOME") or Path(__file__).resolve().parents[1])
FOLDER = Path(os.environ.get("LAKEINDEX_TABLES") or ROOT / "conf" / "tables")

_, WRONG = read_tables(FOLDER, ROOT)
if WRONG:
    raise UsageError("\n".join(map(str, WRONG)), culprit=str(FOLDER), hint="the DAGs of the other tables run")
