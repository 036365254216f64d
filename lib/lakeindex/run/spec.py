"""What one run is told, and what every task of it needs to know about the table."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa
from msgspec import field

from lakeindex.errors import InputError, OptionError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.frozen import ComparedInPart, Frozen
from lakeindex.hashing.arrow import one_array
from lakeindex.model import Change, IndexSpec, IndexType, MergeMode, Operation
from lakeindex.options.option import CONDITION_OPTIONS
from lakeindex.options.parse import parse_options
from lakeindex.options.types import WriteConfig
from lakeindex.predicates.row_conditions import RowConditions, row_conditions
from lakeindex.run.checkpoints import RunFolder, digest_of_text
from lakeindex.run.feeds import Feed
from lakeindex.run.input_rows import Constants
from lakeindex.table.handle import Table
from lakeindex.tasks.stores import storage_at
from lakeindex.write.base_file import PARTITION_PATH, RECORD_KEY
from lakeindex.write.keys.key_generators import KeyGenerator, KeySpec
from lakeindex.write.merge_function import MergeFunction
from lakeindex.write.types.schema_fit import differences
from lakeindex.write.virtual_keys import VirtualKeys

if TYPE_CHECKING:
    from lakeindex.predicates.predicate import Condition

CHOSEN_FOLDER: Final = "chosen"
"""Where in a run's folder the chosen rows are."""


class ChosenRows(ComparedInPart):
    """Which rows are changed, and how.

    Attributes:
        text: the condition as messages show it.
        values: of an update, names of columns and what digests of their new values are made of; in the order given.
    """

    aside: ClassVar = frozenset({"where"})
    change: Change
    where: Condition
    text: str
    values: tuple[tuple[str, str], ...] = ()

    @property
    def digest(self) -> str:
        """Names what is asked for, whatever rows meet the condition: what a batch id stands for."""
        where = self.where if isinstance(self.where, str) else pickle.dumps(self.where).hex()
        return digest_of_text(str(self.change), where, *(part for value in self.values for part in value))


def is_chosen(run_id: str, path: str) -> bool:
    """Whether a file of the batch (path below the run folders) holds chosen rows of the table, not given ones."""
    return path.startswith(f"{run_id}/{CHOSEN_FOLDER}/")


