"""Keys of ``hoodie.properties``, the paths of the file, and what a write of ours makes of each key.

Each key is a tuple of its spellings, the newest first: a reader takes either.

A property decides keys, partition paths, deletes or merging, or it does not; one that nobody has looked at may do so.
So what is not in ``INVENTORY`` stops a write. docs/format.md shows the table; ``scripts/options_page.py`` makes it.

Source: ``HoodieTableConfig`` of Hudi 0.8 to 1.2, what its writers put beside it, and of its main branch (1.3) what has
been merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

from lakeindex.frozen import Frozen
from lakeindex.options.option import INDEX_OPTION, TIMEBASED_PREFIX
from lakeindex.options.option_table import OPTIONS
from lakeindex.timeline.layout import VERSION_9

PROPERTIES_PATH: Final = ".hoodie/hoodie.properties"
PROPERTIES_BACKUP_PATH: Final = ".hoodie/hoodie.properties.backup"

COPY_ON_WRITE: Final = "COPY_ON_WRITE"

PACKAGE: Final = "org.apache.hudi."
OLD_PACKAGE: Final = "com.uber.hoodie."
"""What the classes of the first releases begin with; Hudi takes one for the other."""
DEFAULT_PAYLOAD: Final = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
EVENT_TIME_PAYLOAD: Final = "org.apache.hudi.common.model.EventTimeAvroPayload"
OVERWRITE_PAYLOAD: Final = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
EVENT_TIME_STRATEGY: Final = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
COMMIT_TIME_STRATEGY: Final = "ce9acb64-bde0-424c-9b91-f6ebba25356d"

TABLE_NAME: Final = ("hoodie.table.name",)
TABLE_TYPE: Final = ("hoodie.table.type",)
TABLE_VERSION: Final = ("hoodie.table.version",)
LAYOUT_VERSION: Final = ("hoodie.timeline.layout.version",)
DATABASE_NAME: Final = ("hoodie.database.name",)
CHECKSUM: Final = ("hoodie.table.checksum",)
RECORD_KEY_FIELDS: Final = ("hoodie.table.recordkey.fields",)
PARTITION_FIELDS: Final = ("hoodie.table.partition.fields",)
ORDERING_FIELDS: Final = ("hoodie.table.ordering.fields", "hoodie.table.precombine.field")
KEY_GENERATOR_TYPE: Final = ("hoodie.table.keygenerator.type",)
KEY_GENERATOR_CLASS: Final = ("hoodie.table.keygenerator.class",)
ARCHIVE_FOLDER: Final = ("hoodie.archivelog.folder",)
TIMELINE_PATH: Final = ("hoodie.timeline.path",)
HISTORY_PATH: Final = ("hoodie.timeline.history.path",)
TIMEZONE: Final = ("hoodie.table.timeline.timezone",)
BASE_FILE_FORMAT: Final = ("hoodie.table.base.file.format", "hoodie.table.ro.file.format")
HIVE_STYLE: Final = ("hoodie.datasource.write.hive_style_partitioning",)
URL_ENCODE: Final = ("hoodie.datasource.write.partitionpath.urlencode",)
DROP_PARTITION_COLUMNS: Final = ("hoodie.datasource.write.drop.partition.columns",)
POPULATE_META_FIELDS: Final = ("hoodie.populate.meta.fields",)
CDC_ENABLED: Final = ("hoodie.table.cdc.enabled",)
METADATA_PARTITIONS: Final = ("hoodie.table.metadata.partitions",)
METADATA_PARTITIONS_INFLIGHT: Final = ("hoodie.table.metadata.partitions.inflight",)
METAFILE_USES_BASE_FORMAT: Final = ("hoodie.partition.metafile.use.base.format",)
BOOTSTRAP_BASE_PATH: Final = ("hoodie.bootstrap.base.path",)
TABLE_FORMAT: Final = ("hoodie.table.format",)
MULTIPLE_BASE_FORMATS: Final = ("hoodie.table.multiple.base.file.formats.enable",)
INITIAL_VERSION: Final = ("hoodie.table.initial.version",)
MERGE_MODE: Final = ("hoodie.record.merge.mode",)
PAYLOAD_CLASS: Final = ("hoodie.compaction.payload.class",)
MERGE_STRATEGY: Final = ("hoodie.record.merge.strategy.id", "hoodie.compaction.record.merger.strategy")
CREATE_SCHEMA: Final = ("hoodie.table.create.schema",)
META_FIELDS_MODE: Final = ("hoodie.meta.fields.mode",)
MERGE_PROPERTY_PREFIX: Final = "hoodie.record.merge.property."
DELETE_FIELD: Final = (f"{MERGE_PROPERTY_PREFIX}hoodie.payload.delete.field",)
DELETE_MARKER: Final = (f"{MERGE_PROPERTY_PREFIX}hoodie.payload.delete.marker",)

OLD_TIMEBASED_PREFIX: Final = "hoodie.deltastreamer.keygen.timebased."

DEFINITIONS_PROPERTY: Final = "hoodie.table.index.defs.path"
OWN_PROPERTY: Final = "lakeindex.table.binding"


class Treatment(StrEnum):
    """What a write makes of a property."""

    FOLLOWED = "followed"
    NO_MATTER = "no matter to a writer"
    REFUSED = "refused"


class KnownProperty(Frozen):
    """A property, or a family of them.

    Attributes:
        key: its name; with ``*`` at its end, what the names of a family begin with.
        since: first release that has it, of 0.15, 1.0, 1.1, 1.2 and 1.3 (the main branch).
        remark: what it is about, or why it is refused.
        but_for: values, in lower case, of one that is refused with which a table is written to all the same.
    """

    key: str
    since: str
    treatment: Treatment
    remark: str
    but_for: tuple[str, ...] = ()

    @property
    def treated(self) -> str:
        return (
            f"{self.treatment}, but for " + ", ".join(f"`{one}`" for one in self.but_for)
            if self.but_for
            else (self.treatment)
        )


_F, _N, _R = Treatment.FOLLOWED, Treatment.NO_MATTER, Treatment.REFUSED

_TIMEBASED: Final = (
    "timestamp.type",
    "timestamp.scalar.time.unit",
    "input.dateformat",
    "input.dateformat.list.delimiter.regex",
    "input.timezone",
    "output.dateformat",
    "output.timezone",
    "timezone",
)

# A table, not code: the formatter would give each argument a line.
# fmt: off
INVENTORY: Final = (
    KnownProperty("hoodie.table.name", "0.15", _F, "name"),
    KnownProperty("hoodie.database.name", "0.15", _F, "name of the database"),
    KnownProperty("hoodie.table.checksum", "0.15", _F, "of both names; another one is damage"),
    KnownProperty("hoodie.table.type", "0.15", _F, "MERGE_ON_READ is not read"),
    KnownProperty("hoodie.table.version", "0.15", _F,
                  "others than 6, 8, 9 and 10 are not read; 10 is written [on request](#version-10)"),
    KnownProperty("hoodie.timeline.layout.version", "0.15", _F, "has to be that of the version"),
    KnownProperty("hoodie.table.recordkey.fields", "0.15", _F, "columns of the record key"),
    KnownProperty("hoodie.table.partition.fields", "0.15", _F, "columns of the partition path"),
    KnownProperty("hoodie.table.ordering.fields", "1.1", _F, "columns of the ordering value"),
    KnownProperty("hoodie.table.precombine.field", "0.15", _F, "older name of the same"),
    KnownProperty("hoodie.table.keygenerator.type", "1.0", _F, "an unknown generator is refused"),
    KnownProperty("hoodie.table.keygenerator.class", "0.15", _F, "older form of the same"),
    KnownProperty("hoodie.datasource.write.hive_style_partitioning", "0.15", _F, "folders are `field=value`"),
    KnownProperty("hoodie.datasource.write.partitionpath.urlencode", "0.15", _F, "values are escaped in folders"),
    KnownProperty("hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled", "0.15", _F,
                  "timestamps are text in keys; Hudi's writers take it for an option of theirs"),
    KnownProperty("hoodie.datasource.write.slash.separated.date.partitioning", "1.2", _R,
                  "makes `2026-01-31` the folder `2026/01/31`", ("false",)),
    *(KnownProperty(prefix + name, "0.15", _F, "how a time becomes a partition path")
      for prefix in (TIMEBASED_PREFIX, OLD_TIMEBASED_PREFIX)
      for name in _TIMEBASED),
    *(KnownProperty(f"hoodie.{middle}keygen.datetime.parser.class", "0.15", _R,
                    "a class that reads times of a partition path",
                    ("org.apache.hudi.keygen.parser.hoodiedatetimeparser",))
      for middle in ("", "deltastreamer.")),
    KnownProperty("hoodie.datasource.write.drop.partition.columns", "0.15", _R,
                  "the columns exist in folder names only; such a table is not read, either", ("false",)),
    KnownProperty("hoodie.populate.meta.fields", "0.15", _F, "`false`: virtual keys"),
    KnownProperty("hoodie.meta.fields.mode", "1.3", _R,
                  "which meta columns rows store; selective modes are not written", ("all", "none")),
    KnownProperty("hoodie.record.merge.mode", "1.0", _F, "CUSTOM is refused"),
    KnownProperty("hoodie.compaction.payload.class", "0.15", _F,
                  "another class than those of the two modes is refused"),
    KnownProperty("hoodie.record.merge.strategy.id", "1.0", _F, "another one than those of the two modes is refused"),
    KnownProperty("hoodie.compaction.record.merger.strategy", "0.15", _F, "older name of the same"),
    KnownProperty("hoodie.table.legacy.payload.class", "1.1", _N,
                  "the class that the merge mode and the merge properties stand for, from version 9 on"),
    KnownProperty(DELETE_FIELD[0], "1.1", _F, "column by which a row of a batch is a delete"),
    KnownProperty(DELETE_MARKER[0], "1.1", _F, "its value, as text"),
    KnownProperty(f"{MERGE_PROPERTY_PREFIX}hoodie.write.partial.update.unavailable.value", "1.1", _N,
                  "a value of the partial update mode FILL_UNAVAILABLE, which is refused"),
    KnownProperty(f"{MERGE_PROPERTY_PREFIX}*", "1.1", _R, "a rule of merging that is not known"),
    KnownProperty("hoodie.table.partial.update.mode", "1.1", _R, "parts of rows are merged", ("none",)),
    KnownProperty("hoodie.payload.*", "0.15", _R,
                  "Hudi's writers take it for an option of theirs, with which they delete or merge"),
    KnownProperty("hoodie.datasource.write.payload.class", "0.15", _R,
                  "Hudi's writers take it for an option of theirs"),
    KnownProperty("hoodie.table.create.schema", "0.15", _F, "columns of a table without a commit"),
    KnownProperty("hoodie.table.base.file.format", "0.15", _F, "others than PARQUET are not read"),
    KnownProperty("hoodie.table.ro.file.format", "0.15", _F, "older name of the same"),
    KnownProperty("hoodie.table.multiple.base.file.formats.enable", "1.0", _R,
                  "base files of several formats; such a table is not read, either", ("false",)),
    KnownProperty("hoodie.table.log.file.format", "0.15", _N, "copy-on-write tables have no logs"),
    KnownProperty("hoodie.table.rt.file.format", "0.15", _N, "older name of the same"),
    KnownProperty("hoodie.table.format", "1.1", _R, "a table of another format; not read, either", ("native",)),
    KnownProperty("hoodie.table.storage.layout", "1.3", _R, "a layout of log files (RFC-103)", ("default",)),
    KnownProperty("hoodie.partition.metafile.use.base.format", "0.15", _F, "both forms are read"),
    KnownProperty("hoodie.archivelog.folder", "0.15", _F, "where the archived timeline is, below version 8"),
    KnownProperty("hoodie.timeline.path", "1.0", _F, "where the timeline is, from version 8 on"),
    KnownProperty("hoodie.timeline.history.path", "1.0", _F, "where its archived part is"),
    KnownProperty("hoodie.table.timeline.timezone", "0.15", _F, "zone of the instants"),
    KnownProperty("hoodie.table.cdc.enabled", "0.15", _R, "changed data would have to be recorded", ("false",)),
    KnownProperty("hoodie.table.cdc.supplemental.logging.mode", "0.15", _N, "what is recorded where CDC is on"),
    KnownProperty("hoodie.bootstrap.base.path", "0.15", _R,
                  "rows are spread over two files each; such a table is not read, either"),
    KnownProperty("hoodie.bootstrap.index.enable", "0.15", _N, "of bootstrapped tables"),
    KnownProperty("hoodie.bootstrap.index.class", "0.15", _N, "of bootstrapped tables"),
    KnownProperty("hoodie.bootstrap.index.type", "1.0", _N, "of bootstrapped tables"),
    KnownProperty("hoodie.table.metadata.partitions", "0.15", _F,
                  "partitions of the metadata table; unknown ones are refused"),
    KnownProperty("hoodie.table.metadata.partitions.inflight", "0.15", _F, "a partition in the making is refused"),
    KnownProperty("hoodie.table.secondary.indexes.metadata", "0.15", _R, "indexes that commits would have to keep up"),
    KnownProperty(DEFINITIONS_PROPERTY, "1.0", _R, "where the indexes are defined",
                  (".hoodie/.index_defs/index.json",)),
    KnownProperty("hoodie.table.initial.version", "1.0", _N, "the version that the table was made with"),
    KnownProperty("hoodie.table.partition_extractor_class", "1.2", _N, "how readers get values from folder names"),
    KnownProperty("hoodie.storage.*", "1.3", _R, "data files in other places than the table's folders"),
    *(KnownProperty(f"hoodie.{family}*", "0.15", _N, "an option of catalog sync, or of metrics")
      for family in ("datasource.hive_sync.", "datasource.meta.sync.", "datasource.meta_sync.", "meta.sync.",
                     "gcp.bigquery.sync.", "metrics.")),
    *(KnownProperty(one.key, "0.15", _F, "of the index; no release writes it here, the first write takes it")
      for one in OPTIONS if one.key == INDEX_OPTION or one.bound_with),
    KnownProperty(OWN_PROPERTY, "", _F, "lakeindex's own: what is bound to the table"),
)
# fmt: on

_EXACT: Final = {one.key: one for one in INVENTORY if not one.key.endswith("*")}
_FAMILIES: Final = tuple(one for one in INVENTORY if one.key.endswith("*"))

SPELLINGS: Final = (
    ORDERING_FIELDS,
    BASE_FILE_FORMAT,
    MERGE_STRATEGY,
    *((TIMEBASED_PREFIX + name, OLD_TIMEBASED_PREFIX + name) for name in _TIMEBASED),
)
"""Properties of which two releases have names of their own."""


def known_property(key: str) -> KnownProperty | None:
    """What is known of a property; None if nothing is."""
    family = (one for one in _FAMILIES if key.startswith(one.key[:-1]))
    return _EXACT.get(key) or next(family, None)


def unwritable_properties(entries: Mapping[str, str], version: int) -> Iterator[tuple[str, str, str]]:
    """Properties of a table of a version that a write does not follow: the key, the value, and why."""
    for key, text in entries.items():
        value, known = text.strip(), known_property(key)
        if value and known is not None and known.treatment is _R and value.lower() not in known.but_for:
            yield key, value, known.remark
    for newer, older in SPELLINGS if version < VERSION_9.number else ():  # from there on all know the newer
        values = [entries.get(key, "").replace(" ", "") for key in (newer, older)]
        if all(values) and values[0] != values[1]:
            yield newer, values[0], f"{older}={values[1]} says something else, and releases of Hudi follow one each"


def unknown_properties(entries: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Properties of a table that are not in the inventory, with their values."""
    for key, value in entries.items():
        if value.strip() and known_property(key) is None:
            yield key, value


def inventory_table() -> str:
    """The inventory as a Markdown table."""
    lines = ["| property | since | a write | what it is, or why |", "|---|---|---|---|"]
    lines += [f"| `{one.key}` | {one.since} | {one.treated} | {one.remark} |" for one in INVENTORY]
    return "\n".join(lines)
