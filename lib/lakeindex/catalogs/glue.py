"""AWS Glue's Data Catalog, by boto3.

Throttled calls are repeated by boto3 itself, ten times in its ``standard`` mode unless ``AWS_RETRY_MODE`` or
``AWS_MAX_ATTEMPTS`` say otherwise. An entry is updated only at the version that was read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from lakeindex.catalogs.catalog import CatalogColumn, CatalogPartition, CatalogTable, batches
from lakeindex.errors import (
    AccessDeniedError,
    CatalogChangedError,
    CatalogError,
    LakeIndexError,
    TableNotFoundError,
    UsageError,
    first_line,
)
from lakeindex.options.sync_options import CatalogKind, SyncOptions
from lakeindex.storage.options import current_options

try:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
except ImportError as missing:
    raise UsageError(
        "a sync with Glue needs the package boto3", culprit="glue", hint="pip install 'lakeindex[glue]'"
    ) from missing

_CHANGES: Final = 100
_DELETES: Final = 25
_READS: Final = 1000
_ATTEMPTS: Final = 10
_DENIED: Final = frozenset(
    {"AccessDeniedException", "AccessDenied", "UnrecognizedClientException", "ExpiredTokenException"}
)
_CHANGED: Final = frozenset({"ConcurrentModificationException", "VersionMismatchException", "AlreadyExistsException"})
_MISSING: Final = "EntityNotFoundException"
_THERE: Final = "AlreadyExistsException"


def glue_catalog(options: SyncOptions) -> GlueCatalog:
    """Glue as options, the store's options and the environment say where it is."""
    given = current_options()
    retries: dict[str, Any] = {}
    if not {"AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS"} & os.environ.keys():
        retries = {"retries": {"mode": "standard", "total_max_attempts": _ATTEMPTS}}
    region = (
        options.glue_region
        or given.get("aws_region")
        or given.get("aws_default_region")
        or os.environ.get("AWS_REGION")
    )
    try:
        client = boto3.client(
            "glue",
            region_name=region,
            endpoint_url=options.glue_endpoint,
            aws_access_key_id=given.get("aws_access_key_id"),
            aws_secret_access_key=given.get("aws_secret_access_key"),
            aws_session_token=given.get("aws_session_token"),
            config=Config(user_agent_extra="lakeindex", **retries),
        )
    except (BotoCoreError, ValueError) as error:
        raise CatalogError(
            f"there is no way to Glue: {first_line(error)}",
            culprit="glue",
            hint="set AWS_REGION, or hoodie.aws.glue.region",
        ) from error
    return GlueCatalog(client, skip_archive=options.skip_archive)


