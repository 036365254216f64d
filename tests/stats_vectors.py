"""Statistics of the metadata tables that Hudi wrote (tests/vectors/stats), read for a test."""

from __future__ import annotations

import io
import re
import tarfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.format.hfile import HFile
from lakeindex.format.log_blocks import BlockKind, HeaderKey, read_blocks
from lakeindex.metadata.metadata_records import decode_record

STATS = Path(__file__).parent / "vectors" / "stats"


@dataclass(frozen=True)
class StatsTable:
    """What is kept of a table.

    Attributes:
        name: of the vector.
        files: path in the table -> content; of data files the footer (`.footer` is left off).
    """

    name: str
    files: Mapping[str, bytes]

    @property
    def version(self) -> int:
        return int(re.search(r"_v(\d)", self.name)[1])  # type: ignore[index] # a test's own names

    @property
    def definitions(self) -> str | None:
        raw = self.files.get(".hoodie/.index_defs/index.json")
        return None if raw is None else raw.decode()

    @property
    def data_files(self) -> list[tuple[str, str]]:
        """Partition and name of each."""
        return [tuple(path.rpartition("/")[::2]) for path in sorted(self.files) if path.endswith(".parquet")]

    def footer(self, partition: str, name: str) -> pq.FileMetaData:
        return pq.ParquetFile(io.BytesIO(self.files[f"{partition}/{name}" if partition else name])).metadata

    def schema(self) -> pa.Schema:
        partition, name = self.data_files[0]
        return self.footer(partition, name).schema.to_arrow_schema()

    def live_files(self, partition: str) -> list[str]:
        """The newest file of each file group."""
        newest: dict[str, tuple[str, str]] = {}
        for folder, name in self.data_files:
            if folder == partition:
                group, _, instant = name.removesuffix(".parquet").split("_")
                newest[group] = max(newest.get(group, ("", "")), (instant, name))
        return [name for _, name in newest.values()]

    def records(self, metadata_partition: str) -> dict[str, dict[str, list[tuple[str, dict[str, Any]]]]]:
        """File group -> key -> (where from, record), oldest first; deletes do not occur."""
        found: dict[str, dict[str, list[tuple[str, dict[str, Any]]]]] = defaultdict(lambda: defaultdict(list))
        root = f".hoodie/metadata/{metadata_partition}/"
        for path in sorted(self.files):
            name = path.removeprefix(root)
            if path.startswith(root) and not name.startswith(".hoodie"):
                group = name.removeprefix(".").partition("_")[0]
                for key, record in _entries(name, self.files[path]):
                    found[group][key].append((name, record))
        return found

    def schemas(self, metadata_partition: str) -> list[str]:
        """Avro schemas of the log blocks with records, oldest first."""
        paths = [one for one in sorted(self.files) if one.startswith(f".hoodie/metadata/{metadata_partition}/.")]
        blocks = (block for path in paths if ".log." in path for block in read_blocks(self.files[path], path))
        return [block.header[HeaderKey.SCHEMA] for block in blocks if block.kind == BlockKind.HFILE_DATA]


@cache
def stats_table(name: str) -> StatsTable:
    """A table by its name."""
    files = {}
    with tarfile.open(STATS / f"{name}.tar.xz") as tar:
        for member in tar:
            content = tar.extractfile(member)
            assert content is not None
            files[member.name.partition("/")[2].removesuffix(".footer")] = content.read()
    return StatsTable(name, files)


@cache
def stats_names() -> tuple[str, ...]:
    """All tables."""
    return tuple(sorted(path.name.removesuffix(".tar.xz") for path in STATS.glob("*.tar.xz")))


def _entries(name: str, data: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    if ".log." not in name:
        yield from _records(HFile.of(data, name), None)
        return
    for block in read_blocks(data, name):
        if block.kind == BlockKind.HFILE_DATA:
            yield from _records(HFile.of(block.content, name), block.header[HeaderKey.SCHEMA])


def _records(file: HFile, schema: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
    for key, value in file.entries():
        yield key.decode(), dict(decode_record(value, schema or file.schema or "", file.source))
