"""Tables that real Hudi wrote (tests/vectors/tables), unpacked for a test."""

from __future__ import annotations

import json
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parent / "vectors"
TABLES = VECTORS / "tables"
VIRTUAL = VECTORS / "virtual"
"""Tables with virtual keys; none of :func:`table_names`."""
KEYS = VECTORS / "keys"
"""Tables whose keys are spelled in a way that their properties do not say; none of :func:`table_names`."""


@cache
def table_names() -> tuple[str, ...]:
    """All packed tables."""
    return tuple(sorted(path.name.removesuffix(".tar.gz") for path in TABLES.glob("*.tar.gz")))


def unpack(packed: Path, folder: Path) -> None:
    """Unpack a fixture, with the filter for data where Python has it (from 3.11.4 on)."""
    with tarfile.open(packed) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(folder)


def unpack_table(name: str, folder: Path, packed: Path = TABLES) -> Path:
    """The table's own folder, unpacked below ``folder``; the caller may change it."""
    unpack(packed / f"{name}.tar.gz", folder)
    return folder / name


def expected_rows(table: Path) -> list[dict[str, Any]]:
    """Rows of an unpacked table as Hudi read them, meta columns included; nulls are left out."""
    lines = table.with_name(f"{table.name}.expected.json").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def commit_instants(table: Path) -> list[str]:
    """The commits of an unpacked ``py_*`` table."""
    loaded: list[str] = json.loads(table.with_name(f"{table.name}.instants.json").read_text(encoding="utf-8"))
    return loaded