class GlueCatalog:
    """A :class:`lakeindex.catalogs.catalog.Catalog`.

    Args:
        client: boto3's.
        skip_archive: keep no old versions of entries.
    """

    kind = CatalogKind.GLUE
    batch = _CHANGES
    page = _READS

    def __init__(self, client: Any, *, skip_archive: bool = True) -> None:
        self.requests = 0
        self._client = client
        self._skip_archive = skip_archive
        self._of_input = frozenset(client.meta.service_model.shape_for("TableInput").members)

    def close(self) -> None:
        self._client.close()

    def table(self, database: str, name: str) -> CatalogTable | None:
        try:
            return _table(self._call("GetTable", DatabaseName=database, Name=name)["Table"])
        except TableNotFoundError:
            return None

    def lineage_name(self, held: CatalogTable) -> tuple[str, str]:
        account = held.native.get("CatalogId", "")
        return f"arn:aws:glue:{self._client.meta.region_name}:{account}", f"table/{held.database}/{held.name}"

    def tables(self, database: str) -> Iterator[CatalogTable]:
        for page in self._pages("GetTables", DatabaseName=database):
            yield from map(_table, page["TableList"])

    def create_database(self, database: str) -> None:
        said = {"Name": database, "Description": "made by lakeindex"}
        try:
            self._call("CreateDatabase", DatabaseInput=said)
        except CatalogChangedError:
            return  # it is there

    def create_table(self, table: CatalogTable) -> None:
        self._call("CreateTable", DatabaseName=table.database, TableInput=_input(table, {}))

    def alter_table(self, held: CatalogTable, wanted: CatalogTable, *, cascade: bool) -> None:
        old = {key: value for key, value in held.native.items() if key in self._of_input}
        new = _input(wanted, old)
        if cascade:  # first: whoever comes after a kill sees by the table that it is to be done again
            for some in batches([*self.partitions(held)], _CHANGES):
                self._move(held, some, new["StorageDescriptor"])
        more = {} if held.version is None else {"VersionId": held.version}
        self._call("UpdateTable", DatabaseName=wanted.database, TableInput=new, SkipArchive=self._skip_archive, **more)

    def partitions(self, held: CatalogTable, *, columns: bool = False) -> Iterator[CatalogPartition]:
        asked = {"DatabaseName": held.database, "TableName": held.name, "ExcludeColumnSchema": not columns}
        for page in self._pages("GetPartitions", MaxResults=_READS, **asked):
            yield from map(_partition, page["Partitions"])

    def partitions_of(self, held: CatalogTable, values: Sequence[tuple[str, ...]]) -> Iterator[CatalogPartition]:
        asked = [{"Values": list(one)} for one in values]
        while asked:
            said = self._call(
                "BatchGetPartition", DatabaseName=held.database, TableName=held.name, PartitionsToGet=asked
            )
            yield from map(_partition, said.get("Partitions", ()))
            asked = said.get("UnprocessedKeys", [])

    def add_partitions(self, held: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        asked = [_partition_input(held.native["StorageDescriptor"], one) for one in partitions]
        said = self._call(
            "BatchCreatePartition", DatabaseName=held.database, TableName=held.name, PartitionInputList=asked
        )
        self._check("BatchCreatePartition", held, said.get("Errors", ()), passed=_THERE)

    def move_partitions(self, held: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        self._move(held, partitions, held.native["StorageDescriptor"])

    def drop_partitions(self, held: CatalogTable, values: Sequence[tuple[str, ...]]) -> None:
        for some in batches(values, _DELETES):
            asked = [{"Values": list(one)} for one in some]
            said = self._call(
                "BatchDeletePartition", DatabaseName=held.database, TableName=held.name, PartitionsToDelete=asked
            )
            self._check("BatchDeletePartition", held, said.get("Errors", ()), passed=_MISSING)

    def _move(self, held: CatalogTable, partitions: Sequence[CatalogPartition], descriptor: Mapping[str, Any]) -> None:
        asked = [
            {"PartitionValueList": list(one.values), "PartitionInput": _partition_input(descriptor, one)}
            for one in partitions
        ]
        said = self._call("BatchUpdatePartition", DatabaseName=held.database, TableName=held.name, Entries=asked)
        self._check("BatchUpdatePartition", held, said.get("Errors", ()), passed=_MISSING)

    def _pages(self, action: str, **asked: Any) -> Iterator[dict[str, Any]]:
        token: dict[str, Any] = {}
        while True:
            page = self._call(action, **asked, **token)
            yield page
            if not page.get("NextToken"):
                return
            token = {"NextToken": page["NextToken"]}

    def _call(self, action: str, **asked: Any) -> dict[str, Any]:
        self.requests += 1
        name = "".join(f"_{char.lower()}" if char.isupper() else char for char in action).lstrip("_")
        try:
            said: dict[str, Any] = getattr(self._client, name)(**asked)
        except ClientError as error:
            code, message = (error.response.get("Error", {}).get(key, "") for key in ("Code", "Message"))
            raise _error(action, str(code), str(message), asked) from error
        except NoCredentialsError as error:
            raise AccessDeniedError(
                f"Glue's {action} needs credentials: {first_line(error)}",
                culprit=f"glue:{action}",
                hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role",
            ) from error
        except BotoCoreError as error:
            raise CatalogError(
                f"Glue did not answer {action}: {first_line(error)}",
                culprit=f"glue:{action}",
                hint="the table is as it was; the next sync goes on",
            ) from error
        return said

    def _check(self, action: str, held: CatalogTable, errors: Sequence[Mapping[str, Any]], *, passed: str) -> None:
        """Raise what became of single partitions, those apart for whom there was nothing to do."""
        for one in errors:
            detail = one.get("ErrorDetail", {})
            if detail.get("ErrorCode") != passed:
                message = f"{one.get('PartitionValues') or one.get('PartitionValueList')}: {detail.get('ErrorMessage')}"
                asked = {"DatabaseName": held.database, "TableName": held.name}
                raise _error(action, str(detail.get("ErrorCode")), message, asked)


def _error(action: str, code: str, message: str, asked: Mapping[str, Any]) -> LakeIndexError:
    names = [asked.get("DatabaseName"), asked.get("TableName") or asked.get("Name")]
    names[1] = names[1] or asked.get("TableInput", {}).get("Name") or asked.get("DatabaseInput", {}).get("Name")
    where = ".".join(str(one) for one in names if one)
    if code in _DENIED:
        return AccessDeniedError(
            f"Glue refuses {action} of {where}: {message or code}",
            culprit=f"glue:{action}",
            hint=f"the role needs the permission glue:{action} on catalog, database and table; with Lake Formation, "
            "its grants, too",
        )
    if code == _MISSING:
        return TableNotFoundError(
            f"Glue knows no {where}: {message}",
            culprit=where,
            hint="hoodie.datasource.hive_sync.auto_create_database=true makes the database",
        )
    if code in _CHANGED:
        return CatalogChangedError(f"{where} in Glue is another by now: {message}", culprit=where, hint="sync again")
    return CatalogError(
        f"Glue refuses {action} of {where}: {code}: {message}", culprit=f"glue:{action}", hint="the table is as it was"
    )


def _table(said: Mapping[str, Any]) -> CatalogTable:
    descriptor = said.get("StorageDescriptor", {})
    serde = descriptor.get("SerdeInfo", {})
    return CatalogTable(
        database=said["DatabaseName"],
        name=said["Name"],
        location=descriptor.get("Location", ""),
        columns=tuple(map(_column, descriptor.get("Columns", ()))),
        partition_columns=tuple(map(_column, said.get("PartitionKeys", ()))),
        parameters=said.get("Parameters", {}),
        input_format=descriptor.get("InputFormat", ""),
        output_format=descriptor.get("OutputFormat", ""),
        serde=serde.get("SerializationLibrary", ""),
        serde_parameters=serde.get("Parameters", {}),
        table_type=said.get("TableType", ""),
        version=said.get("VersionId"),
        native=said,
    )


def _input(table: CatalogTable, old: Mapping[str, Any]) -> dict[str, Any]:
    """An entry as Glue takes it, with what else stands in the old one."""
    descriptor = dict(old.get("StorageDescriptor", {}))
    serde = {
        **descriptor.get("SerdeInfo", {}),
        "SerializationLibrary": table.serde,
        "Parameters": dict(table.serde_parameters),
    }
    descriptor |= {
        "Location": table.location,
        "Columns": [_said(one) for one in table.columns],
        "InputFormat": table.input_format,
        "OutputFormat": table.output_format,
        "SerdeInfo": serde,
    }
    return {
        **old,
        "Name": table.name,
        "TableType": table.table_type,
        "Parameters": dict(table.parameters),
        "PartitionKeys": [_said(one) for one in table.partition_columns],
        "StorageDescriptor": descriptor,
    }


def _column(said: Mapping[str, Any]) -> CatalogColumn:
    return CatalogColumn(said["Name"], said.get("Type", ""), said.get("Comment"))


def _said(column: CatalogColumn) -> dict[str, str]:
    comment = {} if column.comment is None else {"Comment": column.comment}
    return {"Name": column.name, "Type": column.kind, **comment}


def _partition(said: Mapping[str, Any]) -> CatalogPartition:
    descriptor = said.get("StorageDescriptor", {})
    columns = tuple(map(_column, descriptor["Columns"])) if descriptor.get("Columns") else None
    return CatalogPartition(tuple(said["Values"]), descriptor.get("Location", ""), columns)


def _partition_input(descriptor: Mapping[str, Any], one: CatalogPartition) -> dict[str, Any]:
    return {"Values": list(one.values), "StorageDescriptor": {**descriptor, "Location": one.location}}
