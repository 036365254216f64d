"""A run's folder: Parquet checkpoints and the manifests that make them count.

``<checkpoints>/<run id>/<stage>.json`` is the manifest of a stage, put whole after its files; without it nothing of the
stage counts. Files lie in ``<stage>/<attempt>/``, a folder no other attempt writes to, and the manifest holds the
digest of each, so a checkpoint that is partial, foreign or damaged is found out before a row of it is used. A manifest
names the digest of what it was made from (``basis``); a re-run reuses it only when that is still the same.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import mmh3
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import field

from lakeindex.errors import InputError, LakeIndexError, ObjectNotFoundError, WriteConflictError
from lakeindex.frozen import Frozen
from lakeindex.pipeline import Stage
from lakeindex.run.summary import StageSummary, stage_summary
from lakeindex.showing.json_values import json_of
from lakeindex.storage.port import Storage
from lakeindex.tasks.memory_bound import BoundedCache, cache_bytes, current_share

MANIFEST_VERSION = 5

_TYPES = {
    "string": pa.string(),
    "binary": pa.binary(),
    "int8": pa.int8(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float64": pa.float64(),
}


HELD_BYTES: Final = 64 << 20
LARGEST_HELD: Final = 4 << 20
"""Larger files are read by row group, and there are few of them."""
LARGEST_DECODED: Final = 64 << 10
"""Rows of smaller files are held decoded: for them, opening the file takes longer than reading it. They are not
compressed: to set up zstd takes longer than to write them.
"""

_held: ContextVar[BoundedCache[memoryview | pa.Table] | None] = ContextVar("held checkpoints", default=None)


@contextmanager
def checkpoints_held() -> Iterator[None]:
    """Keep the small checkpoint files that are written in the body in memory, and read them from there.

    A run in one process reads what it has just written. On an object store each of these reads would be a request.
    """
    token = _held.set(BoundedCache(HELD_BYTES))
    try:
        yield
    finally:
        _held.reset(token)


class CheckpointError(InputError):
    """A checkpoint is missing, partial, damaged, or belongs to something else."""


def arrow_schema(columns: Mapping[str, str]) -> pa.Schema:
    return pa.schema([pa.field(name, _TYPES[kind]) for name, kind in columns.items()])


def digest_of(data: bytes | memoryview | pa.Buffer) -> str:
    """128-bit MurmurHash3 of the bytes, hexadecimal: finds damage, not malice."""
    return mmh3.mmh3_x64_128_digest(memoryview(data)).hex()


def digest_of_text(*parts: object) -> str:
    """Digest of values that together decide a checkpoint's content."""
    return digest_of("\x1f".join(str(p) for p in parts).encode())


def own_name(path: str) -> str:
    """A path of one try of a task: a straggler that the runner has given up cannot replace what another try wrote."""
    stem, dot, suffix = path.rpartition(".")
    return f"{stem}-{uuid.uuid4().hex[:8]}{dot}{suffix}"


def columns_of(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """Rows turned into ``width`` columns; empty ones if there are no rows."""
    return [[row[i] for row in rows] for i in range(width)]


def table_of(rows: Sequence[Sequence[Any]], columns: Mapping[str, str]) -> pa.Table:
    """Rows as a checkpoint table of :mod:`lakeindex.pipeline`."""
    schema = arrow_schema(columns)
    cells = columns_of(rows, len(schema))
    return pa.table([pa.array(c, f.type) for c, f in zip(cells, schema, strict=True)], schema=schema)


class Part(Frozen):
    """One checkpoint file; ``path`` is relative to the checkpoints' root."""

    path: str
    rows: int
    bytes: int
    digest: str


class Manifest(Frozen):
    """What a finished stage left behind.

    Attributes:
        basis: digest of what the stage worked from.
        tables: checkpoint table -> its files.
        counters: what the summary reports.
        facts: small values that later stages need.
        costs: what the stage cost (:func:`lakeindex.run.summary.costs_of`); empty until the manifest is written.
    """

    stage: str
    run_id: str
    basis: str
    tables: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)
    counters: Mapping[str, int | float] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)
    manifest_version: int = MANIFEST_VERSION

    @property
    def digest(self) -> str:
        """Digest of the stage's result: what the next stage's basis is made of."""
        parts = [f"{name}:{p.digest}" for name, table in sorted(self.tables.items()) for p in table]
        return digest_of_text(self.stage, self.basis, *parts, json.dumps(dict(self.facts), sort_keys=True))

    def parts(self, table: str) -> tuple[Part, ...]:
        """Files of a checkpoint table; none if the stage has no such table."""
        return self.tables.get(table, ())


