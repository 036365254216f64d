"""Where the files are that others start: the jobs that spark-submit runs, the DAG files that Airflow parses.

In a checkout they are the folders ``jobs`` and ``dags``; a wheel carries the same files inside the package. Standard
library only: a DAG file imports this.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_CHECKOUT: Final = _PACKAGE.parents[1]
_PROBE: Final = "upsert.py"
DAG_FILES: Final = (
    "upsert_table.py",
    "upsert_tables.py",
    "maintain_tables.py",
    "example_consumer.py",
    "table_files.py",
)


def jobs_folder(root: Path | None = None) -> Path:
    """The folder with the jobs: that of the project in ``root`` if it has one."""
    own = [root / "jobs"] if root is not None else []
    return next((folder for folder in (*own, _PACKAGE / "jobs") if (folder / _PROBE).is_file()), _CHECKOUT / "jobs")


def dag_text(name: str) -> str:
    packaged = _PACKAGE / "dags" / name
    return (packaged if packaged.is_file() else _CHECKOUT / "dags" / name).read_text(encoding="utf-8")
