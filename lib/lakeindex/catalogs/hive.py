"""A Hive Metastore, by thriftpy2 and the part of its interface that ``metastore.thrift`` states.

Releases 2.3 to 4.0. An entry is altered only if the commit that it knows is still the one that was read, as far as the
metastore compares it (since 4.0); an older one is looked at once more. Files are not listed for statistics.
"""

from __future__ import annotations

import getpass
import os
import ssl
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from lakeindex.catalogs.catalog import SYNCED, CatalogColumn, CatalogPartition, CatalogTable, batches
from lakeindex.errors import (
    AccessDeniedError,
    CatalogChangedError,
    CatalogError,
    LakeIndexError,
    OptionError,
    TableNotFoundError,
    UsageError,
    first_line,
)
from lakeindex.format.partitions import DEFAULT_PARTITION, escape_partition_value
from lakeindex.options.sync_options import METASTORE_OPTION, TLS_OPTION, CatalogKind, SyncOptions

try:
    import thriftpy2
    from thriftpy2.protocol.cybin.cybin import ProtocolError
    from thriftpy2.rpc import make_client
    from thriftpy2.thrift import TException
    from thriftpy2.transport import TTransportException
except ImportError as missing:
    raise UsageError(
        "a sync with a Hive Metastore needs the package thriftpy2", culprit="hive", hint="pip install 'lakeindex[hive]'"
    ) from missing

_PORT: Final = 9083
_TIMEOUT_MS: Final = 60_000
_BATCH: Final = 500
_PAGE: Final = 1000
_NO_STATISTICS: Final = {"DO_NOT_UPDATE_STATS": "true"}
_DENIED: Final = ("permission denied", "not authorized", "accesscontrolexception", "hiveaccesscontrolexception")
_MODIFIED: Final = "the table has been modified"
_MISSING: Final = ("does not exist", "doesn't exist", "table not found")
"""What is said of an object that went away in the middle, as an invalid object or operation."""
_ASK_TLS: Final = f"{TLS_OPTION} says whether it speaks TLS, and by whose certificates"
_EXTERNAL: Final = "EXTERNAL_TABLE"


@cache
def interface() -> Any:
    """The metastore's interface, read from its statement."""
    return thriftpy2.load(str(Path(__file__).with_name("metastore.thrift")), module_name="lakeindex_metastore_thrift")


def hive_catalog(options: SyncOptions) -> HiveCatalog:
    """The metastore of the option; nobody is asked yet. Raises: OptionError: a place that is none."""
    return HiveCatalog([_address(text.strip()) for text in options.metastore.split(",")], tls=options.hive_tls)


def _address(text: str) -> tuple[str, int]:
    try:
        found = urlsplit(text)
        host, port = found.hostname, found.port or _PORT
    except ValueError:
        found, host, port = urlsplit(""), None, _PORT
    if found.scheme != "thrift" or not host:
        raise OptionError(
            f"option {METASTORE_OPTION} cannot be {text!r}", culprit=METASTORE_OPTION, hint="valid: thrift://host:port"
        )
    return host, port


