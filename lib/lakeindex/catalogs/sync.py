"""Make a catalog agree with a table, however often that is begun, by how many at once, and wherever it stops.

The entry is read first, then the table: what a catalog knows of it, the table has. Changes are made in an order that
can stop anywhere: the entry's columns, then partitions, then the parameter that says which commit is known. Until that
is written, the next sync does the same again.

A slow sync of an older commit can come after a fast one of a newer commit, and add what that took away. So who is going
to change partitions first writes into the entry (``lakeindex.sync.open``) from which instant on its view may be old;
every sync compares the partitions of later commits again as long as that stands there, an hour at most. At last the
entry and the table are looked at again, until a look finds nothing to do.
"""

from __future__ import annotations

import itertools
import json
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from lakeindex.catalogs.catalog import (
    LAST_COMPLETION,
    LAST_SYNCED,
    PROVIDER,
    SYNCED,
    Catalog,
    CatalogColumn,
    CatalogPartition,
    CatalogTable,
    batches,
    is_of_hudi,
)
from lakeindex.catalogs.column_types import can_become
from lakeindex.catalogs.wanted import Synced, Truth
from lakeindex.errors import (
    CatalogChangedError,
    CatalogError,
    OptionError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
    TimelineChangedError,
)
from lakeindex.format.instants import comparable
from lakeindex.frozen import Frozen
from lakeindex.options.sync_options import SyncOptions
from lakeindex.storage.paths import place_of_location, with_one_scheme

OPEN: Final = "lakeindex.sync.open"
_OPEN_SECONDS: Final = 3600
_ROUNDS: Final = 20
_SCHEMA: Final = "spark.sql.sources.schema."
_LOG: Final = logging.getLogger(__name__)
_LAST: Final = "9" * 17


class SyncDone(Struct):
    """What a sync changed, or would change.

    Attributes:
        created: the table was not there.
        altered: what of its entry was otherwise, a sentence each.
        added, moved, dropped: values of partitions.
        strange: partitions of the entry that lie elsewhere, and stay.
        instant: the commit that the catalog knows now.
    """

    created: bool = False
    altered: list[str] = field(default_factory=list)
    added: list[CatalogPartition] = field(default_factory=list)
    moved: list[CatalogPartition] = field(default_factory=list)
    dropped: list[tuple[str, ...]] = field(default_factory=list)
    strange: list[CatalogPartition] = field(default_factory=list)
    instant: str | None = None


class _Partitions(Frozen):
    """What is to be done to partitions."""

    add: Sequence[CatalogPartition] = ()
    move: Sequence[CatalogPartition] = ()
    drop: Sequence[tuple[str, ...]] = ()
    strange: Sequence[CatalogPartition] = ()

    def __bool__(self) -> bool:
        return bool(self.add or self.move or self.drop)


