"""Reading a table, and ways to damage it: its files, its footers, its timeline."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.operations.rows.request import ScanRequest
from lakeindex.operations.rows.scan import Scanner
from lakeindex.parquet.stamps import FOOTER, HEADERS
from lakeindex.tasks.local_runner import LocalRunner

Change = Callable[[pa.Table], pa.Table]


def read_rows(uri: str, *, as_of: str | None = None, since: str | None = None) -> pa.Table:
    """All rows, meta columns first where the table fills them."""
    return Scanner(uri, ScanRequest(as_of=as_of, since=since, meta=None), LocalRunner(0)).rows()


def live_files(table: Path) -> list[Path]:
    """Newest base file of each group, by path. For tables without replaced groups."""
    newest: dict[tuple[Path, str], Path] = {}
    data = (path for path in table.rglob("*.parquet") if ".hoodie" not in path.parts)
    for path in sorted(data, key=lambda p: p.stem.rsplit("_", 1)[1]):
        newest[path.parent, path.name.split("_", 1)[0]] = path
    return sorted(newest.values())


def relative(table: Path, path: Path) -> str:
    """As messages name it."""
    return path.relative_to(table).as_posix()


def rewrite(path: Path, change: Change | None = None, entries: dict[str, str | None] | None = None) -> None:
    """Write a base file again with other rows, or other footer entries (None takes one out)."""
    source = pq.ParquetFile(path)
    rows = source.read()
    footer = {key: value for key, value in unstamped(source.metadata.metadata).items() if key != b"ARROW:schema"}
    for name, text in (entries or {}).items():
        footer.pop(name.encode(), None)
        if text is not None:
            footer[name.encode()] = text.encode()
    changed = (change or (lambda table: table))(rows).replace_schema_metadata(None)
    with pq.ParquetWriter(path, changed.schema, store_schema=False) as writer:
        writer.write_table(changed)
        writer.add_key_value_metadata(footer)


def unstamped(entries: dict[bytes, bytes] | None) -> dict[bytes, bytes]:
    """Footer entries without the checksums of the file that had them: what another writer would leave."""
    stamps = (HEADERS.encode(), FOOTER.encode())
    return {key: value for key, value in (entries or {}).items() if key not in stamps}


def footer_entries(path: Path) -> dict[str, str]:
    """Texts of a footer."""
    return {k.decode(): v.decode() for k, v in (pq.ParquetFile(path).metadata.metadata or {}).items()}


def with_value(column: str, row: int, value: object) -> Change:
    """Set one value."""

    def change(rows: pa.Table) -> pa.Table:
        at = rows.schema.get_field_index(column)
        values = rows.column(at).to_pylist()
        values[row] = value
        return rows.set_column(
            at, rows.schema.field(at).with_nullable(True), pa.array(values, rows.schema.field(at).type)
        )

    return change


def twice_first_row(rows: pa.Table) -> pa.Table:
    """Add the first row once more."""
    return pa.concat_tables([rows, rows.slice(0, 1)])


def edit_commit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the JSON of a commit."""
    loaded = json.loads(path.read_text(encoding="utf-8"))
    change(loaded)
    path.write_text(json.dumps(loaded), encoding="utf-8")


def flip(path: Path, at: int) -> None:
    """Flip the bits of one byte; negative places count from the end."""
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(bytes(data))
