"""Base files are opened in one place, which compares their pages with their checksums."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "lib" / "lakeindex"
DOOR = "parquet/pages.py"
NO_BASE_FILES = {
    "operations/changes.py",  # a feed
    "operations/advise.py",  # the batch
    "run/input_rows.py",  # the batch
    "stages/stage_input/inputs.py",
    "stages/stage_input/input_pieces.py",
    "operations/create_table.py",
    "operations/rows/key_sets.py",  # a file of keys
    "run/checkpoints.py",  # run folders: a digest each
    "run/chunks.py",
    "stages/stage_input/staged_rows.py",
    "report/progress.py",
    "files/footer_cache.py",  # side files: a checksum each
    "timeline/lsm_archive.py",  # the archived timeline: page checksums are verified
    "index/locations/record_shards.py",
    "index/locations/change_log.py",
    "index/locations/state.py",
}
JUST_MADE_OR_A_FOOTER = {
    "write/file_parts.py",  # read_metadata of a file that was just encoded
    "metadata/content_records.py",  # footers, for statistics and filters
    "files/footers.py",  # footer bytes, compared with their checksum before
}
OPENERS = {"ParquetFile", "ParquetReader", "read_table", "read_metadata", "read_schema", "ParquetDataset"}
OF_OURS = {"MomentsFile"}


def openings(path: Path) -> Iterator[int]:
    """Lines that open a Parquet file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        of_arrow = isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "pq"
        if (of_arrow and called.attr in OPENERS) or (isinstance(called, ast.Name) and called.id in OF_OURS):
            yield node.lineno


def test_nobody_else_opens_base_files() -> None:
    known = NO_BASE_FILES | JUST_MADE_OR_A_FOOTER
    found = {path.relative_to(ROOT).as_posix(): list(openings(path)) for path in ROOT.rglob("*.py")}
    assert {name: lines for name, lines in found.items() if lines and name not in known and name != DOOR} == {}
    assert found[DOOR]
    assert not known - {name for name, lines in found.items() if lines}
