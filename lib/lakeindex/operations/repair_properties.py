"""Make ``hoodie.properties`` again where it is lost: of its backup, of what is written elsewhere, of what you say.

Nothing is guessed: the layout and newest instants are those of the timeline, the columns those of the newest commit;
name, version and time zone are those of the metadata table, or are said; index and merge mode are what is bound in
``table.json``, or are said; the fields of keys and partition paths are said, and make the stored keys and paths again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import ClassVar, Final

from msgspec import field
from msgspec.structs import replace

from lakeindex.commit.services.metadata_service import committed_files
from lakeindex.errors import LakeIndexError, ObjectNotFoundError, TableNotFoundError, UsageError
from lakeindex.format.instants import instant_time_to_ms
from lakeindex.format.java_properties import format_properties, parse_properties, table_checksum
from lakeindex.frozen import Frozen
from lakeindex.lock.write_context import holding
from lakeindex.metadata.indexed_columns import DEFINITIONS_PATH
from lakeindex.metadata.metadata_table import GROUP_PREFIXES, METADATA_ROOT
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.metadata_upkeep.switch import METADATA_FOLDERS, back_up, put_properties, remove_backup, remove_folder
from lakeindex.model import InstantState, MergeMode
from lakeindex.operations.check_violations import is_damage
from lakeindex.operations.metadata import find_faults, find_index_faults
from lakeindex.operations.repair_kept import Kept
from lakeindex.options.option import TABLE_VERSION_OPTION
from lakeindex.options.parse import parse_create_options
from lakeindex.options.types import CreateConfig, WriteConfig
from lakeindex.showing.json_result import TableResult
from lakeindex.storage import is_there
from lakeindex.storage.paths import absolute
from lakeindex.storage.port import Storage
from lakeindex.table import property_keys as keys
from lakeindex.table.binding import BINDING_PATH, BINDING_PROPERTY, TableBinding, parse_binding
from lakeindex.table.create import CreateSpec, binding_of, check_spec, table_entries
from lakeindex.table.handle import Table
from lakeindex.table.host import Host, this_host
from lakeindex.table.properties import (
    LostTable,
    lost_table,
    metadata_table_of,
    parse_table_properties,
    standing_properties,
)
from lakeindex.table.property_keys import DEFINITIONS_PROPERTY, PROPERTIES_BACKUP_PATH, PROPERTIES_PATH
from lakeindex.table.stored_keys import Compared, compare_keys, compare_paths, sample_rows
from lakeindex.tasks.stores import storage_at
from lakeindex.timeline import records
from lakeindex.timeline.clock import UTC_TIMELINE, timeline_ms
from lakeindex.timeline.layout import LAYOUT_1, VERSION_6, VERSIONS
from lakeindex.timeline.timeline import Timeline
from lakeindex.write.base_file import RECORD_KEY
from lakeindex.write.keys.key_generators import KeySpec
from lakeindex.write.types.avro_schema import schema_from_avro

_NEAR_MS: Final = 10 * 60_000
"""How far an instant and the time of its file may be apart."""


class Source(StrEnum):
    """What the properties are made of."""

    WHOLE = "whole"
    """They are not lost."""
    BACKUP = "backup"
    REBUILT = "rebuilt"


class Given(Frozen):
    """What is said of the table.

    Attributes:
        key: columns of the record key.
        partition: columns of the partition path.
        ordering: columns that say which version of a row is newer.
        properties: properties as they were; they are laid over what is found.
        options: ``hoodie.*`` options, as of a new table: version, key generator, hive style, index.
    """

    key: Sequence[str] = ()
    partition: Sequence[str] = ()
    ordering: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)


class PropertiesRepaired(TableResult):
    """The properties of a table that were lost, and are there again.

    Attributes:
        dry_run: nothing was written.
        source: ``whole`` (they were not lost), ``backup``, or ``rebuilt``.
        entries: the properties.
        evidence: what shows them, by what is shown.
        rows_compared: stored rows whose key and partition path were made again, and are the same.
        kept: the folder with what stood there before; None if nothing did.
        notes: what to do next.
    """

    shown_by: ClassVar[str] = "results:show_properties_repaired"

    dry_run: bool
    source: Source
    entries: Mapping[str, str]
    evidence: Mapping[str, str]
    rows_compared: int
    kept: str | None
    notes: tuple[str, ...]


def repair_properties(
    uri: str, given: Given, config: WriteConfig | None = None, *, apply: bool = False, host: Host | None = None
) -> PropertiesRepaired:
    """Make the properties of a table again.

    Args:
        apply: do it; else only say what they would be.

    Raises:
        TableNotFoundError: there is no table.
        UsageError: something that nothing shows is not given; the message names it.
        OptionError: choices that do not fit together.
        TableCorruptError: stored keys or paths are not those that the fields make.
        ConflictError: another writer holds the lock.
    """
    storage = storage_at(absolute(uri))
    standing = standing_properties(storage)
    if standing is None:
        there = lost_table(storage)
        if there is None:
            raise TableNotFoundError(
                f"no Hudi table at {storage.uri}: it has neither properties nor instants",
                culprit=storage.uri,
                hint="check the path, or make a table with `lakeindex create`",
            )
        made = _Rebuilding(storage, there, given).made()
    else:
        path, data = standing
        source = Source.BACKUP if path == PROPERTIES_BACKUP_PATH else Source.WHOLE
        made = _Made(source, parse_properties(data, path), data, {"properties": path})
        parse_create_options(given.options)  # nothing is made of them, and still none is passed over
    done = PropertiesRepaired(
        made.entries.get(keys.TABLE_NAME[0], ""),
        storage.uri,
        not apply,
        made.source,
        made.entries,
        made.evidence,
        made.compared,
        None,
        made.notes,
    )
    if not apply or made.source is Source.WHOLE:
        return done
    return replace(done, kept=_put(storage, made, config or WriteConfig(), host or this_host()))


class _Made(Frozen):
    """Properties, and what they are made of."""

    source: Source
    entries: Mapping[str, str]
    data: bytes
    evidence: Mapping[str, str]
    compared: int = 0
    notes: tuple[str, ...] = ()
    drops_metadata: bool = False


def _put(storage: Storage, made: _Made, config: WriteConfig, host: Host) -> str | None:
    """In the order in which Hudi replaces them: a reader finds the backup as long as the file is not whole."""
    table = Table(storage, parse_table_properties(made.entries))
    with holding(table, "repair of the properties", config, host=host) as (_, lock):
        lock.check()
        kept = Kept.outside(table, host)
        left = [path for path in (PROPERTIES_PATH, PROPERTIES_BACKUP_PATH) if is_there(storage, path)]
        if made.drops_metadata:
            left += [one.path for folder in METADATA_FOLDERS for one in storage.list(folder)]
        kept.copy(left)
        if made.source is not Source.BACKUP:
            back_up(storage, made.data)
        for folder in METADATA_FOLDERS if made.drops_metadata else ():
            remove_folder(storage, folder)
        records.remove(storage, [PROPERTIES_PATH])
        put_properties(storage)
        remove_backup(storage)
        return kept.uri if left else None


class _Rebuilding(Frozen):
    """Properties of what is written elsewhere, and of what is said."""

    storage: Storage
    there: LostTable
    given: Given

    def made(self) -> _Made:
        binding = self._binding()
        version, shown = self._version(binding)
        options = {**self.given.options, TABLE_VERSION_OPTION: str(version)}
        config = parse_create_options(options)
        name = self._said(keys.TABLE_NAME) or self.there.name
        if not name:
            raise self._unknown("the table's name", f"--property {keys.TABLE_NAME[0]}=NAME")
        timeline = Timeline.load(self.storage, self.there.timeline_layout)
        schema_text = timeline.schema_text(self.storage)
        if schema_text is None:
            raise self._unknown("the table's columns: no commit on the timeline has them", "a copy of the file")
        spec = self._spec(name, schema_text, config, binding)
        bound = binding or binding_of(spec)
        evidence = {
            "name": "--property" if self._said(keys.TABLE_NAME) else "the metadata table or the newest commit",
            "version": shown,
            "columns": f"the newest commit on the timeline ({timeline.last_completed_write_time})",
            "index and merge mode": BINDING_PATH if binding is not None else "what is given, else Hudi's defaults",
            "record key and partition path": "what is given, compared with stored rows",
        }
        zone, evidence["time zone"] = self._timezone(timeline)
        entries = table_entries(spec, bound)
        if binding is None:
            entries.pop(BINDING_PROPERTY)
        entries |= {keys.TIMEZONE[0]: zone, **self._database(), **self.given.properties}
        checksum = str(table_checksum(entries.get(keys.DATABASE_NAME[0], ""), entries[keys.TABLE_NAME[0]]))
        entries[keys.CHECKSUM[0]] = checksum
        compared = self._compared(entries, binding, timeline, schema_text)
        partitions, notes = self._metadata(entries, binding)
        if partitions:
            entries[keys.METADATA_PARTITIONS[0]] = ",".join(sorted(partitions))
            evidence["metadata table"] = "compared with the files" + (", some of which are not there" if notes else "")
            if is_there(self.storage, DEFINITIONS_PATH):
                entries[DEFINITIONS_PROPERTY] = DEFINITIONS_PATH
        entries[keys.CHECKSUM[0]] = entries.pop(keys.CHECKSUM[0])  # last: a file that is cut off lacks it
        data = format_properties(entries, comments=("Updated by lakeindex",))
        return _Made(Source.REBUILT, entries, data, evidence, compared, notes, bool(notes) and not partitions)

    def _said(self, spellings: tuple[str, ...]) -> str | None:
        return next((self.given.properties[one] for one in spellings if one in self.given.properties), None)

    def _unknown(self, what: str, give: str) -> UsageError:
        return UsageError(f"nothing shows {what}", culprit=PROPERTIES_PATH, hint=f"give {give}; {self.there.hint}")

    def _binding(self) -> TableBinding | None:
        try:
            data = self.storage.read(BINDING_PATH)
        except ObjectNotFoundError:
            return None
        return None if records.is_torn(data) else parse_binding(data, BINDING_PATH)

    def _version(self, binding: TableBinding | None) -> tuple[int, str]:
        """The version; the layout of the timeline leaves one of several."""
        beside = self.there.beside.get(keys.TABLE_VERSION[0])
        said = self.given.options.get(TABLE_VERSION_OPTION) or self._said(keys.TABLE_VERSION)
        if beside is not None and said is not None and said != beside:
            raise UsageError(
                f"the version is given as {said}, and the metadata table has {beside}",
                culprit=said,
                hint="leave it out; or take the metadata table away, if it is another table's",
            )
        if beside is not None:
            return int(beside), "the metadata table"
        if said is not None:
            number = int(said) if said.isdecimal() else 0
            if number not in VERSIONS or VERSIONS[number].layout != self.there.layout:
                fitting = ", ".join(str(one) for one, known in VERSIONS.items() if known.layout == self.there.layout)
                raise UsageError(
                    f"a table of version {said} has another timeline than the one that is there",
                    culprit=said,
                    hint=f"versions with a timeline like it: {fitting}",
                )
            return number, "what is given, and the timeline's layout"
        if self.there.layout == LAYOUT_1 and binding is not None:
            return (
                VERSION_6.number,
                f"the timeline's layout; {BINDING_PATH} is of tables of this version and later ones",
            )
        raise self._unknown("the table's version", f"-o {TABLE_VERSION_OPTION}=N")

    def _spec(self, name: str, schema_text: str, config: CreateConfig, binding: TableBinding | None) -> CreateSpec:
        given = self.given
        if not given.key:
            raise self._unknown("the columns of the record key", "--key")
        if binding is not None and binding.merge_mode is MergeMode.EVENT_TIME_ORDERING and not given.ordering:
            raise self._unknown(f"the ordering field, by which rows win ({BINDING_PATH})", "--ordering")
        partition = tuple(given.partition)
        if binding is not None and binding.partition_types is not None and not any(":" in one for one in partition):
            partition = tuple(f"{one}:{kind}" for one, kind in zip(partition, binding.partition_types, strict=False))
        columns = schema_from_avro(schema_text).names
        spec = CreateSpec(name, columns, tuple(given.key), partition, tuple(given.ordering), config, None)
        check_spec(spec)
        return spec

    def _database(self) -> dict[str, str]:
        database = self.there.beside.get(keys.DATABASE_NAME[0])
        return {} if database is None else {keys.DATABASE_NAME[0]: database}

    def _timezone(self, timeline: Timeline) -> tuple[str, str]:
        said = self._said(keys.TIMEZONE)
        if said is not None:
            return said, "--property"
        beside = self.there.beside.get(keys.TIMEZONE[0])
        if beside is not None:
            return beside, "the metadata table"
        for one in reversed(timeline.files):
            if one.state is not InstantState.REQUESTED:
                continue
            modified = self.storage.head(timeline.path(one)).modified_ms
            for zone in (UTC_TIMELINE, "LOCAL"):
                if abs(timeline_ms(zone, modified) - instant_time_to_ms(one.time)) < _NEAR_MS:
                    return zone, f"when {timeline.path(one)} was written"
        raise self._unknown("the time zone of the instants", f"--property {keys.TIMEZONE[0]}=UTC, or LOCAL")

    def _compared(
        self, entries: Mapping[str, str], binding: TableBinding | None, timeline: Timeline, schema_text: str
    ) -> int:
        """How many stored rows have the keys and paths that these properties make. Raises: UsageError: one has not."""
        table = Table(self.storage, parse_table_properties(entries), binding)
        files = table.listed_snapshot(timeline).base_files_all()
        if not files:
            return 0
        spec = KeySpec.from_properties(table.key_properties())
        samples = sample_rows(table, files, spec, schema_from_avro(schema_text))
        if not samples:
            raise self._unfit("the columns that are given are not in the base files", files[0].path)
        stores = [one for one in samples if one.record_key is not None and one.record_key.null_count == 0]
        if table.properties.populate_meta_fields and len(stores) < len(samples):
            raise self._unfit(f"rows of {samples[0].file.path} store no {RECORD_KEY}", "populate_meta_fields")
        found: list[tuple[str, Compared]] = []
        if binding is None or not binding.index.is_global:  # under a global index a row may lie elsewhere
            found.append(("partition path", compare_paths(samples, spec)))
        if stores:
            found.append(("record key", compare_keys(stores, spec)))
        for what, compared in found:
            if compared.example is not None:
                one = compared.example
                raise self._unfit(
                    f"{one.file.path} has the {what} {one.stored!r}, and the fields that are given make {one.made!r}",
                    one.file.path,
                )
        return sum(one.rows.num_rows for one in samples)

    def _unfit(self, what: str, culprit: str) -> UsageError:
        return UsageError(
            what,
            culprit=culprit,
            hint="give the fields of the table, --key, --partition, and what makes its paths: -o "
            "hoodie.datasource.write.hive_style_partitioning=true and the like; nothing was written",
        )

    def _metadata(
        self, entries: Mapping[str, str], binding: TableBinding | None
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The partitions of the metadata table, if it agrees with all files that are there; and what is to be said."""
        if not self.storage.list(METADATA_ROOT):
            return (), ()
        names = [folder.strip("/").rpartition("/")[2] for folder in self.storage.list_folder(METADATA_ROOT).folders]
        partitions = tuple(sorted(name for name in names if name in GROUP_PREFIXES))
        said = {**entries, keys.METADATA_PARTITIONS[0]: ",".join(partitions)}
        table = Table(self.storage, parse_table_properties(said), binding)
        anew = (
            "the metadata table does not agree with the files, and is taken away: `lakeindex metadata build` makes one"
        )
        if not partitions or {name for name in names if not name.startswith(".")} - set(partitions):
            return (), (anew,)
        try:
            metadata = metadata_table_of(self.storage, table.properties)
            assert metadata is not None
            snapshot = table.listed_snapshot()
            view, files = MetadataView.load(metadata, snapshot.timeline), committed_files(snapshot)
            view.check_told()
            faults = list(find_faults(view, files))
            surplus = next((one.path for one in faults if one.kind == "surplus"), None)
            if surplus is not None:  # it may be the only one to know of a loss, whatever else it says
                lost = f"the metadata table names files that no reader of the folders finds, such as {surplus}"
                return partitions, (f"{lost}: see `lakeindex repair TABLE`",)
            wrong = next(iter([*faults, *find_index_faults(view, snapshot, files)]), None)
        except LakeIndexError as error:
            if not is_damage(error):
                raise
            return (), (anew,)
        return (partitions, ()) if wrong is None else ((), (anew,))
