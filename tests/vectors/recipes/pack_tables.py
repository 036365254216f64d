"""Packs table folders and their expected rows into tests/vectors/tables, one deterministic .tar.gz each.

    python pack_tables.py FOLDER_WITH_TABLES

A table `x` is the folder `x` with `x.expected.json` (rows as Hudi read them) or `x.instants.json` beside it.
"""

import gzip
import io
import sys
import tarfile
from pathlib import Path

OUT = Path(__file__).parents[1] / "tables"


def pack(table: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        paths = [path for path in table.rglob("*") if path.is_file()]
        paths += [path for kind in ("expected", "instants") if (path := table.with_name(f"{table.name}.{kind}.json")).exists()]
        for path in sorted(paths):
            info = tarfile.TarInfo(str(path.relative_to(table.parent)))
            data = path.read_bytes()
            info.size = len(data)
            info.mode = 0o644
            tar.addfile(info, io.BytesIO(data))
    out = OUT / f"{table.name}.tar.gz"
    with out.open("wb") as raw, gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as packed:
        packed.write(buffer.getvalue())
    print(out.name, out.stat().st_size)


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    for folder in sorted(path for path in Path(sys.argv[1]).iterdir() if path.is_dir()):
        pack(folder)
