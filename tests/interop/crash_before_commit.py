"""A writer that dies at the worst moment: all data files are there, the commit is about to be put.

``crash_before_commit.py TABLE BATCH`` runs our upsert in this process and ends it, as ``kill -9`` would, when the
storage is asked to create ``<instant>.commit``. Exit code 137.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import lakeindex
from lakeindex.storage import open_storage


def main() -> None:
    table, batch = sys.argv[1:3]
    kind: Any = type(open_storage(table))
    create = kind.create

    def dying_create(self: Any, path: str, data: bytes) -> None:
        if path.endswith(".commit"):
            os._exit(137)
        create(self, path, data)

    kind.create = dying_create
    lakeindex.open_table(table).upsert(batch)


if __name__ == "__main__":
    main()
