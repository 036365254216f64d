"""A table that both sides write in turns, its oracle, and every reader that judges it."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from hudi import HudiQueryType, HudiReadOptions, HudiTableBuilder

from lakeindex.operations.metadata import MetadataVerified, metadata_verify
from lakeindex.options.option import TABLE_VERSION_OPTION
from tests.interop import ours
from tests.interop.hudi_client import HudiServer, keep_options
from tests.interop.rows import Layout, Replay, assert_state, make_row, make_table


def instant_files(path: Path, pattern: str) -> list[Path]:
    """Files of the active timeline by a pattern of their names, on either timeline layout."""
    return [file for folder in (".hoodie", ".hoodie/timeline") for file in (path / folder).glob(pattern)]


_COMPLETED = re.compile(r"(\d{17})(?:_\d{17})?\.(commit|replacecommit)")


def completed_writes(path: Path) -> list[str]:
    """Instants of completed writes, oldest first, on either timeline layout."""
    return sorted(match[1] for file in instant_files(path, "*") if (match := _COMPLETED.fullmatch(file.name)))


def read_with_rust(path: Path, options: HudiReadOptions | None = None) -> pa.Table:
    """The table through hudi-rs."""
    table = HudiTableBuilder.from_base_uri(str(path)).build()
    batches = table.read(options) if options is not None else table.read()
    if not batches:  # what it gives of a table without rows has no columns either
        return pa.table({})
    return pa.Table.from_batches([pa.record_batch(batch) for batch in batches])


def read_with_rust_if_it_can(path: Path, *, mixed: bool) -> pa.Table | None:
    """hudi-rs puts no metadata table together whose statistics 1.0 and later releases wrote: their schemas differ.

    Args:
        mixed: both have written. lakeindex writes what the later ones do.
    """
    try:
        return read_with_rust(path)
    except Exception as error:  # hudi-rs exports no class of its errors
        if "reconcile: column 'ColumnStatsMetadata'" not in str(error) or not mixed:
            raise
        return None


def rust_as_of(path: Path, instant: str) -> pa.Table:
    """Time travel through hudi-rs."""
    return read_with_rust(path, HudiReadOptions().with_as_of_timestamp(instant))


def rust_since(path: Path, instant: str) -> pa.Table:
    """Incremental read through hudi-rs."""
    incremental = HudiReadOptions().with_query_type(HudiQueryType.Incremental)
    return read_with_rust(path, incremental.with_start_timestamp(ended(path, instant)))


def rows_of(numbers: Iterable[int], version: int) -> pa.Table:
    """Rows of a version as an Arrow table."""
    return make_table(make_row(number, version) for number in numbers)


@dataclass
class Story:
    """See the module.

    Attributes:
        path: the table.
        hudi: the release that takes turns with us.
        options: Hudi's write options, keys and partitions included.
        our_options: our write options.
        states: what the table was right after each instant.
    """

    path: Path
    layout: Layout
    hudi: HudiServer
    options: dict[str, str]
    our_options: dict[str, str] = field(default_factory=lambda: dict(ours.ASKED))
    replay: Replay = field(init=False)
    states: dict[str, Replay] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.replay = Replay(self.layout)

    @property
    def instants(self) -> list[str]:
        """Instants of the story, in order."""
        return list(self.states)

    def note(self, instant: str, numbers: Iterable[int], version: int | None) -> str:
        """Replay a step (a delete if ``version`` is None) and remember the state after its instant."""
        assert instant not in self.states, f"{instant} was used before"
        assert all(instant > earlier for earlier in self.states), f"{instant} is not after {self.instants}"
        if version is None:
            self.replay.delete(numbers)
        else:
            self.replay.upsert(numbers, version, instant)
        self.states[instant] = self.replay.copy()
        return instant

    def we_create(self, options: Mapping[str, str] | None = None, *, metadata: bool | None = False) -> None:
        """Make the table with ``lakeindex create``; ``metadata`` as :func:`ours.create` takes it."""
        version = {TABLE_VERSION_OPTION: str(self.hudi.table_version)}
        ours.create(self.path, self.layout, {**version, **(options or {})}, metadata=metadata)

    def we_upsert(self, numbers: Iterable[int], version: int) -> str:
        """Our upsert; its summary must say what the oracle says."""
        numbers = list(numbers)
        old = sum(number in self.replay.rows for number in numbers)
        summary = ours.upsert(self.path, rows_of(numbers, version), self.our_options)
        counted = (summary.rows_in, summary.updates, summary.inserts, summary.deletes)
        assert counted == (len(numbers), old, len(numbers) - old, 0), summary
        return self.note(summary.instant, numbers, version)

    def we_delete(self, numbers: Iterable[int]) -> str:
        """Our delete."""
        numbers = list(numbers)
        found = sum(number in self.replay.rows for number in numbers)
        summary = ours.delete(self.path, rows_of(numbers, 0), self.our_options)
        assert (summary.deletes, summary.ignored) == (found, len(numbers) - found), summary
        return self.note(summary.instant, numbers, None)

    def hudi_writes(
        self, operation: str, numbers: Iterable[int], version: int, extra: Mapping[str, str] | None = None
    ) -> str:
        """A write by Hudi: insert, bulk_insert or upsert."""
        numbers = list(numbers)
        mode = "append" if (self.path / ".hoodie").exists() else "overwrite"
        self._send(operation, rows_of(numbers, version), extra, mode)
        return self.note(completed_writes(self.path)[-1], numbers, version)

    def hudi_upserts(self, numbers: Iterable[int], version: int, extra: Mapping[str, str] | None = None) -> str:
        """An upsert by Hudi."""
        return self.hudi_writes("upsert", numbers, version, extra)

    def hudi_deletes(self, numbers: Iterable[int], extra: Mapping[str, str] | None = None) -> str:
        """A delete by Hudi."""
        numbers = list(numbers)
        self._send("delete", rows_of(numbers, 0), extra, "append")
        return self.note(completed_writes(self.path)[-1], numbers, None)

    def _send(self, operation: str, rows: pa.Table, extra: Mapping[str, str] | None, mode: str) -> None:
        options = {**self.options, "hoodie.datasource.write.operation": operation, **(extra or {})}
        self.hudi.write(self.path, rows, options, mode=mode)

    def judge(self, what: str, *, sound: bool = False) -> None:
        """Every reader sees the oracle's state: Hudi, hudi-rs, we; on demand ``lakeindex check``, too."""
        assert_state(self.hudi.read(self.path), self.replay, f"{what}: Hudi {self.hudi.version} reads")
        rows = read_with_rust_if_it_can(self.path, mixed=self.hudi.version == "1.0.2")
        if rows is not None:
            assert_state(rows, self.replay, f"{what}: hudi-rs reads")
        assert_state(ours.read(self.path), self.replay, f"{what}: we read")
        if metadata_partitions(self.path):
            said = metadata_verify(str(self.path))
            assert said.ok or self._is_of_signed_bytes(said), f"{what}: the metadata table says {said}"
            sound = sound and said.ok  # `check` would say it again
        if sound:
            ours.assert_sound(self.path, what)

    def _is_of_signed_bytes(self, said: MetadataVerified) -> bool:
        """Hudi 1.0 joins the ranges of a partition's files with the bytes of a binary column as signed numbers."""
        examples = said.examples
        return self.hudi.version == "1.0.2" and all(
            one.kind == "statistics" and one.path.endswith(" (raw)") and "partition_stats" in one.mend
            for one in examples
        )


