"""Build, drop and look at the stored index of a table."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from lakeindex.commands.results import JsonResult
from lakeindex.errors import OptionError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.index.registry import stored_index_for
from lakeindex.model import IndexSpec, IndexType, Operation
from lakeindex.options.option_table import BY_KEY
from lakeindex.options.parse import index_spec, parse_options
from lakeindex.run.index.session import uncovered
from lakeindex.run.index.sessions import stored_session
from lakeindex.run.index.stored_session import StoredSession
from lakeindex.run.spec import RunSpec, TableFacts, storage_at
from lakeindex.run.table_facts import facts_of
from lakeindex.storage.opening import remove_empty_folders
from lakeindex.storage.paths import absolute
from lakeindex.table.handle import Table
from lakeindex.tasks.runner import Runner
from lakeindex.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class IndexBuilt(JsonResult):
    """An index that was built.

    Attributes:
        table: the table's name.
        uri: where it is.
        index_type: which index.
        generation: name of the built generation.
        covered_through: the newest commit whose rows are in it; None on an empty table.
        rows: keys in it.
        files: base files they were read from.
        bytes: its size on storage.
        seconds: wall time.
    """

    table: str
    uri: str
    index_type: str
    generation: str
    covered_through: str | None
    rows: int
    files: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class IndexDropped(JsonResult):
    """An index that was removed.

    Attributes:
        table: the table's name.
        uri: where it is.
        index_type: which index.
        was_built: whether there was anything in force.
        bytes: size of what was removed.
    """

    table: str
    uri: str
    index_type: str
    was_built: bool
    bytes: int


@dataclass(frozen=True, slots=True)
class IndexCompacted(JsonResult):
    """An index whose deltas were folded into what was built.

    Attributes:
        table: the table's name.
        uri: where it is.
        index_type: which index.
        deltas: deltas that were folded; 0 if there were none.
        bytes: its size on storage now.
    """

    table: str
    uri: str
    index_type: str
    deltas: int
    bytes: int


@dataclass(frozen=True, slots=True)
class IndexStatus(JsonResult):
    """The state of a stored index.

    Attributes:
        table: the table's name.
        uri: where it is.
        index_type: which index.
        is_bound: the table's writes use it.
        is_built: it can answer.
        generation: name of the built generation.
        covered_through: the newest commit whose rows are in it.
        last_commit: the newest commit of the table.
        deltas: deltas of commits since it was built or compacted.
        rows: keys it holds, by the files it covers.
        files: live files that it covers.
        files_behind: live files that it does not; the next write reads them first.
        bytes: its size on storage.
    """

    table: str
    uri: str
    index_type: str
    is_bound: bool
    is_built: bool
    generation: str | None
    covered_through: str | None
    last_commit: str | None
    deltas: int
    rows: int
    files: int
    files_behind: int
    bytes: int


@dataclass(frozen=True)
class OpenedIndex:
    """A stored index of a table, opened for one command.

    Attributes:
        table: the table.
        snapshot: its state.
        facts: what tasks know of it; with this index.
        spec: the command as a run; its folder is removed afterwards.
        session: the index.
    """

    table: Table
    snapshot: Snapshot
    facts: TableFacts
    spec: RunSpec
    session: StoredSession

    @property
    def bytes(self) -> int:
        """Size of everything the index keeps beside the table."""
        return sum(one.size_bytes for one in self.table.storage.list(self.session.folder))


@contextmanager
def opened_index(
    uri: str, runner: Runner, checkpoints: str, index_type: str | None, options: Mapping[str, str]
) -> Iterator[OpenedIndex]:
    """A stored index of a table.

    Args:
        uri: the table.
        runner: schedules the tasks.
        checkpoints: where a folder for working data may be made; it is removed at the end.
        index_type: which index; by default the one that the table is bound to.
        options: ``hoodie.*`` and ``lakeindex.*`` options.

    Raises:
        TableNotFoundError: no table.
        OptionError: an index that stores nothing, or none is named and none is bound.
    """
    pairs = dict(options)
    if index_type is not None:
        pairs["hoodie.index.type"] = index_type
    config = parse_options(pairs)
    pairs.pop("hoodie.index.type", None)
    table = Table.open(storage_at(absolute(uri)))
    snapshot = table.snapshot()
    index = _chosen(table, snapshot.timeline, config.index_type, pairs)
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
        uri: the table.
        runner: schedules the tasks.
        checkpoints: where a folder for working data may be made; it is removed at the end.
        index_type: which index; by default the one that the table is bound to.
        options: ``hoodie.*`` and ``lakeindex.*`` options.

    Raises:
        InvariantError: a key that must be unique is stored twice; nothing has changed.
        WriteConflictError: somebody else built or compacted it at the same time; theirs is in force.
    """
    started = time.perf_counter()
    with opened_index(uri, runner, checkpoints, index_type, options or {}) as opened:
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
    with opened_index(uri, runner, checkpoints, index_type, options or {}) as opened:
        deltas = opened.session.compact(opened.snapshot)
        return IndexCompacted(opened.table.name, opened.table.uri, opened.facts.index_type.value, deltas, opened.bytes)


def drop_index(
    uri: str,
    runner: Runner,
    checkpoints: str,
    *,
    index_type: str | None = None,
    options: Mapping[str, str] | None = None,
) -> IndexDropped:
    """Remove a stored index. A table that is bound to it refuses writes until it is built again."""
    with opened_index(uri, runner, checkpoints, index_type, options or {}) as opened:
        size = opened.bytes
        state = opened.session.state(opened.snapshot)
        opened.session.drop()
        return IndexDropped(
            opened.table.name, opened.table.uri, opened.facts.index_type.value, state.built is not None, size
        )


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
        IndexDamagedError: what is there cannot be read.
    """
    with opened_index(uri, runner, checkpoints, index_type, options or {}) as opened:
        state = opened.session.state(opened.snapshot)
        live = opened.snapshot.base_files_all()
        missing, _ = uncovered(live, state.coverage, None)
        bound = opened.table.index(opened.snapshot.timeline)
        return IndexStatus(
            table=opened.table.name,
            uri=opened.table.uri,
            index_type=opened.facts.index_type.value,
            is_bound=bound is not None and bound.index_type is opened.facts.index_type,
            is_built=state.built is not None and _holds(opened, state.built.generation),
            generation=None if state.built is None else state.built.generation,
            covered_through=state.covered_through,
            last_commit=opened.snapshot.instant_time,
            deltas=len(state.in_force),
            rows=state.rows,
            files=len(live) - len(missing),
            files_behind=len(missing),
            bytes=opened.bytes,
        )


def _holds(opened: OpenedIndex, generation: str) -> bool:
    return opened.session.store(opened.snapshot).generation() == generation
