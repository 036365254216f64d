"""The process from which Spark forks its Python workers, with the library loaded before it forks.

Spark ends a worker that had nothing to do for a minute. The next one is forked at once, but then it imports
pyarrow and the library anew: two seconds of CPU each. Started by Spark, where ``spark.python.daemon.module``
names it (:mod:`lakeindex.runners.spark_settings`).
"""

from __future__ import annotations

import gc
import importlib
import os
from typing import Final

from pyspark import daemon

LOADED: Final = (
    "lakeindex.runners.spark",
    "lakeindex.conductor.upsert",
)
"""What tasks need; with them come the modules they import. Nothing of it opens a connection
or starts threads of ours.
"""


def main() -> None:
    """Load, then be Spark's daemon."""
    # Arrow's allocator reads it when pyarrow is loaded. Left alone it gives memory back 10 ms after it was freed,
    # and the next task faults all of it in again.
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", "5000")
    for name in LOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # or workers, which collect after every task, would copy the pages of all these objects
    daemon.manager()


if __name__ == "__main__":
    main()