def metadata_partitions(path: Path) -> str:
    """What the table's properties say of its metadata table."""
    lines = (path / ".hoodie" / "hoodie.properties").read_text().splitlines()
    pairs = (line.partition("=") for line in lines if not line.startswith("#"))
    return {key: value for key, _, value in pairs}.get("hoodie.table.metadata.partitions", "")


def keeping_story(folder: Path, layout: Layout, hudi: HudiServer) -> Story:
    """A story in which Hudi leaves the table as it is."""
    path = folder / layout.name
    return Story(path, layout, hudi, {**keep_options(hudi.version, hudi.table_version), **layout.hudi_options()})


def ended(path: Path, instant: str | None) -> str | None:
    """When a write was completed, which is what incremental reads of later table versions go by; in version 6 its instant."""
    for file in instant_files(path, f"{instant}_*commit"):
        return file.name.partition("_")[2].partition(".")[0]
    return instant


def hudi_since(hudi: HudiServer, story: Story, begin: str, end: str | None = None) -> pa.Table:
    """Hudi's incremental read; 1.x takes partition columns from the folder's name and does not decode it.

    It does so with its own tables, too; the rest of the row is judged as it is. 1.0 counts the commit that it begins with in.
    """
    begun = ended(story.path, begin)
    if begun and len(begun) == 17 and (1, 0) <= hudi.release < (1, 1) and hudi.table_version > 6:
        moment = dt.datetime.strptime(f"{begun}000+0000", "%Y%m%d%H%M%S%f%z") + dt.timedelta(milliseconds=1)
        begun = moment.strftime("%Y%m%d%H%M%S%f")[:17]
    found = hudi.since(story.path, begun, ended(story.path, end))
    if hudi.release > (1, 0) and story.layout.url_encode:
        places = pa.array([unquote(text) for text in found["place"].to_pylist()], pa.string())
        found = found.set_column(found.schema.get_field_index("place"), "place", places)
    return found
