"""No DAG: an import error that names each file of ``conf/tables`` that is wrong,
while the DAGs of the other tables run.

(Airflow parses a file that speaks of airflow and of a dag.)
"""

from __future__ import annotations

from lakeindex.airflow.tables import project_root, read_tables, tables_folder
from lakeindex.errors import UsageError

ROOT = project_root(__file__)
FOLDER = tables_folder(ROOT)

_, WRONG = read_tables(FOLDER, ROOT)
if WRONG:
    raise UsageError("\n".join(map(str, WRONG)), culprit=str(FOLDER), hint="the DAGs of the other tables run")