class Sync:
    """One sync of a table with a catalog.

    Args:
        name: of database and table in the catalog.
        look: the table as it is now; called again and again.
        all_partitions: compare every partition, whatever commits say.
    """

    def __init__(
        self,
        catalog: Catalog,
        name: tuple[str, str],
        look: Callable[[], Truth],
        options: SyncOptions,
        *,
        all_partitions: bool = False,
    ) -> None:
        self._catalog = catalog
        self._name = name
        self._look = look
        self._options = options
        self._all = all_partitions or not options.incremental
        self._id = uuid.uuid4().hex[:12]
        self._floor: str | None = None
        self._done = SyncDone()

    def check(self) -> SyncDone:
        """What a sync would change, with every partition; nothing is written."""
        held = self._catalog.table(*self._name)
        truth = self._look()
        done = SyncDone(instant=None if held is None else held.parameters.get(LAST_SYNCED))
        if held is None:
            return replace(done, created=True, added=[*self._wanted(truth, self._paths(truth)).values()])
        _refuse_foreign(held, truth.wanted)
        done.altered += differences(held, truth.wanted)
        behind = done.instant if done.instant != truth.instant else None
        if behind is not None or (done.instant is None and truth.instant is not None):
            done.altered.append(f"the catalog knows commit {done.instant or 'none'}, the newest is {truth.instant}")
        self._all = True
        plan = self._compared(held, truth, None)
        done.added, done.moved = list(plan.add), list(plan.move)
        done.dropped, done.strange = list(plan.drop), list(plan.strange)
        return done

    def run(self) -> SyncDone:
        """Sync.

        Raises:
            TableExistsError: another table has the name.
            SchemaMismatchError: a change of a column that the catalog cannot hold; nothing was changed.
            TableNotFoundError: there is no such database, and it is not to be made.
            CatalogError, AccessDeniedError: of the catalog; what was done stands, and the next sync goes on.
        """
        for _ in range(_ROUNDS):
            held = self._catalog.table(*self._name)
            truth = self._look()
            try:
                if held is None:
                    self._wanted(truth, self._paths(truth))  # what cannot be told is refused before there is an entry
                    self._create(truth)
                elif self._agreed(held, truth):
                    self._done.instant = truth.instant
                    return self._done
            except (CatalogChangedError, TimelineChangedError, TableNotFoundError) as error:
                if isinstance(error, TableNotFoundError) and held is None:
                    raise
                _LOG.info("sync with %s: another look, as %s", self._catalog.kind, error)
        raise CatalogError(
            f"the entry of {'.'.join(self._name)} changed {_ROUNDS} times while it was synced",
            culprit=".".join(self._name),
            hint="other syncs are at work; the next one goes on",
        )

    def _create(self, truth: Truth) -> None:
        made = replace(
            truth.wanted,
            columns=_with_comments((), truth.wanted.columns),
            partition_columns=_with_comments((), truth.wanted.partition_columns),
        )
        try:
            self._catalog.create_table(made)
        except TableNotFoundError:
            if not self._options.create_database:
                raise
            self._catalog.create_database(made.database)
            self._catalog.create_table(made)
        self._done.created = True

    def _agreed(self, held: CatalogTable, truth: Truth) -> bool:
        """Whether entry and table agree; if not, they were made to, and it is time for another look."""
        _refuse_foreign(held, truth.wanted)
        found = differences(held, truth.wanted)
        opened = _opened(held.parameters)
        others = {key: at for key, at in opened.items() if key != self._id}
        floors = [at for _, at in others.values()] + ([self._floor] if self._floor else [])
        synced = Synced.of(held.parameters)
        marks = truth.marks()
        plan = _Partitions()
        if self._all or floors or synced is None or not _holds(held.parameters, marks):
            paths = None if self._all else truth.changed_since(synced, floors)
            plan = self._compared(held, truth, paths)
        self._done.strange = list(plan.strange) or self._done.strange
        entry = held
        if plan:
            self._floor = min(self._floor or _LAST, truth.floor or "0", key=comparable)
            self._alter(held, truth, {**others, self._id: (int(time.time()), self._floor)}, {}, found)
            entry = self._again(held)
            self._change(entry, plan)
        self._all = False
        living = {key: at for key, at in others.items() if at[0] > time.time() - _OPEN_SECONDS}
        if not plan and not found and _holds(held.parameters, marks) and opened == living:
            return True
        self._alter(entry, truth, living, marks, found)
        return False

    def _again(self, held: CatalogTable) -> CatalogTable:
        now = self._catalog.table(held.database, held.name)
        if now is None:
            raise CatalogChangedError(f"{held.full_name} was dropped meanwhile", culprit=held.full_name)
        return now

    def _alter(
        self,
        held: CatalogTable,
        truth: Truth,
        opened: Mapping[str, tuple[int, str]],
        marks: Mapping[str, str],
        found: Sequence[str],
    ) -> None:
        """Give the entry the table's columns and properties, and these marks."""
        parameters = {key: value for key, value in held.parameters.items() if not key.startswith(_SCHEMA)}
        parameters |= {**truth.wanted.parameters, **marks}
        parameters.pop(OPEN, None)
        if opened:
            parameters[OPEN] = " ".join(f"{key}@{begun}@{floor}" for key, (begun, floor) in sorted(opened.items()))
        wanted = replace(
            truth.wanted,
            parameters=parameters,
            serde_parameters={**held.serde_parameters, **truth.wanted.serde_parameters},
            columns=_with_comments(held.columns, truth.wanted.columns),
            partition_columns=_with_comments(held.partition_columns, truth.wanted.partition_columns),
        )
        self._catalog.alter_table(held, wanted, cascade=_kinds(held.columns) != _kinds(truth.wanted.columns))
        self._done.altered += [one for one in found if one not in self._done.altered]

    def _compared(self, held: CatalogTable, truth: Truth, paths: frozenset[str] | None) -> _Partitions:
        """What is to be done to partitions.

        Args:
            paths: those to compare; None: all.
        """
        if not truth.wanted.partition_columns or paths == frozenset():
            return _Partitions()
        root = _place(truth.wanted.location) + "/"
        if paths is None:
            found = {one.values: one for one in self._catalog.partitions(held, columns=self._all)}
            alive = self._paths(truth)
        else:
            values = dict.fromkeys(truth.partition(path).values for path in sorted(paths))
            asked = (self._catalog.partitions_of(held, some) for some in batches([*values], self._catalog.page))
            found = {one.values: one for one in itertools.chain.from_iterable(asked)}
            # a value may stand for another path than the one that was touched
            places = {_place(one.location) for one in found.values()}
            others = {one.removeprefix(root) for one in places if one.startswith(root)}
            alive = truth.paths_alive({*paths, *(one for one in others if not {"", ".", ".."} & {*one.split("/")})})
        wanted = self._wanted(truth, alive)
        gone = [one for key, one in found.items() if key not in wanted]
        columns = _kinds(held.columns)
        return _Partitions(
            add=[one for key, one in wanted.items() if key not in found],
            move=[
                one
                for key, one in wanted.items()
                if key in found
                and (
                    _place(found[key].location) != _place(one.location)
                    or _kinds(found[key].columns or held.columns) != columns
                )
            ],
            drop=[one.values for one in gone if _place(one.location).startswith(root)],
            strange=[one for one in gone if not _place(one.location).startswith(root)],
        )

    def _wanted(self, truth: Truth, paths: Iterable[str]) -> dict[tuple[str, ...], CatalogPartition]:
        """Partitions by their values. Raises: OptionError: two of them have the same values, or one does not fit."""
        found: dict[tuple[str, ...], CatalogPartition] = {}
        for one in map(truth.partition, dict.fromkeys(paths)):
            other = found.setdefault(one.values, one)
            if other is not one:
                raise OptionError(
                    f"partitions {other.location} and {one.location} are both {', '.join(one.values)!r} by "
                    f"{truth.extractor}: a catalog would know only one of them",
                    culprit=one.location,
                    hint="give hoodie.datasource.hive_sync.partition_fields and partition_extractor_class that tell "
                    "them apart",
                )
        return found

    def _paths(self, truth: Truth) -> list[str]:
        return truth.all_paths() if truth.wanted.partition_columns else []

    def _change(self, entry: CatalogTable, plan: _Partitions) -> None:
        for values in batches(plan.drop, self._catalog.batch):
            self._catalog.drop_partitions(entry, values)
            self._done.dropped += values
        for some in batches(plan.move, self._catalog.batch):
            self._catalog.move_partitions(entry, some)
            self._done.moved += some
        for some in batches(plan.add, self._catalog.batch):
            self._catalog.add_partitions(entry, some)
            self._done.added += some


