"""Base files are opened in one place, which compares their pages with their checksums."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "lib" / "lakeindex"
DOOR = "parquet/reading.py"
NO_BASE_FILES = {
    "advising_sample.py",  # the batch
    "inputs.py",
    "input_pieces.py",
    "creating.py",
    "getting_keys.py",  # a file of keys
    "checkpoints.py",  # run folders: a digest each
    "chunks.py",
    "staging.py",
    "progress.py",
    "footer_cache.py",  # side files: a checksum each
    "record_merge.py",
    "record_shards.py",
    "change_log.py",
    "state.py",
}
JUST_MADE_OR_A_FOOTER = {
    "file_parts.py",  # read_metadata of a file that was just encoded
    "base_file.py",
    "footers.py",  # footer bytes, compared with their checksum before
}
OPENERS = {"ParquetFile", "ParquetReader", "read_table", "read_metadata", "read_schema", "ParquetDataset"}


def openings(path: Path) -> Iterator[int]:
    """Lines that open a Parquet file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if (
            is_call
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "pq"
            and node.func.attr in OPENERS
        ):
            yield node.lineno


def test_nobody_else_opens_base_files() -> None:
    known = NO_BASE_FILES | JUST_MADE_OR_A_FOOTER
    found = {path.relative_to(ROOT).as_posix(): list(openings(path)) for path in ROOT.rglob("*.py")}
    strangers = {
        name: lines for name, lines in found.items() if lines and Path(name).name not in known and name != DOOR
    }
    assert strangers == {}
    assert found[DOOR]
    assert not known - {Path(name).name for name, lines in found.items() if lines}
