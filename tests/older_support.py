"""Tables and run folders that older lakeindex code wrote (tests/vectors/older), unpacked for a test."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakeindex.api.table import LakeTable, open_table
from tests.vectors_support import unpack

OLDER = Path(__file__).parent / "vectors" / "older"
WHOLE = ("bloom", "bucket", "global_bloom", "record", "simple", "bloom_6", "record_9")
KILLED = ("stage_input_cli", "index_lookup_cli", "verify_keys_cli", "planned_cli", "committed_cli", "planned_6")


@dataclass(frozen=True)
class Older:
    """One fixture, unpacked; the test may change it."""

    folder: Path
    story: dict[str, Any]

    @property
    def table(self) -> LakeTable:
        """The table."""
        return open_table(str(self.folder / "table"))

    @property
    def runs(self) -> Path:
        """Its run folders."""
        return self.folder / "table.lakeindex"

    def batch(self, name: str) -> str:
        """The file of a batch."""
        return str(self.folder / "in" / f"{name}.parquet")


def unpack_older(name: str, folder: Path) -> Older:
    """Unpack a fixture below a folder."""
    unpack(OLDER / f"{name}.tar.xz", folder)
    found = folder / name
    return Older(found, json.loads((found / "story.json").read_text(encoding="utf-8")))


def stored(table: LakeTable) -> list[dict[str, Any]]:
    """The rows of a table, meta columns left out, by key."""
    rows = table.read(meta=True).select(["id", "day", "ts", "v"]).to_pylist()
    return sorted(rows, key=lambda row: str(row["id"]))
