"""Logs of the metadata table from version 10 on: whole HFiles, whose footers have what the header of a block has.

A log of what is put has the form of a base file. One of keys that go has a record of Hudi's for each, which is its key.
A log without records begins a file group that has none yet.

Source: ``HoodieNativeLogFormatWriter``, ``HoodieNativeLogDeleteBlock``, ``HoodieSchemas.createDeleteLogSchema`` and
``HoodieMetadataWriteUtils`` of Hudi's main branch, which no release has yet.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import fastavro

from lakeindex.format.hfile import format_hfile
from lakeindex.format.hfile.reading import Part
from lakeindex.format.hfile.writing import MAX_KEY, MIN_KEY
from lakeindex.format.log_blocks import HeaderKey, format_footer
from lakeindex.metadata.metadata_table import BLOCK_BYTES

_KEY: Final = "_hoodie_record_key"
_DELETE_SCHEMA: Final = {
    "type": "record",
    "name": "hudi_delete_log_record",
    "fields": [{"name": _KEY, "type": "string"}],
}
_PARSED: Final = fastavro.parse_schema(_DELETE_SCHEMA)


def format_native_puts(entries: Sequence[Part], header: Mapping[int, str], created_ms: int = 0) -> bytes:
    """A log of what is put.

    Args:
        entries: keys and encoded records, in the order of the keys' bytes.
        header: as a block has it, with the schema of the records.
        created_ms: when, milliseconds since the epoch.
    """
    return _format(entries, header[HeaderKey.SCHEMA], header, created_ms)


def format_native_deletes(keys: Collection[str], header: Mapping[int, str], created_ms: int = 0) -> bytes:
    """A log of keys that go. Arguments as of :func:`format_native_puts`."""
    entries = [(key.encode(), _delete_record(key)) for key in keys]
    return _format(sorted(entries), json.dumps(_DELETE_SCHEMA, separators=(",", ":")), header, created_ms)


def _format(entries: Sequence[Part], schema: str, header: Mapping[int, str], created_ms: int) -> bytes:
    info = {MIN_KEY: entries[0][0], MAX_KEY: entries[-1][0]} if entries else {}
    info |= format_footer(header)
    return format_hfile(entries, schema, info=info, block_bytes=BLOCK_BYTES, created_ms=created_ms)


def _delete_record(key: str) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _PARSED, {_KEY: key})
    return out.getvalue()
