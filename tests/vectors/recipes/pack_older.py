"""Packs the fixtures of older_tables.py into tests/vectors/older, one deterministic .tar.xz each.

    python pack_older.py FOLDER
"""

import io
import lzma
import sys
import tarfile
from pathlib import Path

OUT = Path(__file__).parents[1] / "older"


def pack(fixture: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(path for path in fixture.rglob("*") if path.is_file()):
            info = tarfile.TarInfo(str(path.relative_to(fixture.parent)))
            data = path.read_bytes()
            info.size, info.mode = len(data), 0o644
            info.mtime = int(path.stat().st_mtime)  # retention goes by it
            tar.addfile(info, io.BytesIO(data))
    out = OUT / f"{fixture.name}.tar.xz"
    out.write_bytes(lzma.compress(buffer.getvalue()))
    print(out.name, out.stat().st_size)


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    for folder in sorted(path for path in Path(sys.argv[1]).iterdir() if path.is_dir()):
        pack(folder)