def differences(held: CatalogTable, wanted: CatalogTable) -> list[str]:
    """What of an entry is otherwise than it should be, a sentence each; parameters of others do not count.

    Raises:
        SchemaMismatchError: a difference that the catalog cannot change.
    """
    found = [*_of_partition_columns(held, wanted), *_of_columns(held.columns, wanted.columns)]
    for what, before, after in (
        ("table type", held.table_type, wanted.table_type),
        ("input format", held.input_format, wanted.input_format),
        ("output format", held.output_format, wanted.output_format),
        ("SerDe", held.serde, wanted.serde),
    ):
        found += [f"{what}: {before or 'none'}, not {after}"] if before != after else []
    found += _of_texts("SerDe property", held.serde_parameters, wanted.serde_parameters)
    plain = {key: value for key, value in wanted.parameters.items() if not key.startswith(_SCHEMA)}
    found += _of_texts("property", held.parameters, plain)
    if _spark(held.parameters) != _spark(wanted.parameters):
        found.append("Spark's schema is another one")
    return found


def _of_columns(held: Sequence[CatalogColumn], wanted: Sequence[CatalogColumn]) -> Iterator[str]:
    before, after = ({one.name.lower(): one for one in columns} for columns in (held, wanted))
    for name, one in after.items():
        old = before.get(name)
        if old is None:
            yield f"column {name} {one.kind} is not there"
        elif _type(old.kind) != _type(one.kind):
            if not can_become(old.kind, one.kind):
                raise SchemaMismatchError(
                    f"column {name} is {old.kind} in the catalog and {one.kind} in the table: a catalog cannot change "
                    "the one to the other",
                    culprit=name,
                    hint="drop the table from the catalog, which deletes no file, and sync again; if one is a bigint "
                    "and the other a timestamp, hoodie.datasource.hive_sync.support_timestamp decides",
                )
            yield f"column {name}: {old.kind}, not {one.kind}"
        elif one.comment is not None and (old.comment or "") != one.comment:
            yield f"column {name} has the comment {old.comment!r}, not {one.comment!r}"
    yield from (f"column {name} is none of the table" for name in before if name not in after)
    if before.keys() == after.keys() and [*before] != [*after]:
        yield f"columns are in another order: {', '.join(before)}"


