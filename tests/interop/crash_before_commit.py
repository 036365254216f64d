"""A writer that dies at the worst moment: all data files are there, the commit is not.

``crash_before_commit.py TABLE BATCH WHERE [OPTIONS]`` runs our upsert in this process, with options as a JSON object, and ends
it, as ``kill -9`` would, when the storage is asked to create a path that matches the pattern ``WHERE``. Exit code 137.
"""

from __future__ import annotations

import json
import os
import sys
from fnmatch import fnmatch
from typing import Any

import lakeindex
from lakeindex.storage import open_storage


def main() -> None:
    table, batch, where = sys.argv[1:4]
    options = json.loads(sys.argv[4]) if len(sys.argv) > 4 else None
    kind: Any = type(open_storage(table))
    create = kind.create

    def dying_create(self: Any, path: str, data: bytes) -> None:
        if fnmatch(path, where):
            os._exit(137)
        create(self, path, data)

    kind.create = dying_create
    lakeindex.open_table(table).upsert(batch, options=options)


if __name__ == "__main__":
    main()
