"""The live files of an Iceberg table, read through PyIceberg, which knows columns by number and applies deletes."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from types import ModuleType
from typing import Any, Final

import pyarrow as pa

from lakeindex.errors import InputError, TableUnsupportedError, UsageError, first_line
from lakeindex.operations.importing.sources import ICEBERG_NAME, Source, SourceKind, columns_of, named_file
from lakeindex.stages.stage_input.inputs import InputFile, parquet_footers
from lakeindex.storage import in_parallel
from lakeindex.storage.paths import absolute, place_of_location
from lakeindex.tasks.stores import storage_at
from lakeindex.write.types.type_fit import decoded_type

_NUMBERED: Final = re.compile(r"(?:v?(\d+))?.*\.metadata\.json$")
_HINT_FILE: Final = "version-hint.text"


def newest_metadata(place: str) -> str | None:
    """The newest metadata file of a table's folder, as a folder without a catalog says it; None if there is none.

    Raises:
        UsageError: it does not say.
    """
    store = storage_at(posixpath.join(place, "metadata"))
    names = [one.path.rpartition("/")[2] for one in store.list_folder("").objects]
    found = [name for name in names if name.endswith(".metadata.json")]
    if not found:
        return None
    if _HINT_FILE in names:
        hint = store.read(_HINT_FILE).decode().strip()
        named = next((name for name in found if name in (f"v{hint}.metadata.json", hint)), None)
        if named is not None:
            return posixpath.join(place, "metadata", named)
    numbers = {name: int(match[1] or 0) for name in found if (match := _NUMBERED.match(name))}
    best = max(numbers.values(), default=0)
    newest = [name for name, number in numbers.items() if number == best]
    if len(newest) == 1:
        return posixpath.join(place, "metadata", newest[0])
    raise UsageError(
        f"{place} has {len(newest)} newest metadata files: {', '.join(sorted(newest)[:2])}",
        culprit=place,
        hint="which one counts, only the catalog knows: name the table (iceberg:CATALOG/NAMESPACE.TABLE) or the file",
    )


def open_iceberg(uri: str, like: pa.Schema | None, version: str | None, folder: str | None = None) -> Source:
    """An Iceberg table of a snapshot; the newest if none is named, with the columns that the table has now.

    Args:
        uri: a metadata file, or ``iceberg:CATALOG/NAMESPACE.TABLE``.
        version: number of a snapshot, and behind a slash that of the schema if that is not the snapshot's own: columns
            were renamed, dropped or added since.
        folder: what was named instead of the metadata file, of which there is another one after each commit.

    Raises:
        UsageError: its library is not installed, or the name is none.
        InputError: it cannot be read.
        TableUnsupportedError: it has equality deletes.
    """
    try:
        from pyiceberg import exceptions
        from pyiceberg.catalog import load_catalog
        from pyiceberg.table import StaticTable
    except ImportError:
        raise UsageError(
            f"{uri} is an Iceberg table, which is read with pyiceberg, and that is not installed",
            culprit=uri,
            hint="pip install 'lakeindex[iceberg]'",
        ) from None
    try:
        if uri.startswith(ICEBERG_NAME):
            catalog, _, name = uri.removeprefix(ICEBERG_NAME).partition("/")
            if not catalog or not name:
                raise UsageError(f"{uri!r} names no table", culprit=uri, hint="iceberg:CATALOG/NAMESPACE.TABLE")
            with closing(load_catalog(catalog)) as known:
                table: Any = known.load_table(name)
        else:
            table = StaticTable.from_metadata(absolute(uri))
        named = uri if uri.startswith(ICEBERG_NAME) else folder or absolute(uri)
        return _source_of(table, named, like, version)
    except exceptions.NotInstalledError as error:
        raise UsageError(
            f"pyiceberg needs another library for {uri}: {first_line(error)}", culprit=uri, hint="install it beside it"
        ) from error
    except (*_errors_of(exceptions), OSError, ValueError, pa.ArrowException) as error:
        raise InputError(
            f"the Iceberg table {uri} cannot be read: {first_line(error)}",
            culprit=uri,
            hint="look at it with pyiceberg; nothing was imported",
        ) from error


def _errors_of(module: ModuleType) -> tuple[type[Exception], ...]:
    """PyIceberg's errors, which have no class in common."""
    return tuple(one for one in vars(module).values() if isinstance(one, type) and issubclass(one, Exception))