def _of_partition_columns(held: CatalogTable, wanted: CatalogTable) -> Iterator[str]:
    before, after = (
        [(one.name.lower(), _type(one.kind)) for one in table.partition_columns] for table in (held, wanted)
    )
    if before != after:
        shown = [", ".join(f"{name} {kind}" for name, kind in one) or "none" for one in (before, after)]
        raise SchemaMismatchError(
            f"{held.full_name} is partitioned by {shown[0]} in the catalog, and by {shown[1]} as a table: "
            "no catalog changes that",
            culprit=held.full_name,
            hint="drop the table from the catalog, which deletes no file, and sync again; "
            "or give hoodie.datasource.hive_sync.partition_fields",
        )
    yield from _of_columns(held.partition_columns, wanted.partition_columns)


def _of_texts(what: str, held: Mapping[str, str], wanted: Mapping[str, str]) -> Iterator[str]:
    for key, value in wanted.items():
        if key not in held:
            yield f"{what} {key} is not there"
        elif held[key] != value and _place(held[key]) != _place(value):
            yield f"{what} {key}: {held[key]}, not {value}"


def _spark(parameters: Mapping[str, str]) -> object:
    """Spark's schema and partition columns, whatever the texts are divided into."""
    count = parameters.get(f"{_SCHEMA}numParts", "")
    parts = int(count) if count.isdigit() else 0
    text = "".join(parameters.get(f"{_SCHEMA}part.{at}", "") for at in range(parts))
    names = [value for key, value in sorted(parameters.items()) if key.startswith(f"{_SCHEMA}partCol.")]
    try:
        return json.loads(text or "null"), names
    except ValueError:
        return text, names


def _refuse_foreign(held: CatalogTable, wanted: CatalogTable) -> None:
    """Refuse an entry that is not of this table. Raises: TableExistsError."""
    is_hudi = is_of_hudi(held)
    if is_hudi and _place(held.location) == _place(wanted.location):
        return
    kind = "of Hudi" if is_hudi else f"of another kind ({held.parameters.get(PROVIDER) or held.input_format or 'view'})"
    raise TableExistsError(
        f"the catalog has another table {held.full_name}, {kind}, at {held.location or 'no place'}; this one is at "
        f"{wanted.location}",
        culprit=held.full_name,
        hint="give hoodie.datasource.hive_sync.database or .table; or, if it is the same table that was moved, drop it "
        "from the catalog, which deletes no file of an external table",
    )


def _with_comments(held: Sequence[CatalogColumn], wanted: Sequence[CatalogColumn]) -> tuple[CatalogColumn, ...]:
    """Wanted columns; where no comment is wanted, with the one that is there, else with Hudi's empty one."""
    old = {one.name.lower(): one.comment for one in held}
    return tuple(one if one.comment is not None else replace(one, comment=old.get(one.name) or "") for one in wanted)


def _kinds(columns: Sequence[CatalogColumn]) -> list[tuple[str, str]]:
    """Names and types, which partitions have of their own."""
    return [(one.name.lower(), _type(one.kind)) for one in columns]


def _type(kind: str) -> str:
    return "".join(kind.split()).lower()


def _place(location: str) -> str:
    """A location in one form: stores have several names of one scheme, and files none or one."""
    return with_one_scheme(place_of_location(location)).rstrip("/")


def _holds(parameters: Mapping[str, str], marks: Mapping[str, str]) -> bool:
    return all(
        parameters.get(key) == value for key, value in marks.items() if key in (LAST_SYNCED, SYNCED, LAST_COMPLETION)
    )


def _opened(parameters: Mapping[str, str]) -> dict[str, tuple[int, str]]:
    """Who changes partitions: by name, since when (seconds of the epoch), and from which instant on it sees nothing."""
    found = (one.split("@") for one in parameters.get(OPEN, "").split())
    return {one[0]: (int(one[1]), one[2]) for one in found if len(one) == 3 and one[1].isdigit()}