class RunFolder:
    """Reads and writes the checkpoints of one run, below the checkpoints' root ``store``."""

    def __init__(self, store: Storage, run_id: str) -> None:
        self.store = store
        self.run_id = run_id

    def new_attempt(self, stage: Stage) -> str:
        """A folder of its own for the files of one attempt at a stage."""
        return f"{self.run_id}/{stage}/{uuid.uuid4().hex[:12]}"

    def manifest_path(self, stage: Stage) -> str:
        return f"{self.run_id}/{stage}.json"

    def read_manifest(self, stage: Stage) -> Manifest | None:
        """The stage's manifest, or None if there is none, or one of another version: then the stage is done again.

        Raises:
            CheckpointError: it is there, but not one of this run and stage.
        """
        path = self.manifest_path(stage)
        try:
            raw = json.loads(self.store.read(path))
            if raw["manifest_version"] != MANIFEST_VERSION:
                return None
            tables = {name: tuple(Part(**p) for p in parts) for name, parts in raw.pop("tables").items()}
            manifest = Manifest(tables=tables, **raw)
        except ObjectNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._damaged(path, f"cannot be read: {error}") from error
        if (manifest.stage, manifest.run_id) != (str(stage), self.run_id):
            raise self._damaged(path, f"belongs to stage {manifest.stage!r} of run {manifest.run_id!r}")
        return manifest

    def has_other_version(self, stage: Stage) -> bool:
        """Whether there is a manifest, of another version than this release's."""
        try:
            found = json.loads(self.store.read(self.manifest_path(stage)))
        except (ObjectNotFoundError, ValueError):
            return False
        return isinstance(found, dict) and found.get("manifest_version", MANIFEST_VERSION) != MANIFEST_VERSION

    def require_manifest(self, stage: Stage) -> Manifest:
        """As :meth:`read_manifest`; a missing one is an error that says which stage to run."""
        manifest = self.read_manifest(stage)
        if manifest is None:
            raise CheckpointError(
                f"stage {stage} of run {self.run_id!r} has left no checkpoint",
                culprit=self.manifest_path(stage),
                hint=f"run {stage} first",
            )
        return manifest

    def write_manifest(self, manifest: Manifest) -> None:
        """Put the manifest: from here on the stage counts as done."""
        text = json.dumps(json_of(manifest), sort_keys=True)
        self.store.write(f"{self.run_id}/{manifest.stage}.json", text.encode())

    def make_durable(self, stage: Stage) -> None:
        """Sync a stage's files, then its manifest: another process, maybe after a power loss, goes on from them,
        and cannot make them again.
        """
        manifest = self.read_manifest(stage)
        if manifest is not None:
            self.store.sync([part.path for parts in manifest.tables.values() for part in parts])
            self.store.sync([self.manifest_path(stage)])

    def is_whole(self, manifest: Manifest) -> bool:
        """Whether every file of the manifest is there with the size it had."""
        for part in (p for parts in manifest.tables.values() for p in parts):
            try:
                if self.store.head(part.path).size_bytes != part.bytes:
                    return False
            except ObjectNotFoundError:
                return False
        return True

    def write_table(self, path: str, table: pa.Table, *, row_group_rows: int | None = None) -> Part:
        """Write a checkpoint file, whole, under a name that no other try of the task has.

        Args:
            path: what the name begins with; the part that is returned has the whole.
            row_group_rows: of each row group; None: all rows are one.
        """
        sink = pa.BufferOutputStream()
        codec = "none" if table.nbytes <= LARGEST_DECODED else "zstd"
        pq.write_table(table, sink, compression=codec, row_group_size=row_group_rows or max(1, table.num_rows))
        return self.write_bytes(path, sink.getvalue(), table.num_rows)

    def write_bytes(self, path: str, data: pa.Buffer, rows: int) -> Part:
        """Write an already encoded checkpoint file, under a name that no other try of the task has."""
        own = own_name(path)
        self.store.write(own, (memoryview(data),))
        part, held = Part(own, rows, data.size, digest_of(data)), _held.get()
        if held is not None and data.size <= LARGEST_HELD:
            held.put((part.path, part.digest), memoryview(data), cache_bytes(current_share()))
        return part

    def read_bytes(self, part: Part) -> memoryview:
        """A checkpoint file's bytes, checked against its digest.

        Raises:
            CheckpointError: missing, or not the bytes that were written.
        """
        held = _held.get()
        known = held.get((part.path, part.digest)) if held is not None else None
        if isinstance(known, memoryview):
            return known
        try:
            data = memoryview(self.store.read(part.path))
        except ObjectNotFoundError as error:
            raise self._damaged(part.path, "is missing") from error
        if len(data) != part.bytes or digest_of(data) != part.digest:
            raise self._damaged(part.path, f"is damaged: {len(data)} bytes, expected {part.bytes} with another digest")
        return data

    def read_table(self, part: Part, columns: Sequence[str] | None = None) -> pa.Table:
        held, key = _held.get(), (part.path, part.digest, "decoded")
        known = held.get(key) if held is not None else None
        if isinstance(known, pa.Table):
            return known if columns is None else known.select(columns)
        raw = self.read_bytes(part)
        file = pq.ParquetFile(pa.BufferReader(raw))  # read_table takes datasets: slow on small ones
        if held is None or held.get(key[:2]) is not raw or part.bytes > LARGEST_DECODED:
            return file.read(columns=columns, use_threads=False)
        rows = file.read(use_threads=False)
        held.put(key, rows, cache_bytes(current_share()))
        return rows if columns is None else rows.select(columns)

    def read_all(self, manifest: Manifest, table: str, schema: pa.Schema) -> pa.Table:
        """All files of a checkpoint table, joined."""
        parts = manifest.parts(table)
        return pa.concat_tables([self.read_table(p) for p in parts]) if parts else schema.empty_table()

    def _damaged(self, path: str, why: str) -> CheckpointError:
        return CheckpointError(
            f"checkpoint {path!r} {why}",
            culprit=path,
            hint=f"delete the folder {self.store.uri}/{self.run_id}, and run the batch again from its first stage",
        )


class OutOfDateError(Exception):
    """The table moved before anything was planned on it."""

    def __init__(self, conflict: WriteConflictError) -> None:
        super().__init__(conflict.message)
        self.conflict = conflict


class StageRun(Frozen):
    """A stage's manifest, and its line in the summary."""

    manifest: Manifest
    summary: StageSummary


class LookedUp(Frozen):
    """The batch and where its keys are, as of one snapshot."""

    staged: Manifest
    lookup: Manifest
    candidates: Manifest
    verified: Manifest
    summaries: tuple[StageSummary, ...]


def summary_of(manifest: Manifest, *, reused: bool) -> StageSummary:
    """A finished stage's line: what it cost when it was made."""
    return stage_summary(manifest.stage, manifest.costs, manifest.counters, reused=reused)


def finished_stages(folder: RunFolder) -> tuple[StageSummary, ...]:
    """Lines of the stages that left a checkpoint in a run's folder, whatever became of the run."""
    lines = []
    for stage in Stage:
        try:
            manifest = folder.read_manifest(stage)
        except LakeIndexError:
            continue
        if manifest is not None and manifest.costs:
            lines.append(summary_of(manifest, reused=False))
    return tuple(lines)
