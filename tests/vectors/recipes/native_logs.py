"""Logs of a metadata table of version 10, as Hudi's own HFile writer makes them, and whether its reader reads ours.

No release of Hudi writes version 10. Its HFile writer and reader are those of 1.2.0; what its main branch puts into the
footer is put there by this recipe. Usage, in the checkout: ``python tests/vectors/recipes/native_logs.py BUNDLE``; needs
a JDK, and the bundle ``hudi-spark3.5-bundle_2.12-1.2.0.jar``.
"""

from __future__ import annotations

import base64
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[2]), str(HERE.parents[2] / "lib")]

from lakeindex.format.hfile import HFile  # noqa: E402 - the checkout's, by the line above
from tests.unit.metadata.test_native_logs import three_deltas  # noqa: E402 - as above

FACTS = ["schema", "hudi.log.format.metadata"]
OUT = HERE.parent / "native_logs"


def java(bundle: str, *args: str) -> str:
    """What the other half prints."""
    command = ["java", "-cp", bundle, str(HERE / "NativeLogs.java"), *args]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def lines_of(file: HFile) -> list[str]:
    """A file as the other half has it."""
    entries = [f"E {key.decode()} {base64.b64encode(value).decode()}" for key, value in file.entries()]
    facts = {name: file.info[name.encode()] for name in FACTS}
    return entries + [f"I {name} {base64.b64encode(value).decode()}" for name, value in facts.items()]


def main() -> int:
    """Entry point."""
    kept = three_deltas()
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        spec, ours = Path(scratch) / "spec", Path(scratch) / "ours"
        for path, data in sorted(kept.store.snapshot().items()):
            if not path.endswith((".log.hfile", ".deletes.hfile")):
                continue
            ours.write_bytes(data)
            lines = lines_of(HFile.of(data, path))
            if java(sys.argv[1], "read", str(ours), *FACTS).splitlines() != lines:
                print(f"Hudi reads another thing in {path}")
                return 1
            spec.write_text("\n".join(lines))
            java(sys.argv[1], "write", str(spec), str(OUT / Path(path).name))
            print(f"{path}: Hudi reads what is in it, and wrote the same")
    return 0


if __name__ == "__main__":
    sys.exit(main())
