"""The library of compiled loops: what it is called, whether a file is one, and how ``loops.c`` becomes it.

Standard library only, so that the set-up and builds can run this file before anything is installed::

    python -m lakeindex.hashing.compile_loops

makes the library beside this file, with ``cc`` (or ``CC``), else with the package ``ziglang``. It ends with a seal,
which says what it was made from and tells a damaged file. The loops call nothing of libc, so it serves each one.
"""

from __future__ import annotations

import os
import struct
import sys
import zlib
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("loops.c")
_SUFFIX: Final = {"darwin": "dylib", "win32": "dll"}.get(sys.platform, "so")
_SEAL: Final = struct.Struct("<8sII")
"""A mark, CRC-32 of the source, CRC-32 of the library before the seal."""
_MARK: Final = b"lk-loops"
_FLAGS: Final = (
    *("-std=c11", "-O3", "-fPIC", "-shared", "-ffreestanding", "-fvisibility=hidden", "-fwrapv"),
    "-ffp-contract=off",  # doubles must be the same on each processor
    *(() if sys.platform == "darwin" else ("-nostdlib",)),
)
_ZIG: Final = "ziglang"
_SECONDS: Final = 300


def machine() -> str:
    """System and processor, as they stand in the library's name."""
    return f"{sys.platform}-{os.uname().machine if hasattr(os, 'uname') else 'amd64'}"


def library() -> Path:
    """Where the library of this platform is, or would be. Its dots say to walkers of the package: no module."""
    return SOURCE.with_name(f"loops.{machine()}.{_SUFFIX}")


def problem_with(path: Path) -> str:
    """Why a file is not the library of these loops; nothing if it is."""
    try:
        content = path.read_bytes()
    except OSError as error:
        others = ", ".join(sorted(one.name for one in path.parent.glob("loops.*-*"))) if path.parent.is_dir() else ""
        return f"{path.name} cannot be read ({error.strerror})" + (f"; there is {others}" if others else "")
    body, seal = content[: -_SEAL.size], content[-_SEAL.size :]
    if len(seal) < _SEAL.size:
        return f"{path.name} is damaged: it has {len(content)} bytes"
    mark, source, checksum = _SEAL.unpack(seal)
    if mark != _MARK or checksum != zlib.crc32(body):
        return f"{path.name} is damaged: its checksum does not agree"
    if SOURCE.is_file() and source != zlib.crc32(SOURCE.read_bytes()):
        return f"{path.name} was made from another loops.c"
    return ""


def compilers() -> list[list[str]]:
    """Commands that compile C for each processor of this kind, the preferred one first."""
    import importlib.util
    import shlex
    import shutil

    wanted = shlex.split(os.environ.get("CC", "")) or ["cc"]
    found = (
        [[*wanted, *(("-march=x86-64",) if machine().endswith("x86_64") else ())]] if shutil.which(wanted[0]) else []
    )
    if importlib.util.find_spec(_ZIG) is not None:
        found.append([sys.executable, "-m", _ZIG, "cc", "-mcpu=baseline"])
    return found


def make(path: Path | None = None, *more_flags: str) -> str:
    """Make the library anew, safe beside others that do the same; what made it. Raises: RuntimeError: nothing can."""
    import subprocess
    import tempfile

    path = path or library()
    said = [f"no C compiler: neither cc on PATH nor the package {_ZIG}"]
    for command in compilers():
        with tempfile.TemporaryDirectory(prefix=".loops-", dir=path.parent) as folder:
            made = Path(folder) / path.name
            done = subprocess.run(  # noqa: S603 - the machine's compiler
                [*command, *_FLAGS, *more_flags, "-o", str(made), str(SOURCE)],
                capture_output=True,
                env={**os.environ, "ZIG_GLOBAL_CACHE_DIR": folder, "ZIG_LOCAL_CACHE_DIR": folder},
                text=True,
                timeout=_SECONDS,
                check=False,
            )
            if done.returncode == 0:
                body = made.read_bytes()
                made.write_bytes(body + _SEAL.pack(_MARK, zlib.crc32(SOURCE.read_bytes()), zlib.crc32(body)))
                made.chmod(0o755)
                made.replace(path)
                return " ".join(command)
            said.append(f"{' '.join(command)}: {done.stderr.strip()[-2000:]}")
    raise RuntimeError("; ".join(said[1:] or said))


def main() -> None:
    """Make the library unless it is there; exit code 1 if it cannot be made."""
    if problem_with(library()):
        try:
            print(f"{library().name} made with {make()}")  # noqa: T201 - a tool
        except (OSError, RuntimeError) as error:
            sys.exit(f"{library().name} was not made: {error}")


if __name__ == "__main__":
    main()
