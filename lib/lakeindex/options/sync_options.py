"""Options of the sync with catalogs."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from lakeindex.frozen import Frozen
from lakeindex.model import SYNC_OPTION
from lakeindex.options.option import FLAG, Option, OptionArea, flag, names_of, some_text

_HIVE: Final = "hoodie.datasource.hive_sync."
METASTORE_OPTION: Final = f"{_HIVE}metastore.uris"
TLS_OPTION: Final = "lakeindex.hive.tls"
_EXTRACTORS: Final = "org.apache.hudi.hive."


class CatalogKind(StrEnum):
    """A kind of catalog."""

    GLUE = "glue"
    HIVE = "hive"


class PartitionExtractor(StrEnum):
    """How the values of a partition are read from its path; Hudi's classes, by the last part of their names."""

    SINGLE = "SinglePartPartitionValueExtractor"
    HIVE_STYLE = "HiveStylePartitionValueExtractor"
    MULTI = "MultiPartKeysValueExtractor"
    DAY = "SlashEncodedDayPartitionValueExtractor"
    HOUR = "SlashEncodedHourPartitionValueExtractor"
    NONE = "NonPartitionedExtractor"


class SyncOptions(Frozen):
    """What a sync was told; None: what the table says.

    Attributes:
        catalogs: those that every write is followed by a sync with.
        extractor: how values are read from partition paths.
        hive_tls: speak TLS with the metastore, by the certificates that this machine trusts, or by those of a file.
        glue_endpoint: URL of Glue's API, if it is not AWS's own.
    """

    catalogs: tuple[CatalogKind, ...] = ()
    database: str | None = None
    table: str | None = None
    partition_fields: tuple[str, ...] | None = None
    extractor: PartitionExtractor | None = None
    decode: bool | None = None
    timestamps: bool = False
    comments: bool = False
    omit_meta: bool = False
    create_database: bool = True
    incremental: bool = True
    properties: tuple[tuple[str, str], ...] = ()
    metastore: str = "thrift://localhost:9083"
    hive_tls: str | bool = False
    glue_endpoint: str | None = None
    glue_region: str | None = None
    skip_archive: bool = True
    metadata_listing: bool = False


def _catalogs(text: str) -> tuple[CatalogKind, ...]:
    return tuple(dict.fromkeys(CatalogKind(word.strip().lower()) for word in text.split(",") if word.strip()))


def _names(text: str) -> tuple[str, ...]:
    found = tuple(word.strip() for word in text.split(","))
    if text.strip() and not all(found):
        raise ValueError(text)
    return found if text.strip() else ()


def _extractor(text: str) -> PartitionExtractor:
    return PartitionExtractor(text.strip().removeprefix(_EXTRACTORS))


def _properties(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [line.partition("=") for line in text.splitlines() if line.strip()]
    if not all(name.strip() and sign for name, sign, _ in pairs):
        raise ValueError(text)
    return tuple((name.strip(), value.strip()) for name, _, value in pairs)


def _tls(text: str) -> str | bool:
    return flag(text) if text.strip().lower() in {"true", "false"} else some_text(text)


# fmt: off
AREA: Final = OptionArea(
    title="Catalogs",
    config=SyncOptions,
    options=(
        Option(SYNC_OPTION, "catalogs", _catalogs, "glue, hive, or both",
               "Catalogs that learn of the commit after it. What goes wrong there is a note of the run and hurts no "
               "commit; the next sync does it (docs/catalogs.md). `lakeindex sync` and `maintain` use it, too."),
        Option(_HIVE + "database", "database", some_text, "a name",
               "Database in the catalog. Default: the table's `hoodie.database.name`, else `default`."),
        Option(_HIVE + "table", "table", some_text, "a name", "Name in the catalog. Default: the table's name."),
        Option(_HIVE + "partition_fields", "partition_fields", _names, "names, separated by commas",
               "Partition columns in the catalog. A name that is no column of the table is a text. Default: the "
               "table's partition fields."),
        Option(_HIVE + "partition_extractor_class", "extractor", _extractor,
               names_of(PartitionExtractor),
               "How the values of a partition are read from its path. Default, as in Hudi: by the number of partition "
               "fields and whether paths are `field=value`."),
        Option("hoodie.meta.sync.decode_partition", "decode", flag, FLAG,
               "Undo the escapes of partition values. Default: if the table escapes them."),
        Option(_HIVE + "support_timestamp", "timestamps", flag, FLAG,
               "Timestamps are `timestamp` in the catalog. `false`, as Hudi's default: `bigint`. A catalog cannot "
               "change it later. Spark has a schema of its own there and knows them in either case."),
        Option(_HIVE + "sync_comment", "comments", flag, FLAG, "Comments of columns are the `doc` of the Avro schema."),
        Option(_HIVE + "omit_metadata_fields", "omit_meta", flag, FLAG,
               "Leave Hudi's five meta columns out of the catalog."),
        Option(_HIVE + "auto_create_database", "create_database", flag, FLAG,
               "Make the database if it is not there."),
        Option("hoodie.meta.sync.incremental", "incremental", flag, FLAG,
               "Compare only partitions that were changed since the last synced commit. `false`: all of them."),
        Option(_HIVE + "table_properties", "properties", _properties, "name=value, one a line",
               "More properties of the table in the catalog."),
        Option(METASTORE_OPTION, "metastore", some_text, "thrift://host:port, separated by commas",
               "Where the Hive Metastore answers: the first that does is asked."),
        Option(TLS_OPTION, "hive_tls", _tls, "true, false, or a file of certificates",
               "Speak TLS with the Hive Metastore (there `hive.metastore.use.SSL=true`). Its certificate is checked by "
               "those that this machine trusts (`SSL_CERT_FILE` names others), or by those of the file, in PEM form."),
        Option("hoodie.aws.glue.endpoint", "glue_endpoint", some_text, "a URL",
               "Where Glue answers. Default: what boto3 finds (`AWS_ENDPOINT_URL_GLUE`, else AWS)."),
        Option("hoodie.aws.glue.region", "glue_region", some_text, "a region",
               "Region of Glue. Default: what boto3 finds."),
        Option("hoodie.datasource.meta.sync.glue.skip_table_archive", "skip_archive", flag, FLAG,
               "Glue: keep no old version of the table's entry."),
        Option("hoodie.datasource.meta.sync.glue.metadata_file_listing", "metadata_listing", flag, FLAG,
               "Glue: Athena takes the list of files from Hudi's metadata table (`hudi.metadata-listing-enabled`)."),
    ),
)
# fmt: on
