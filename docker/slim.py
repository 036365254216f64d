"""Take out of installed packages what no service of docker-compose.yaml uses: ``slim.py SITE_PACKAGES``.

Kubernetes, Hive's metastore and machine learning of Spark; libraries of other processors inside its jars; headers;
Arrow's Flight; tests of packages; symbols for debuggers, for which it needs ``strip``. It says what each of them was
worth.
"""

from __future__ import annotations

import platform
import re
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

JARS: Final = {
    "Spark on Kubernetes": r"(spark-)?kubernetes[-_]|volcano-|vertx-|zjsonpatch",
    "Hive's metastore": r"spark-hive|hive-(?!storage-api|common|shims)|datanucleus-|derby|(javax\.)?jdo|Hikari",
    "Spark's machine learning": r"spark-(mllib|graphx)|breeze|spire|cats-kernel|algebra|arpack|lapack|blas-|J(Tra|Lar)",
}
"""Jars of Spark by what they are for: beginnings of their names."""
PARTS: Final = {
    "headers": ("pyarrow/include", "numpy/_core/include"),
    "Arrow's Flight": (
        "pyarrow/libarrow_flight.*", "pyarrow/libarrow_python_flight.*", "pyarrow/_flight.*",
    ),
    "tests of packages": ("*/tests", "*/*/tests"),
}  # fmt: skip
ELF_64: Final = b"\x7fELF\x02"
LOADED: Final = 1
"""``PT_LOAD``."""
NATIVE: Final = re.compile(r"\.(so|dll|jnilib|dylib|a)$")
PROCESSORS: Final = {
    "x86_64": re.compile(r"linux(64|[/-](x86_64|amd64|x86-64)|.*x86_64)", re.IGNORECASE),
    "aarch64": re.compile(r"linux.*(aarch64|aarch_64|arm64)", re.IGNORECASE),
}


def matching(folder: Path, patterns: Iterable[str]) -> Iterator[Path]:
    """What patterns name below a folder."""
    for pattern in patterns:
        yield from sorted(folder.glob(pattern))


def size(path: Path) -> int:
    """Bytes of a file, or of a folder with all that is in it."""
    return sum(one.stat().st_size for one in (path, *path.rglob("*")) if one.is_file())


def remove(paths: Iterable[Path]) -> int:
    """Take files and folders away; their bytes."""
    freed = 0
    for path in paths:
        freed += size(path)
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return freed


def without_other_processors(jar: Path, ours: re.Pattern[str]) -> int:
    """Write a jar anew without the libraries of other processors; the bytes that it lost. One that has none for this
    processor stays as it is.
    """
    with zipfile.ZipFile(jar) as old:
        native = [one for one in old.infolist() if NATIVE.search(one.filename)]
        foreign = {one.filename for one in native if not ours.search(one.filename)}
        if not foreign or len(foreign) == len(native):
            return 0
        slim = jar.with_suffix(".slim")
        with zipfile.ZipFile(slim, "w", zipfile.ZIP_DEFLATED) as new:
            for one in old.infolist():
                if one.filename not in foreign:
                    new.writestr(one, old.read(one))
    freed = jar.stat().st_size - slim.stat().st_size
    slim.replace(jar)
    return freed


def segments(library: bytes) -> Iterator[int]:
    """Where the headers of the segments are that the kernel maps, in a library of 64 bits.

    Source: elf(5), Elf64_Ehdr and Elf64_Phdr.
    """
    first, entry_size, count = *struct.unpack_from("<Q", library, 32), *struct.unpack_from("<HH", library, 54)
    for at in range(first, first + count * entry_size, entry_size):
        if struct.unpack_from("<I", library, at) == (LOADED,):
            yield at


def loadable(library: bytes) -> bool:
    """Whether each segment lies as far into its page of the file as of memory, or it is not mapped.

    ``strip`` breaks that in some libraries that patchelf changed.
    """
    for at in segments(library):
        offset, address, *_, aligned_to = struct.unpack_from("<6Q", library, at + 8)
        if aligned_to > 1 and (offset - address) % aligned_to:  # 0 and 1: anywhere
            return False
    return True


def without_symbols(library: Path) -> int:
    """Take what only debuggers read out of a library; the bytes that it lost. One that does not bear it stays."""
    with library.open("rb") as file:
        if file.read(5) != ELF_64:
            return 0
    stripped = library.with_name(f"{library.name}.stripped")
    command = ["strip", "--strip-unneeded", "-o", stripped, library]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - a library of an installed package
    freed = library.stat().st_size - stripped.stat().st_size
    if freed <= 0 or not loadable(stripped.read_bytes()):
        stripped.unlink()
        return 0
    stripped.replace(library)
    return freed


def slim(packages: Path, processor: str) -> dict[str, int]:
    """Take it all out; bytes by what they were."""
    jars = packages / "pyspark" / "jars"
    freed = {
        what: remove(jar for jar in sorted(jars.glob("*.jar")) if re.match(pattern, jar.name))
        for what, pattern in JARS.items()
    }
    if processor in PROCESSORS:
        ours = PROCESSORS[processor]
        freed["other processors"] = sum(without_other_processors(jar, ours) for jar in sorted(jars.glob("*.jar")))
    freed |= {what: remove(matching(packages, patterns)) for what, patterns in PARTS.items()}
    libraries = (one for one in sorted(packages.rglob("*.so*")) if one.is_file() and not one.is_symlink())
    return freed | {"symbols for debuggers": sum(without_symbols(one) for one in libraries)}


def main() -> None:
    """Do it, and say what it was worth."""
    freed = slim(Path(sys.argv[1]), platform.machine())
    for what, count in freed.items():
        print(f"{count / 1e6:7.1f} MB  {what}")


if __name__ == "__main__":
    main()
