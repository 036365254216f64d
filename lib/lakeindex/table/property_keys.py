"""Keys of ``hoodie.properties``, the paths of the file, and the names of Hudi's merge classes.

Each key is a tuple of its spellings, the newest first: a reader takes either.
"""

from __future__ import annotations

from typing import Final

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
PARTIAL_UPDATE_MODE: Final = ("hoodie.table.partial.update.mode",)
META_FIELDS_MODE: Final = ("hoodie.meta.fields.mode",)
MERGE_PROPERTY_PREFIX: Final = "hoodie.record.merge.property."
DELETE_FIELD: Final = (f"{MERGE_PROPERTY_PREFIX}hoodie.payload.delete.field",)
DELETE_MARKER: Final = (f"{MERGE_PROPERTY_PREFIX}hoodie.payload.delete.marker",)

OLD_TIMEBASED_PREFIX: Final = "hoodie.deltastreamer.keygen.timebased."
