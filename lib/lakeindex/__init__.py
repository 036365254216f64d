"""Row-level upserts into Apache Hudi copy-on-write tables, from plain Python and PySpark, without a Hudi jar."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakeindex.api.creating import create_table, import_table
    from lakeindex.api.finding import find_tables
    from lakeindex.api.table import LakeTable, open_table

    __version__: str

logging.getLogger(__name__).addHandler(logging.NullHandler())  # a library prints nothing by itself

__all__ = ["LakeTable", "create_table", "find_tables", "import_table", "open_table"]


def __getattr__(name: str) -> Any:
    """Load the public names when they are asked for: a DAG file that imports this package loads no data library."""
    if name in ("create_table", "import_table"):
        from lakeindex.api import creating

        return getattr(creating, name)
    if name == "find_tables":
        from lakeindex.api.finding import find_tables

        return find_tables
    if name == "__version__":
        from lakeindex.model import VERSION

        return VERSION
    if name in __all__:
        from lakeindex.api import table as api

        return getattr(api, name)
    raise AttributeError(f"module 'lakeindex' has no attribute {name!r}")
