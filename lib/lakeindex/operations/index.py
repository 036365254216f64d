"""Build, drop and show the stored index of a table, and compare each of its entries with the keys of the live files.

For the comparison both sides are divided by the hash of the key into as many parts as are needed for one part to fit
into memory. The parts are compared one after the other.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from lakeindex.conductor.open_for_write import retry_on_conflict
from lakeindex.errors import OptionError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.frozen import Frozen
from lakeindex.index.locations.record_shards import scope_of, split
from lakeindex.index.registry import stored_index_for
from lakeindex.metadata.compaction import delta_commits_since
from lakeindex.model import BaseFile, Group, IndexSpec, IndexType, Operation
from lakeindex.options.option_table import BY_KEY
from lakeindex.options.parse import index_spec, parse_options
from lakeindex.run.checkpoints import Part, RunFolder
from lakeindex.run.index.in_metadata import is_in_metadata, metadata_store
from lakeindex.run.index.index_session import uncovered
from lakeindex.run.index.sessions import stored_session
from lakeindex.run.index.stored_session import StoredSession
from lakeindex.run.spec import BoundTable, RunSpec, run_folder
from lakeindex.run.table_facts import facts_of
from lakeindex.showing.json_result import TableResult
from lakeindex.storage.opening import remove_empty_folders
from lakeindex.storage.paths import absolute
from lakeindex.table.handle import Table
from lakeindex.tasks.runner import Runner
from lakeindex.tasks.stores import storage_at
from lakeindex.timeline.timeline import Timeline

KEPT_BY_US: Final = "lakeindex"
KEPT_IN_METADATA: Final = "metadata table"

_T = TypeVar("_T")


class IndexBuilt(TableResult):
    """An index that was built.

    Attributes:
        index_type: which index.
        generation: name of the built generation.
        covered_through: the newest commit whose rows are in it; None on an empty table.
        rows: keys in it.
        files: base files they were read from.
        bytes: its size on storage.
        seconds: wall time.
    """

    shown_by: ClassVar[str] = "results:show_index_built"

    index_type: str
    generation: str
    covered_through: str | None
    rows: int
    files: int
    bytes: int
    seconds: float


class IndexDropped(TableResult):
    """An index that was removed.

    Attributes:
        index_type: which index.
        was_built: whether there was anything in force.
        bytes: size of what was removed.
    """

    shown_by: ClassVar[str] = "results:show_index_dropped"

    index_type: str
    was_built: bool
    bytes: int


class IndexCompacted(TableResult):
    """An index whose deltas were folded into what was built.

    Attributes:
        index_type: which index.
        deltas: deltas that were folded; 0 if there were none.
        bytes: its size on storage now.
    """

    index_type: str
    deltas: int
    bytes: int


class IndexStatus(TableResult):
    """The state of a stored index.

    Attributes:
        index_type: which index.
        is_bound: the table's writes use it.
        is_built: it can answer.
        generation: name of the built generation.
        covered_through: the newest commit whose rows are in it.
        last_commit: the newest commit of the table.
        deltas: deltas of commits since it was built or compacted.
        rows: keys it holds, by the files it covers; None if it is in the metadata table.
        files: live files that it covers.
        files_behind: live files that it does not; the next write reads them first.
        bytes: its size on storage.
        kept_in: where it is: ``lakeindex``, our own store; or ``metadata table``, Hudi's index of the same type, beside
            which our own store is not used.
    """

    shown_by: ClassVar[str] = "results:show_index_status"

    index_type: str
    is_bound: bool
    is_built: bool
    generation: str | None
    covered_through: str | None
    last_commit: str | None
    deltas: int
    rows: int | None
    files: int
    files_behind: int
    bytes: int
    kept_in: str = KEPT_BY_US


class OpenedIndex(BoundTable):
    """A table with facts of one stored index of it, opened for one command.

    Attributes:
        spec: the command as a run; its folder is removed afterwards.
    """

    spec: RunSpec
    session: StoredSession

    @property
    def bytes(self) -> int:
        """Size of everything the index keeps beside the table."""
        return sum(one.size_bytes for one in self.table.storage.list(self.session.folder))

    @property
    def is_in_metadata(self) -> bool:
        """Whether the metadata table keeps it, and our own store is not used."""
        return is_in_metadata(self.table.storage, stored_index_for(self.facts.index))

    def check_ours(self) -> None:
        """Refuse what is about our own store where the metadata table keeps the index. Raises: OptionError."""
        if self.is_in_metadata:
            name = stored_index_for(self.facts.index).metadata_partition
            raise OptionError(
                f"{self.facts.index_type} of table {self.table.name} is in its metadata table: {name}",
                culprit=self.facts.index_type,
                hint="`lakeindex metadata verify` compares it with the table; every commit keeps it up, and "
                f"`lakeindex maintain` compacts it. `lakeindex metadata drop TABLE --partition {name}` takes it away",
            )


def on_index(
    uri: str,
    runner: Runner,
    checkpoints: str,
    index_type: str | None,
    options: Mapping[str, str] | None,
    work: Callable[[OpenedIndex], _T],
) -> _T:
    """Do something with a stored index of a table, anew if others change the table or the index meanwhile.

    Args:
        checkpoints: where a folder for working data may be made; it is removed at the end.
        index_type: which index; by default the one that the table is bound to.

    Raises:
        TableNotFoundError: no table.
        OptionError: an index that stores nothing, or none is named and none is bound.
        WriteConflictError: others changed it in every try.
    """
    pairs = dict(options or {})
    if index_type is not None:
        pairs["hoodie.index.type"] = index_type
    config = parse_options(pairs)
    pairs.pop("hoodie.index.type", None)
    table = Table.at(uri, use_metadata=config.use_metadata)

    def on(snapshot: Snapshot) -> _T:
        index = _chosen(table, snapshot.timeline, config.index_type, pairs)
        with opened_index(table, snapshot, index, runner, checkpoints, pairs) as opened:
            return work(opened)

    return retry_on_conflict(table, config, on)


@contextmanager
def opened_index(
    table: Table, snapshot: Snapshot, index: IndexSpec, runner: Runner, checkpoints: str, pairs: Mapping[str, str]
) -> Iterator[OpenedIndex]:
    """A stored index of a table as of a snapshot; the folder for working data is removed at the end.

    Raises:
        OptionError: an index that stores nothing.
    """
    if stored_index_for(index).in_process:
        raise OptionError(
            f"index type {index.index_type} lives in the process that writes: "
            "there is nothing to build, drop or verify",
            culprit=index.index_type,
            hint="it is filled from the base files by the first write of each process",
        )
    plain = {key: text for key, text in pairs.items() if key not in BY_KEY or not BY_KEY[key].bound_with}
    facts = replace(facts_of(table, snapshot, parse_options(plain)), index=index)
    run_id = f"index-{uuid.uuid4().hex[:12]}"
    spec = RunSpec(
        table_uri=table.uri,
        checkpoints_uri=absolute(checkpoints),
        run_id=run_id,
        batch_id=run_id,
        operation=Operation.UPSERT,
        inputs=(),
        options=tuple(sorted(plain.items())),
    )
    try:
        yield OpenedIndex(table, snapshot, facts, spec, stored_session(spec, facts, runner))
    finally:
        work = storage_at(spec.checkpoints_uri)
        for one in work.list(run_id):
            work.delete(one.path)
        remove_empty_folders(work, run_id)


def _chosen(table: Table, timeline: Timeline, named: IndexType | None, pairs: Mapping[str, str]) -> IndexSpec:
    bound = table.index(timeline)
    if named is None:
        if bound is None:
            raise OptionError(
                f"table {table.name} is not bound to an index yet", culprit="--type", hint="say which with --type"
            )
        return bound
    if bound is not None and bound.index_type is named:
        return bound
    return index_spec(named, parse_options(pairs))


def build_index(
    uri: str,
    runner: Runner,
    checkpoints: str,
    *,
    index_type: str | None = None,
    options: Mapping[str, str] | None = None,
) -> IndexBuilt:
    """Build a stored index again from the key columns of all live files.
    What was built before stays in force until it is done.

    Args:
        checkpoints: where a folder for working data may be made; it is removed at the end.

    Raises:
        OptionError: the metadata table keeps it.
        InvariantError: a key that must be unique is stored twice; nothing has changed.
        WriteConflictError: others built or compacted it at the same time, again and again; theirs is in force.
    """
    started = time.perf_counter()

    def build(opened: OpenedIndex) -> IndexBuilt:
        opened.check_ours()
        built = opened.session.build(opened.snapshot)
        return IndexBuilt(
            opened.table.name,
            opened.table.uri,
            opened.facts.index_type.value,
            built.generation,
            opened.snapshot.instant_time,
            built.rows,
            len(built.files),
            opened.bytes,
            round(time.perf_counter() - started, 4),
        )

    return on_index(uri, runner, checkpoints, index_type, options, build)


def compact_index(
    uri: str,
    runner: Runner,
    checkpoints: str,
    *,
    index_type: str | None = None,
    options: Mapping[str, str] | None = None,
) -> IndexCompacted:
    """Bring a stored index up to the table, and fold its deltas into what was built. Writers do so every ten deltas.

    Raises:
        IndexNotBuiltError: there is nothing to compact.
        IndexDamagedError: it does not hold as many keys as the files it covers.
    """

    def compact(opened: OpenedIndex) -> IndexCompacted:
        opened.check_ours()
        deltas = opened.session.compact(opened.snapshot)
        return IndexCompacted(opened.table.name, opened.table.uri, opened.facts.index_type.value, deltas, opened.bytes)

    return on_index(uri, runner, checkpoints, index_type, options, compact)


def drop_index(
    uri: str,
    runner: Runner,
    checkpoints: str,
    *,
    index_type: str | None = None,
    options: Mapping[str, str] | None = None,
) -> IndexDropped:
    """Remove a stored index. A table that is bound to it refuses writes until it is built again."""

    def drop(opened: OpenedIndex) -> IndexDropped:
        size = opened.bytes
        state = opened.session.state(opened.snapshot)
        opened.session.drop()
        return IndexDropped(
            opened.table.name, opened.table.uri, opened.facts.index_type.value, state.built is not None, size
        )

    return on_index(uri, runner, checkpoints, index_type, options, drop)


def index_status(
    uri: str,
    runner: Runner,
    checkpoints: str,
    *,
    index_type: str | None = None,
    options: Mapping[str, str] | None = None,
) -> IndexStatus:
    """What there is of a stored index; nothing is changed.

    Raises:
        MetadataTableError: it is in the metadata table, which was not kept up.
        IndexDamagedError: what is there cannot be read.
    """

    def look(opened: OpenedIndex) -> IndexStatus:
        if opened.is_in_metadata:
            return _status_in_metadata(opened)
        state = opened.session.state(opened.snapshot)
        live = opened.snapshot.base_files_all()
        missing, _ = uncovered(live, state.coverage, None)
        bound = opened.table.index(opened.snapshot.timeline)
        return IndexStatus(
            table=opened.table.name,
            uri=opened.table.uri,
            index_type=opened.facts.index_type.value,
            is_bound=bound is not None and bound.index_type is opened.facts.index_type,
            is_built=opened.session.is_built(state),
            generation=None if state.built is None else state.built.generation,
            covered_through=state.covered_through,
            last_commit=opened.snapshot.instant_time,
            deltas=len(state.in_force),
            rows=state.rows,
            files=len(live) - len(missing),
            files_behind=len(missing),
            bytes=opened.bytes,
        )

    return on_index(uri, runner, checkpoints, index_type, options, look)


def _status_in_metadata(opened: OpenedIndex) -> IndexStatus:
    timeline, live = opened.snapshot.timeline, opened.snapshot.base_files_all()
    index = stored_index_for(opened.facts.index)
    store = metadata_store(opened.table, timeline, index)
    with store.refusing_if_dropped():
        store.check(file.partition_path for file in live)
    bound = opened.table.index(timeline)
    folder = store.view.table.folder(index.metadata_partition or "")
    return IndexStatus(
        table=opened.table.name,
        uri=opened.table.uri,
        index_type=opened.facts.index_type.value,
        is_bound=bound is not None and bound.index_type is opened.facts.index_type,
        is_built=True,
        generation=None,
        covered_through=opened.snapshot.instant_time,
        last_commit=opened.snapshot.instant_time,
        deltas=delta_commits_since(store.view.timeline),
        rows=None,
        files=len(live),
        files_behind=0,
        bytes=sum(one.size_bytes for one in opened.table.storage.list(folder)),
        kept_in=KEPT_IN_METADATA,
    )


_ROWS_A_PART: Final = 2_000_000
_HELD_ROWS: Final = 2_000_000
_EXAMPLES: Final = 5
_BETWEEN: Final = "\x00"
_COLUMNS: Final = ["key", "partition", "file_id"]


class IndexFault(Frozen):
    """One entry that is wrong.

    Attributes:
        kind: ``missing``: a stored key has no entry; ``wrong``: its entry names another place; ``surplus``:
            an entry of a key that is not stored; ``doubled``: a key is stored twice where it must be unique.
        key: the record key.
        stored: partition and file group it is in, None if it is not stored.
        entry: those that the index names, None if it names none.
    """

    kind: str
    key: str
    stored: str | None
    entry: str | None


class IndexVerified(TableResult):
    """What the comparison found.

    Attributes:
        index_type: which index.
        ok: every entry is right, every key has one.
        rows: stored keys that were compared.
        entries: entries that were compared.
        files: live files that were compared.
        files_behind: live files that the index does not cover: not compared, the next write reads them first.
        missing: stored keys without an entry.
        wrong: entries that name another place.
        surplus: entries of keys that are not stored.
        doubled: stored keys that must be unique and are not.
        examples: some of each.
        seconds: wall time.
    """

    shown_by: ClassVar[str] = "results:show_index_verified"

    index_type: str
    ok: bool
    rows: int
    entries: int
    files: int
    files_behind: int
    missing: int
    wrong: int
    surplus: int
    doubled: int
    examples: tuple[IndexFault, ...]
    seconds: float


def verify_index(
    uri: str,
    runner: Runner,
    checkpoints: str,
    *,
    index_type: str | None = None,
    options: Mapping[str, str] | None = None,
) -> IndexVerified:
    """Compare a stored index with the table. Nothing is changed; what is wrong does not raise, it is reported.

    Raises:
        OptionError: the metadata table keeps it.
        IndexNotBuiltError: there is nothing to compare.
        IndexDamagedError: a file of the index cannot be read.
    """
    started = time.perf_counter()

    def verify(opened: OpenedIndex) -> IndexVerified:
        opened.check_ours()
        state = opened.session.built_state(opened.snapshot)
        live = opened.snapshot.base_files_all()
        behind = set(uncovered(live, state.coverage, None)[0])
        files = [file for file in live if file not in behind]
        counts = _compare(opened, files, opened.session.entries(state))
        return IndexVerified(
            table=opened.table.name,
            uri=opened.table.uri,
            index_type=opened.facts.index_type.value,
            ok=not any(counts.of(kind) for kind in _KINDS),
            rows=counts.rows,
            entries=counts.entries,
            files=len(files),
            files_behind=len(behind),
            missing=counts.of("missing"),
            wrong=counts.of("wrong"),
            surplus=counts.of("surplus"),
            doubled=counts.of("doubled"),
            examples=tuple(counts.examples),
            seconds=round(time.perf_counter() - started, 4),
        )

    return on_index(uri, runner, checkpoints, index_type, options, verify)


_KINDS: Final = ("missing", "wrong", "surplus", "doubled")


class _Counts(Struct):
    rows: int = 0
    entries: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    examples: list[IndexFault] = field(default_factory=list)

    def of(self, kind: str) -> int:
        return self.faults.get(kind, 0)

    def add(self, kind: str, faults: int, examples: Iterator[IndexFault]) -> None:
        room = _EXAMPLES - self.of(kind)
        self.examples += [fault for _, fault in zip(range(max(room, 0)), examples, strict=False)]
        self.faults[kind] = self.of(kind) + faults


def _compare(opened: OpenedIndex, covered: Sequence[BaseFile], held_entries: Iterable[pa.Table]) -> _Counts:
    folder = run_folder(opened.spec)
    read = opened.session.read_keys(covered)
    total = sum(one.part.rows for one in read)
    parts = max(1, -(-total // _ROWS_A_PART))
    stored = _Spread(folder, f"{opened.spec.run_id}/stored", parts)
    held = _Spread(folder, f"{opened.spec.run_id}/held", parts)
    for one in read:
        stored.add(folder.read_table(one.part, _COLUMNS))
    groups: list[Group] = [(f.partition_path, f.file_id) for f in covered]
    names = pa.array([_BETWEEN.join(group) for group in groups], pa.string())
    for table in held_entries:
        entries = table.select(_COLUMNS).cast(pa.schema([pa.field(n, pa.string()) for n in _COLUMNS]))
        held.add(entries.filter(pc.is_in(_place(entries), value_set=names)))
    counts = _Counts()
    for number in range(parts):
        _compare_part(stored.read(number), held.read(number), counts, by_partition=not opened.facts.is_global)
    return counts


def _compare_part(stored: pa.Table, held: pa.Table, counts: _Counts, *, by_partition: bool) -> None:
    counts.rows += stored.num_rows
    counts.entries += held.num_rows
    scope, asked = scope_of(stored, by_partition=by_partition), scope_of(held, by_partition=by_partition)
    place = pc.index_in(asked, value_set=scope)
    surplus = place.is_null()
    here = stored.take(place.drop_null())
    known = held.filter(pc.is_valid(place))
    exact = pc.is_in(_full(known, by_partition=by_partition), value_set=_full(stored, by_partition=by_partition))
    missing = pc.invert(pc.is_in(scope, value_set=asked))
    _count(counts, "missing", stored.filter(missing), None)
    _count(counts, "wrong", here.filter(pc.invert(exact)), known.filter(pc.invert(exact)))
    _count(counts, "surplus", None, held.filter(surplus))
    first = pc.index_in(scope, value_set=scope).to_numpy()
    again = np.flatnonzero(first != np.arange(len(first)))
    _count(counts, "doubled", stored.take(pa.array(again)), stored.take(pa.array(first[again])))


def _count(counts: _Counts, kind: str, stored: pa.Table | None, held: pa.Table | None) -> None:
    sides = [None if side is None else side.slice(0, _EXAMPLES).to_pylist() for side in (stored, held)]
    rows = next(side for side in (stored, held) if side is not None).num_rows

    def examples() -> Iterator[IndexFault]:
        for number in range(min(rows, _EXAMPLES)):
            a, b = (None if side is None else side[number] for side in sides)
            yield IndexFault(kind, str((a or b or {})["key"]), _shown(a), _shown(b))

    counts.add(kind, rows, examples())


def _shown(row: Mapping[str, str] | None) -> str | None:
    return None if row is None else f"{row['partition']}/{row['file_id']}".lstrip("/")


def _place(table: pa.Table) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(table.column("partition"), table.column("file_id"), _BETWEEN)


def _full(table: pa.Table, *, by_partition: bool) -> pa.Array:
    place = _place(table).combine_chunks()
    return pc.binary_join_element_wise(scope_of(table, by_partition=by_partition), place, _BETWEEN)


class _Spread:
    """Rows spread over parts by the hash of their key, on storage where there are many.

    Args:
        prefix: where files go.
    """

    def __init__(self, folder: RunFolder, prefix: str, parts: int) -> None:
        self._folder = folder
        self._prefix = prefix
        self._held: list[list[pa.Table]] = [[] for _ in range(parts)]
        self._files: list[list[Part]] = [[] for _ in range(parts)]
        self._rows = 0

    def add(self, table: pa.Table) -> None:
        """Take rows over."""
        for held, rows in zip(self._held, split(table, len(self._held)), strict=True):
            held.append(rows)
        self._rows += table.num_rows
        if self._rows > _HELD_ROWS and len(self._held) > 1:
            self._flush()

    def read(self, part: int) -> pa.Table:
        tables = [*(self._folder.read_table(one) for one in self._files[part]), *self._held[part]]
        empty = pa.schema([pa.field(n, pa.string()) for n in _COLUMNS]).empty_table()
        return pa.concat_tables([empty, *(t.cast(empty.schema) for t in tables)]).combine_chunks()

    def _flush(self) -> None:
        for part, tables in enumerate(self._held):
            path = f"{self._prefix}/{part:05d}-{len(self._files[part]):05d}.parquet"
            self._files[part].append(self._folder.write_table(path, pa.concat_tables(tables)))
            self._held[part] = []
        self._rows = 0