def _source_of(table: Any, uri: str, like: pa.Schema | None, version: str | None) -> Source:
    now, (said, _, number) = table.current_snapshot(), (version or "").partition("/")
    snapshot = None if now is None else int(said) if said else now.snapshot_id
    scan = table.scan(snapshot_id=snapshot)
    its_own = scan.projection()
    projected = table.schema() if version is None else _numbered(table, number) if number else its_own
    changed = "" if projected.schema_id == its_own.schema_id else f"/{projected.schema_id}"
    columns = _plain(projected.as_arrow())
    tasks = [] if snapshot is None else list(scan.plan_files())
    _refuse(uri, tasks)
    paths = [task.file.file_path for task in tasks]
    task_of = dict(zip(in_parallel(uri, _file_of, paths), tasks, strict=True)) if paths else {}
    files = tuple(sorted(task_of))
    joined, casts = columns_of([columns], [uri], like)

    def rows(some: Sequence[InputFile], names: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        wanted = projected if names is None else projected.select(*names)
        reader = ArrowScan(table.metadata, table.io, wanted, AlwaysTrue())
        kinds = _plain(wanted.as_arrow())
        for file in some:
            for batch in reader.to_record_batches([task_of[file]]):
                yield pa.RecordBatch.from_arrays(
                    [batch.column(field.name).cast(field.type) for field in kinds], schema=kinds
                )

    partitions, notes = _partitions(table, projected)
    lies_plain = not any(task.delete_files for task in tasks) and _have_columns(files, projected)
    return Source(
        SourceKind.ICEBERG,
        uri,
        None if snapshot is None else f"{snapshot}{changed}",
        files,
        joined,
        partitions,
        casts,
        None if lies_plain else rows,
        notes,
    )


def _numbered(table: Any, number: str) -> Any:
    """The schema of a number. Raises: ValueError: it is gone."""
    found = table.schemas().get(int(number))
    if found is None:
        raise ValueError(f"its schema {number} is gone")
    return found


def _have_columns(files: Sequence[InputFile], projected: Any) -> bool:
    """Whether files have the table's columns and no others, and call them as it does, by number and type, so that they
    can be read as they lie.
    """
    wanted = {field.name: (_small(field.type), _numbers(field)) for field in projected.as_arrow()}
    for footer in parquet_footers(files).values() if files else ():
        there = {field.name: (_small(field.type), _numbers(field)) for field in footer.schema.to_arrow_schema()}
        if there != wanted:
            return False
    return True


def _numbers(field: pa.Field) -> list[bytes | None]:
    """The number of a column and of all that is in it: a name may have come back as another column."""
    kind = field.type
    inner: list[pa.Field] = []
    if pa.types.is_map(kind):
        inner = [kind.key_field, kind.item_field]
    elif pa.types.is_nested(kind):
        inner = [kind.field(number) for number in range(kind.num_fields)]
    return [(field.metadata or {}).get(b"PARQUET:field_id"), *(one for part in inner for one in _numbers(part))]


def _plain(schema: pa.Schema) -> pa.Schema:
    """Without the numbers of columns, and without Arrow's large types, in which PyIceberg states them."""
    return pa.schema([pa.field(field.name, _small(field.type), field.nullable) for field in schema])


def _small(kind: pa.DataType) -> pa.DataType:
    kind = decoded_type(kind)
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _small(one.type), one.nullable) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(_small(kind.key_type), pa.field("value", _small(kind.item_type), kind.item_field.nullable))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", _small(kind.value_type), kind.value_field.nullable))
    return kind


def _file_of(path: str) -> InputFile:
    return named_file(absolute(place_of_location(path)), "the Iceberg table")


def _refuse(uri: str, tasks: Sequence[Any]) -> None:
    from pyiceberg.manifest import DataFileContent, FileFormat

    for task in tasks:
        if task.file.file_format is not FileFormat.PARQUET:
            raise TableUnsupportedError(
                f"{task.file.file_path} of the Iceberg table {uri} is {task.file.file_format.name}, not Parquet",
                culprit=task.file.file_path,
                hint="rewrite_data_files in Spark writes Parquet; or read it with Spark and give the frame to "
                "bulk_insert",
            )
        for deleted in task.delete_files:
            if deleted.content is DataFileContent.EQUALITY_DELETES:
                raise TableUnsupportedError(
                    f"the Iceberg table {uri} has equality deletes: {deleted.file_path}",
                    culprit=deleted.file_path,
                    hint="rewrite_data_files in Spark (CALL system.rewrite_data_files) makes files without them",
                )


def _partitions(table: Any, schema: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns by whose values it is divided, as a schema calls them; and what is said of hidden ones."""
    from pyiceberg.transforms import IdentityTransform, VoidTransform

    plain, hidden = [], []
    for field in table.spec().fields:
        name = schema.find_column_name(field.source_id)
        if name is None:  # a column that came after the snapshot
            continue
        if isinstance(field.transform, IdentityTransform):
            plain.append(name)
        elif not isinstance(field.transform, VoidTransform):
            hidden.append(f"{field.transform}({name})")
    if not hidden:
        return tuple(plain), ()
    note = (
        f"the Iceberg table is divided by {', '.join(hidden)}, which Hudi has no hidden partitions for: "
        "name a column, of a date or timestamp also by year, month, day or hour: --partition ts:day"
    )
    return tuple(plain), (note,)