def stored_keys(batch: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Record keys and partition paths of chosen rows, as they are stored."""
    return one_array(batch.column(RECORD_KEY)), one_array(batch.column(PARTITION_PATH))


_parsed = functools.lru_cache(maxsize=64)(parse_options)
"""Each task of a run asks for the options several times."""


class RunSpec(Frozen):
    """One run, as the caller asked for it. Holds no credentials; travels to every task.

    Attributes:
        checkpoints_uri: root of the run folders.
        run_id: names this run's folder; a retry of the run uses the same.
        batch_id: name of the batch: the same id is committed once.
        inputs: files or folders of the batch.
        options: option names and texts, sorted.
        max_quarantined: bad rows that are tolerated.
        force: commit a used batch id again, and roll back foreign pending instants whatever their age.
        partitions: paths of the partitions that ``DELETE_PARTITION`` takes away; None: all of the table.
        chosen: which rows of the table are changed, where a condition says it; None: those that ``inputs`` name.
        merge: a function of the caller's, instead of the option's.
        feed: of a batch that is a feed of changes, which table's and of which time; None: it is none.
        constants: of inputs that are files, the columns that a file does not hold because all of its rows have one
            value, which its folder or a log says.
    """

    table_uri: str
    checkpoints_uri: str
    run_id: str
    batch_id: str
    operation: Operation
    inputs: tuple[str, ...]
    options: tuple[tuple[str, str], ...] = ()
    max_quarantined: int = 0
    force: bool = False
    partitions: tuple[str, ...] | None = None
    chosen: ChosenRows | None = None
    merge: MergeFunction | None = None
    feed: Feed | None = None
    constants: Mapping[str, Constants] = field(default_factory=dict)

    @property
    def merge_function(self) -> MergeFunction | None:
        """What makes one row of a stored and an incoming one, if anything does.

        Raises:
            UsageError: the option's cannot be imported.
        """
        if self.operation is not Operation.UPSERT or self.merge is not None:
            return self.merge
        named = self.config.merge_function
        return None if named is None else MergeFunction.named(named)

    @property
    def config(self) -> WriteConfig:
        """The options, typed."""
        return _parsed(self.options)

    @property
    def change(self) -> Change | None:
        """What is done with the rows that a condition chooses; None where there is none."""
        return None if self.chosen is None else self.chosen.change

    @property
    def source_decides(self) -> bool:
        """Whether rows are what their source has, whatever their ordering values: its feeds come in order."""
        return self.feed is not None and bool(self.feed.source) and not self.force

    @property
    def only_inserts(self) -> bool:
        """Whether each row of the batch is a new one: a key that is stored, and stays, is in its way."""
        return self.operation.only_inserts or self.change is Change.REPLACE


class TableFacts(Frozen):
    """What tasks need to know about the table; frozen at the start of a stage.

    Attributes:
        name: table name, for Avro schemas.
        schema: the table's columns, without meta columns.
        keys: how record keys and partition paths are made.
        ordering_fields: columns of ordering values, the first one first; of most tables one, or none.
        before: the columns without those that the batch adds or makes wider; None if it changes none.
        given: names of the columns that the batch is staged with; None: all. The others stay as they are in the rows
            that it updates.
        nulls_keep: of the given columns, too, where the batch has a null.
        has_virtual_keys: rows do not store their keys (``hoodie.populate.meta.fields=false``).
        delete_mark: column and value, as text, by which rows of a batch are deletes (``hoodie.payload.delete.field``
            and ``.marker`` of the merge properties); None: ``_hoodie_is_deleted`` alone says it.
        believes_paths: a stored row lies in the partition that its columns say.
    """

    name: str
    schema: pa.Schema
    keys: KeySpec
    ordering_fields: tuple[str, ...]
    merge_mode: MergeMode
    index: IndexSpec
    before: pa.Schema | None = None
    given: tuple[str, ...] | None = None
    nulls_keep: bool = False
    has_virtual_keys: bool = False
    delete_mark: tuple[str, str] | None = None
    believes_paths: bool = True

    @property
    def virtual(self) -> VirtualKeys | None:
        """How the keys of stored rows are made; None where they are stored."""
        return VirtualKeys(self.keys, self.schema) if self.has_virtual_keys else None

    @property
    def staged(self) -> pa.Schema:
        """The columns that the batch is staged with."""
        given = None if self.given is None else frozenset(self.given)
        return self.schema if given is None else pa.schema([field for field in self.schema if field.name in given])

    @property
    def kept(self) -> frozenset[str]:
        """Columns that stay as they are in the rows that the batch updates."""
        return frozenset() if self.given is None else frozenset(self.schema.names) - frozenset(self.given)

    @property
    def filled(self) -> frozenset[str]:
        """Columns in which a null of the batch leaves what is stored."""
        return frozenset(self.staged.names) - self.deciding if self.nulls_keep else frozenset()

    @property
    def deciding(self) -> frozenset[str]:
        """Columns that a batch cannot lack: those of the record key and of the partition path, the ordering field."""
        named = {*self.keys.columns, *self.event_time_fields}
        return frozenset(name for name in self.schema.names if name in named)

    @property
    def index_type(self) -> IndexType:
        return self.index.index_type

    @property
    def is_global(self) -> bool:
        return self.index.is_global

    @property
    def changes(self) -> tuple[str, ...]:
        return () if self.before is None else differences(self.before, self.schema)

    @property
    def event_time_fields(self) -> tuple[str, ...]:
        """The ordering fields if they decide which version wins, else none."""
        return self.ordering_fields if self.merge_mode is MergeMode.EVENT_TIME_ORDERING else ()


class BoundTable(Frozen):
    """A table that is bound, on one snapshot: what a run, or a service that writes rows anew, works on."""

    table: Table
    snapshot: Snapshot
    facts: TableFacts

    @property
    def index(self) -> IndexSpec:
        return self.facts.index


def event_time_mark(facts: TableFacts) -> str | None:
    """What digests know the deciding ordering fields by; of one field its name, as runs of older releases had it."""
    return ",".join(facts.event_time_fields) or None


def conditions_of(spec: RunSpec, facts: TableFacts) -> RowConditions:
    """What the run asks of rows before anything becomes of them.

    Raises:
        UsageError: a condition cannot be read, or does not fit the table.
        OptionError: the run is no upsert.
    """
    config = spec.config
    given = {name: text for name in CONDITION_OPTIONS if (text := getattr(config, name)) is not None}
    if not given:
        return RowConditions()
    if spec.operation is not Operation.UPSERT or spec.change is not None:
        option = CONDITION_OPTIONS[next(iter(given))]
        raise OptionError(
            f"option {option} has no meaning with {spec.change or spec.operation}",
            culprit=option,
            hint="conditions are asked of the rows of an upsert",
        )
    return row_conditions(facts.schema, incoming=facts.staged, **given)


def source_paths(spec: RunSpec, facts: TableFacts) -> KeyGenerator | None:
    """What makes the partition paths that rows of a feed have in its source, where two of these can have one key that
    would be one row here; None: nothing has to be compared.

    Raises:
        InputError: the feed, or the table, does not have the columns that tell them.
    """
    feed = spec.feed
    if feed is None or not feed.paths_by:
        return None
    source, mine = KeySpec.from_properties(dict(feed.paths_by)), facts.keys
    same_times = not source.needs_time_options or source.time_options == mine.time_options
    if not facts.is_global and set(source.partition_fields) <= set(mine.partition_fields) and same_times:
        return None
    given = frozenset(facts.staged.names)
    missing = [name for name in source.path_columns if name not in given]
    if missing:
        raise InputError(
            f"the feed of {feed.source} lacks column {missing[0]!r}, without which rows of two partitions there that "
            "have one key would be one row here",
            culprit=missing[0],
            hint=f"make the feed with {', '.join(missing)} among its columns",
        )
    return KeyGenerator(source)


def run_folder(spec: RunSpec) -> RunFolder:
    return RunFolder(storage_at(spec.checkpoints_uri), spec.run_id)