class HiveCatalog:
    """A :class:`lakeindex.catalogs.catalog.Catalog`, connected with the first call.

    Args:
        places: hosts and ports; the first that answers is asked.
        tls: speak TLS, by the certificates that this machine trusts (True) or those of a file.

    Raises:
        OptionError: the file is none of certificates.
    """

    kind = CatalogKind.HIVE
    batch = _BATCH
    page = _PAGE

    def __init__(self, places: Sequence[tuple[str, int]], *, tls: str | bool = False) -> None:
        self.requests = 0
        self._places = places
        self._place = ", ".join(f"thrift://{host}:{port}" for host, port in places)
        self._thrift = interface()
        self._user = os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
        self._made: Any = None
        self._tls = _context(tls) if tls else None

    def close(self) -> None:
        if self._made is not None:
            self._made.close()
            self._made = None

    @property
    def _client(self) -> Any:
        if self._made is None:
            made = self._connected()
            try:
                made.set_ugi(self._user, [])
            except BaseException:
                made.close()
                raise
            self._made = made
        return self._made

    def _connected(self) -> Any:
        said = []
        for host, port in self._places:
            try:
                return make_client(
                    self._thrift.ThriftHiveMetastore, host, port, timeout=_TIMEOUT_MS, ssl_context=self._tls
                )
            except (TException, OSError) as error:
                said.append(first_line(error.__context__ or error))  # thriftpy2 says no more than that it failed
        raise CatalogError(
            f"no Hive Metastore answers at {self._place}: {'; '.join(said)}",
            culprit=self._place,
            hint=f"the table is as it was; the next sync goes on; {_ASK_TLS}",
        )

    def table(self, database: str, name: str) -> CatalogTable | None:
        asked = self._thrift.GetTableRequest(dbName=database, tblName=name)
        try:
            return _table(self._call("get_table_req", asked).table)
        except TableNotFoundError:
            return None

    def lineage_name(self, held: CatalogTable) -> tuple[str, str]:
        host, port = self._places[0]
        return f"hive://{host}:{port}", held.full_name

    def tables(self, database: str) -> Iterator[CatalogTable]:
        self._call("get_database", database)
        names = self._call("get_all_tables", database)
        for some in batches(names, _PAGE):
            asked = self._thrift.GetTablesRequest(dbName=database, tblNames=some)
            yield from map(_table, self._call("get_table_objects_by_name_req", asked).tables)

    def create_database(self, database: str) -> None:
        made = self._thrift.Database(name=database, description="made by lakeindex")
        try:
            self._call("create_database", made)
        except CatalogChangedError:
            return  # it is there

    def create_table(self, table: CatalogTable) -> None:
        self._call("get_database", table.database)
        descriptor = self._thrift.StorageDescriptor(
            compressed=False, numBuckets=0, bucketCols=[], sortCols=[], parameters={}
        )
        made = self._thrift.Table(owner=self._user, createTime=int(time.time()), lastAccessTime=0, retention=0)
        made.sd = descriptor
        self._say(table, made)
        context = self._thrift.EnvironmentContext(properties=_NO_STATISTICS)
        self._call("create_table_with_environment_context", made, context)

    def alter_table(self, held: CatalogTable, wanted: CatalogTable, *, cascade: bool) -> None:
        properties = dict(_NO_STATISTICS)
        if cascade and wanted.partition_columns:
            properties["CASCADE"] = "true"
        if held.version is not None and SYNCED in wanted.parameters:
            properties |= {"expected_parameter_key": SYNCED, "expected_parameter_value": held.version}
        entry = held.native
        now = self.table(held.database, held.name)
        if now is None or now.version != held.version:
            raise CatalogChangedError(f"{held.full_name} is another by now", culprit=held.full_name, hint="sync again")
        self._say(wanted, entry)
        context = self._thrift.EnvironmentContext(properties=properties)
        self._call("alter_table_with_environment_context", held.database, held.name, entry, context)

    def partitions(self, held: CatalogTable, *, columns: bool = False) -> Iterator[CatalogPartition]:
        del columns  # they come in any case
        names = self._call("get_partition_names", held.database, held.name, -1)
        for some in batches(names, _PAGE):
            yield from map(_partition, self._call("get_partitions_by_names", held.database, held.name, some))

    def partitions_of(self, held: CatalogTable, values: Sequence[tuple[str, ...]]) -> Iterator[CatalogPartition]:
        yield from map(_partition, self._named(held, values))

    def add_partitions(self, held: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        asked = self._thrift.AddPartitionsRequest(
            dbName=held.database,
            tblName=held.name,
            parts=[self._new(held, one) for one in partitions],
            ifNotExists=True,
            needResult=False,
        )
        self._call("add_partitions_req", asked)

    def move_partitions(self, held: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        places = {one.values: one.location for one in partitions}
        there = self._named(held, [*places])
        for one in there:
            one.sd = self._descriptor(held, places[tuple(one.values)])
        if there:
            self._call("alter_partitions", held.database, held.name, there)

    def drop_partitions(self, held: CatalogTable, values: Sequence[tuple[str, ...]]) -> None:
        asked = self._thrift.DropPartitionsRequest(
            dbName=held.database,
            tblName=held.name,
            parts=self._thrift.RequestPartsSpec(names=[_name(held, one) for one in values]),
            deleteData=False,
            ifExists=True,
            needResult=False,
        )
        try:
            self._call("drop_partitions_req", asked)
        except TableNotFoundError:  # one of them is gone: the others go one by one
            for one in values:
                if self._named(held, [one]):
                    asked.parts = self._thrift.RequestPartsSpec(names=[_name(held, one)])
                    self._call("drop_partitions_req", asked)

    def _named(self, held: CatalogTable, values: Sequence[tuple[str, ...]]) -> list[Any]:
        names = [_name(held, one) for one in values]
        found: list[Any] = self._call("get_partitions_by_names", held.database, held.name, names)
        return found

    def _new(self, held: CatalogTable, one: CatalogPartition) -> Any:
        return self._thrift.Partition(
            values=list(one.values),
            dbName=held.database,
            tableName=held.name,
            createTime=0,
            lastAccessTime=0,
            sd=self._descriptor(held, one.location),
            parameters={},
        )

    def _descriptor(self, held: CatalogTable, location: str) -> Any:
        """What the table has, at another place."""
        return self._thrift.StorageDescriptor(**{**_given(held.native.sd), "location": location})

    def _say(self, table: CatalogTable, entry: Any) -> None:
        """Write into an entry what a table is to be."""
        entry.dbName, entry.tableName, entry.tableType = table.database, table.name, table.table_type
        entry.partitionKeys = [self._field(one) for one in table.partition_columns]
        entry.parameters = dict(table.parameters)
        entry.sd.cols = [self._field(one) for one in table.columns]
        entry.sd.location = table.location
        entry.sd.inputFormat, entry.sd.outputFormat = table.input_format, table.output_format
        serde = entry.sd.serdeInfo or self._thrift.SerDeInfo()
        serde.serializationLib, serde.parameters = table.serde, dict(table.serde_parameters)
        entry.sd.serdeInfo = serde

    def _field(self, column: CatalogColumn) -> Any:
        return self._thrift.FieldSchema(name=column.name, type=column.kind, comment=column.comment)

    def _call(self, name: str, *asked: Any) -> Any:
        self.requests += 1
        try:
            return getattr(self._client, name)(*asked)
        except TException as error:
            raise self._error(name, error) from error
        except (OSError, ProtocolError) as error:
            raise self._silent(name, error) from error

    def _silent(self, name: str, error: Exception) -> CatalogError:
        return CatalogError(
            f"the Hive Metastore at {self._place} did not answer {name}: {first_line(error)}",
            culprit=self._place,
            hint=f"the table is as it was; the next sync goes on; {_ASK_TLS}",
        )

    def _error(self, name: str, error: Exception) -> LakeIndexError:
        kind, message = type(error).__name__, str(getattr(error, "message", "") or error)
        if kind == "NoSuchObjectException" or any(words in message.lower() for words in _MISSING):
            return TableNotFoundError(
                f"the Hive Metastore at {self._place} knows no such object ({name}): {message}",
                culprit=name,
                hint="hoodie.datasource.hive_sync.auto_create_database=true makes the database",
            )
        if kind == "AlreadyExistsException" or _MODIFIED in message.lower():
            return CatalogChangedError(f"the entry is another by now: {message}", culprit=name, hint="sync again")
        if isinstance(error, TTransportException):
            return self._silent(name, error)
        if any(word in message.lower() for word in _DENIED):
            return AccessDeniedError(
                f"the Hive Metastore at {self._place} refuses {name} to {self._user}: {message}",
                culprit=name,
                hint=f"give {self._user} the right to {name.removesuffix('_req').replace('_', ' ')} there",
            )
        return CatalogError(
            f"the Hive Metastore at {self._place} refuses {name}: {kind}: {message}",
            culprit=name,
            hint="the table is as it was",
        )


def _context(tls: str | Literal[True]) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=tls if isinstance(tls, str) else None)
    except OSError as error:
        raise OptionError(
            f"option {TLS_OPTION} cannot be {tls!r}: {first_line(error)}",
            culprit=TLS_OPTION,
            hint="name a file of certificates in PEM form, or say true",
        ) from error


def _given(value: Any) -> dict[str, Any]:
    """The fields of one of thrift's values."""
    return {spec[1]: getattr(value, spec[1]) for spec in value.thrift_spec.values()}


def _table(entry: Any) -> CatalogTable:
    descriptor = entry.sd
    serde = descriptor.serdeInfo if descriptor is not None else None
    parameters = entry.parameters or {}
    return CatalogTable(
        database=entry.dbName,
        name=entry.tableName,
        location=(descriptor.location if descriptor is not None else None) or "",
        columns=tuple(map(_column, (descriptor.cols if descriptor is not None else None) or ())),
        partition_columns=tuple(map(_column, entry.partitionKeys or ())),
        parameters=parameters,
        input_format=(descriptor.inputFormat if descriptor is not None else None) or "",
        output_format=(descriptor.outputFormat if descriptor is not None else None) or "",
        serde=(serde.serializationLib if serde is not None else None) or "",
        serde_parameters=(serde.parameters if serde is not None else None) or {},
        table_type=entry.tableType or _EXTERNAL,
        version=parameters.get(SYNCED),
        native=entry,
    )


def _column(field: Any) -> CatalogColumn:
    return CatalogColumn(field.name, field.type, field.comment)


def _partition(entry: Any) -> CatalogPartition:
    return CatalogPartition(tuple(entry.values), entry.sd.location or "", tuple(map(_column, entry.sd.cols or ())))


def _name(held: CatalogTable, values: tuple[str, ...]) -> str:
    """The name by which Hive knows a partition."""
    named = zip(held.partition_columns, values, strict=True)
    return "/".join(
        f"{escape_partition_value(column.name)}={escape_partition_value(value or DEFAULT_PARTITION)}"
        for column, value in named
    )
