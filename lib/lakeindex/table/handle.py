"""A table: where it is, what its properties say, what is bound to it, and whether we may read or write it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from lakeindex.errors import TableCorruptError, TimelineChangedError
from lakeindex.files.file_system_view import FilesByPartition, Snapshot, files_in_metadata, snapshot
from lakeindex.frozen import Frozen
from lakeindex.metadata.metadata_table import FILES, MetadataTable
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.model import IndexSpec, IndexType
from lakeindex.options.option import INDEX_OPTION
from lakeindex.options.types import WriteConfig
from lakeindex.storage.paths import absolute
from lakeindex.storage.port import Storage
from lakeindex.table import property_keys as keys
from lakeindex.table.binding import (
    BINDING_PATH,
    BINDING_PROPERTY,
    ENCODING_OPTION,
    BoundKeys,
    TableBinding,
    asks_for_index,
    load_binding,
    resolve_binding,
    store_binding,
)
from lakeindex.table.index_changes import changed_index, every_index, index_in_force
from lakeindex.table.properties import TableProperties, load_table_properties, metadata_table_of
from lakeindex.table.refusals import check_kept, check_readable, check_virtual_metadata, check_writable
from lakeindex.tasks.stores import storage_at
from lakeindex.timeline.timeline import Timeline

PARTITION_PATH_FIELD: Final = "hoodie.datasource.write.partitionpath.field"


class Table(Frozen):
    """A copy-on-write table.

    Attributes:
        properties: ``hoodie.properties``; the partition types come from the binding where the file has none.
        binding: values bound for every writer; ``None`` on another writer's table that we have not written to.
        use_metadata: whether the metadata table is asked for the files, if there is one, instead of the folders.
    """

    storage: Storage
    properties: TableProperties
    binding: TableBinding | None = None
    use_metadata: bool = True

    @staticmethod
    def open(storage: Storage, *, use_metadata: bool = True) -> Table:
        """Open a table for reading.

        Args:
            use_metadata: ``hoodie.metadata.enable``.

        Raises:
            TableNotFoundError: there is none.
            TableCorruptError: its properties or its binding are damaged.
            TableUnsupportedError: a type, version or feature that is not read.
        """
        properties = load_table_properties(storage)
        check_readable(properties)
        binding = load_binding(storage, properties)
        if binding is not None and binding.partition_types is not None:
            properties = _with_types(properties, binding.partition_types)
        return Table(storage, properties, binding, use_metadata)

    @staticmethod
    def at(uri: str, *, use_metadata: bool = True) -> Table:
        """Open the table at a path or URL, by the store that the running call or task has there. As :meth:`open`."""
        return Table.open(storage_at(absolute(uri)), use_metadata=use_metadata)

    @property
    def uri(self) -> str:
        return self.storage.uri

    @property
    def name(self) -> str:
        return self.properties.name

    def reload(self) -> Table:
        """The table as its files say now: another writer may have changed its version or its metadata table."""
        return Table.open(self.storage, use_metadata=self.use_metadata)

    def current_properties(self) -> TableProperties:
        """The properties as their file says now, with the partition types that are bound beside them."""
        properties = load_table_properties(self.storage)
        if self.binding is None or self.binding.partition_types is None:
            return properties
        return _with_types(properties, self.binding.partition_types)

    def key_properties(self) -> dict[str, str]:
        """All that key generation needs, under Hudi's names: the properties, and what is bound beside them."""
        entries = dict(self.properties.entries)
        if self.properties.partition_types is not None:
            typed = zip(self.properties.partition_fields, self.properties.partition_types, strict=True)
            entries[PARTITION_PATH_FIELD] = ",".join(f"{name}:{kind}" for name, kind in typed)
        if self.binding is not None and self.binding.complex_key_new_encoding is not None:
            entries[ENCODING_OPTION] = "true" if self.binding.complex_key_new_encoding else "false"
        return entries | dict(self.binding.key_options if self.binding is not None else ())

    def load_timeline(self) -> Timeline:
        """List the timeline. Raises: TimelineChangedError: it is elsewhere since the table was opened."""
        timeline = Timeline.load(self.storage, self.properties.timeline_layout)
        if not timeline.files:
            self.check_same_version(load_table_properties(self.storage))
        return timeline

    def check_same_version(self, now: TableProperties) -> None:
        """Refuse a table that was upgraded or downgraded since it was opened. Raises: TimelineChangedError."""
        if (now.version, now.timeline_layout) != (self.properties.version, self.properties.timeline_layout):
            raise TimelineChangedError(
                f"table {self.name} was changed from version {self.properties.version} to {now.version} meanwhile",
                culprit=keys.TABLE_VERSION[0],
                hint="nothing was published; run again",
            )

    def snapshot(self, as_of: str | None = None, timeline: Timeline | None = None) -> Snapshot:
        """The live files now, or as of an instant (inclusive), as the metadata table names them if there is one.

        Args:
            as_of: the newest instant that counts; None for all.
        """
        ask = self._files_in_metadata if self.use_metadata and FILES in self.properties.metadata_partitions else None
        return snapshot(self.storage, timeline or self.load_timeline(), as_of, ask_metadata=ask)

    def listed_snapshot(self, timeline: Timeline | None = None) -> Snapshot:
        """The live files now, by listing folders: to compare, to delete, or to see what is really there."""
        return snapshot(self.storage, timeline or self.load_timeline())

    def metadata_view(self, timeline: Timeline) -> MetadataView | None:
        """The metadata table; None if there is none, or it is not to be used. The timeline was listed before."""
        table = metadata_table_of(self.storage, self.properties) if self.use_metadata else None
        return None if table is None else MetadataView.load(table, timeline)

    def _files_in_metadata(self, timeline: Timeline) -> FilesByPartition | None:
        table = metadata_table_of(self.storage, self.properties)
        return None if table is None else files_in_metadata(table, timeline, self.metadata_table_now)

    def metadata_table_now(self) -> MetadataTable | None:
        """The metadata table as the properties say now; None if readers use none.

        Raises:
            TimelineChangedError: somebody has upgraded or downgraded the table since it was opened.
        """
        now = load_table_properties(self.storage)
        self.check_same_version(now)
        return metadata_table_of(self.storage, now)

    def check_writable(self, config: WriteConfig | None = None) -> None:
        """Refuse a table that we must not write to.

        Raises:
            TableUnsupportedError: version or feature that is not written, by name.
            MetadataTableError: it has a metadata table that is not kept up, or may not be.
        """
        asked = config or WriteConfig()
        check_writable(self.properties, asked)
        check_kept(self.properties, asked.metadata_table)
        check_virtual_metadata(self.properties, self.properties.metadata_partitions)

    def bound_for(self, config: WriteConfig) -> TableBinding:
        """The binding that a write with these options uses; nothing is stored. Raises: OptionError."""
        return resolve_binding(self.properties, self.binding, config, self._changed_index(config))

    def index(self, timeline: Timeline | None = None) -> IndexSpec | None:
        """The index in force: as bound, or as a rewrite of the table has changed it; None if nothing is bound yet.

        Args:
            timeline: the instants that count; all that are there now, if not given.
        """
        if self.binding is None:
            return None
        bound = self.binding.index
        if timeline is None:
            return changed_index(self.storage, self.load_timeline) or bound
        return index_in_force(self.storage, timeline, bound)

    def may_have_been_global(self) -> bool:
        """Whether the table has, or had, an index under which a row may lie in another partition than it says."""
        return self.binding is None or any(one.is_global for one in every_index(self.storage, self.binding.index))

    def why_paths_are_no_evidence(self, changes: Sequence[str] | None = None) -> str | None:
        """Why a partition path may not be that of its rows' columns; None if it is, of every row.

        A row lies where its columns say as long as a key is unique in its partition: under a global index an update
        may leave it in its old partition. What files show of another writer's index is silent on that, buckets apart.

        Args:
            changes: instants of all changes of the index, if they were just listed.
        """
        binding = self.binding
        if binding is None:
            return "the table is not bound to an index"
        was_global = next((one for one in every_index(self.storage, binding.index, changes) if one.is_global), None)
        if was_global is not None:
            return f"the table has had a global index ({was_global.index_type})"
        if not self.has_only_found_index():
            return None
        return (
            f"the table's index was found by its files ({binding.index_type}), which do not show whether it is global; "
            f"a write with -o {INDEX_OPTION}={binding.index_type} says that it is not, if no row shows otherwise"
        )

    def has_only_found_index(self) -> bool:
        """Whether nobody has said the bound index: the files of another writer's table show it, buckets apart."""
        binding = self.binding
        made_here = BINDING_PROPERTY in self.properties.entries
        return binding is not None and not (made_here or binding.is_stated or binding.index_type is IndexType.BUCKET)

    def _changed_index(self, config: WriteConfig) -> IndexSpec | None:
        """The index that options are compared with, if there are any to compare and it is not the bound one."""
        return changed_index(self.storage, self.load_timeline) if asks_for_index(config) else None

    def bind(self, config: WriteConfig, *, index: IndexSpec | None = None, spelling: BoundKeys | None = None) -> Table:
        """The table bound for a write with these options; the first such write stores the binding.

        Args:
            index: the index to bind, as files and options show it; ignored if the table is bound.
            spelling: of keys, as the stored rows show it; ignored if the table is bound.

        Raises:
            OptionError: an option differs from what is bound.
            TableUnsupportedError: the table merges in a way that is not ours.
        """
        known = index if self.binding is None else self._changed_index(config)
        wanted = resolve_binding(self.properties, self.binding, config, known)
        if self.binding is None and spelling is not None:
            encoding, options = spelling.complex_key_new_encoding, spelling.key_options
            wanted = replace(wanted, complex_key_new_encoding=encoding, key_options=options)
        stored = store_binding(self.storage, wanted, keep_copy=BINDING_PROPERTY not in self.properties.entries)
        return replace(self, binding=resolve_binding(self.properties, stored, config, self._changed_index(config)))


def _with_types(properties: TableProperties, types: tuple[str, ...]) -> TableProperties:
    if len(types) != len(properties.partition_fields):
        raise TableCorruptError(
            f"table {properties.name} has {len(properties.partition_fields)} partition fields, {len(types)} are bound",
            culprit=BINDING_PATH,
            hint="the table's properties were changed; restore them",
        )
    return replace(properties, partition_types=types)
