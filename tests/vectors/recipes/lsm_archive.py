"""Makes ``tables/h120_v9_archive.tar.gz``: a table of version 9 whose archive Hudi 1.2.0 has merged into a second level.

Run from the root of the checkout, after ``make interop``: ``python -m tests.vectors.recipes.lsm_archive``.
"""

from __future__ import annotations

import json
import tarfile
import tempfile
from pathlib import Path

from tests.interop.hudi_client import HudiServer, keep_options
from tests.interop.rows import SIMPLE
from tests.interop.story import rows_of
from tests.vectors_support import TABLES

NAME = "h120_v9_archive"
ARCHIVING = {
    "hoodie.clean.automatic": "true",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.timeline.compaction.batch.size": "3",
}


def main() -> None:
    """Eleven upserts, of which each cleans and archives; the rows as Hudi reads them stand beside the table."""
    with tempfile.TemporaryDirectory() as scratch:
        hudi = HudiServer("1.2.0", Path(scratch) / "hudi")
        path = Path(scratch) / NAME
        options = {**keep_options("1.2.0", 9), **SIMPLE.hudi_options(), **ARCHIVING, "hoodie.table.name": NAME}
        for version in range(1, 12):
            hudi.write(path, rows_of(range(version, version + 5), version), options, mode="append")
        rows = [{key: value for key, value in row.items() if value is not None} for row in hudi.read(path).to_pylist()]
        hudi.close()
        expected = path.with_name(f"{NAME}.expected.json")
        expected.write_text("".join(f"{json.dumps(row, default=str, ensure_ascii=False)}\n" for row in rows))
        with tarfile.open(TABLES / f"{NAME}.tar.gz", "w:gz") as tar:
            for one in (path, expected):
                tar.add(one, one.name)


if __name__ == "__main__":
    main()
