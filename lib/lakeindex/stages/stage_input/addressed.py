"""Which batches stay in their files: of the rows of a load only keys and addresses are staged.

A load puts all rows into new files, so each is needed once, when its file is made, and need not be copied before. The
batch must be Parquet files of this machine, which the process that staged it writes, too. Where the footers tell that
no value can be wrong, nothing but the columns that keys are made of is read in stage 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.frozen import Frozen
from lakeindex.model import Operation
from lakeindex.options.option import CONDITION_OPTIONS
from lakeindex.options.types import InputFormat
from lakeindex.pipeline import STAGED_KEY, Stage
from lakeindex.run.checkpoints import Part
from lakeindex.run.input_rows import (
    ADDRESS_SHIFT,
    OF_VIEWS,
    InputRows,
    KeyedFile,
    RowGroup,
    check_values,
    repeated_text,
)
from lakeindex.run.spec import RunSpec, TableFacts, run_folder
from lakeindex.stages.stage_input.batch_columns import columns_to_stage, may_lack
from lakeindex.stages.stage_input.inputs import FoundInputs, Split, format_of, parquet_footers, unreadable
from lakeindex.stages.stage_input.staged_rows import column_bytes, combining_of
from lakeindex.storage import is_on_this_machine
from lakeindex.write.base_file import dictionaries_for
from lakeindex.write.keys.key_generators import KeyGenerator
from lakeindex.write.types.avro_schema import DELETE_MARK, META_COLUMNS
from lakeindex.write.types.schema_fit import fit_batch
from lakeindex.write.types.type_fit import decoded_type

LEAST_BYTES: Final = 16 * 1024 * 1024
"""Smaller batches are staged as they are: their rows are in memory anyway."""
_SAME_TEXTS: Final = {**OF_VIEWS, pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
"""Types of which no value changes in the table's."""
_SAMPLES: Final = 8
_SAMPLE_ROWS: Final = 2048
_LOADS: Final = (
    Operation.UPSERT,
    Operation.INSERT,
    Operation.BULK_INSERT,
    Operation.INSERT_OVERWRITE,
    Operation.INSERT_OVERWRITE_TABLE,
)


class Addressed(Frozen):
    """A batch that stays in its files.

    Attributes:
        part: the checkpoint that says where its rows are.
        rows: how many there are.
        columns: what has to be read to key it; None: all of its columns.
        decoded_bytes: of a row in memory, about.
        column_bytes: of a row in a base file, about: its columns and its key.
        key_bytes: of a record key.
    """

    part: Part
    rows: int
    columns: tuple[str, ...] | None
    decoded_bytes: float
    column_bytes: float
    key_bytes: float


def addressed(spec: RunSpec, facts: TableFacts, found: FoundInputs, splits: Sequence[Split]) -> Addressed | None:
    """The batch as one that stays in its files; None if its rows have to be staged.

    Raises:
        InputError: a file cannot be read.
        SchemaMismatchError: its columns are not the table's.
    """
    if not _may_stay(spec, facts, splits):
        return None
    by_file = parquet_footers(found.files)
    footers = [by_file[file] for file in found.files]
    numbers = {file: number for number, file in enumerate(found.files)}
    groups = []
    for ordinal, split in enumerate(splits):
        footer = footers[numbers[split.file]]
        address = ordinal << ADDRESS_SHIFT
        for group in range(split.first_row_group, split.last_row_group or footer.num_row_groups):
            rows = footer.row_group(group).num_rows
            if rows:
                groups.append(RowGroup(numbers[split.file], group, address, rows))
            address += rows
    if not groups:
        return None
    files = tuple(
        KeyedFile(f.root, f.path, f.size_bytes, f.etag, mark, f.constants)
        for f, mark in zip(found.files, found.marks, strict=True)
    )
    sample = _sample(spec, facts, [(files[group.file], footers[group.file], group) for group in groups])
    widths = {name: sample.column(name).nbytes / sample.num_rows for name in sample.column_names}
    rows_of_batch = InputRows(files, tuple(groups), facts.schema, widths)
    folder = run_folder(spec)
    total = sum(group.rows for group in groups)
    path = f"{folder.new_attempt(Stage.STAGE_INPUT)}/input.json"
    return Addressed(
        folder.write_bytes(path, rows_of_batch.to_bytes(), total),
        total,
        _key_columns(facts) if all(map(partial(_tells_all, spec, facts), footers, files)) else None,
        sum(widths.values()),
        column_bytes(sample, facts, spec.config, dictionaries_for(sample)) / sample.num_rows,
        widths[STAGED_KEY],
    )


def _may_stay(spec: RunSpec, facts: TableFacts, splits: Sequence[Split]) -> bool:
    config = spec.config
    is_plain = spec.chosen is None and spec.feed is None and facts.given is None
    return (
        spec.operation in _LOADS
        and is_plain
        and not combining_of(spec, facts).looks_at_all
        and all(getattr(config, name) is None for name in CONDITION_OPTIONS)
        and sum(split.bytes for split in splits) >= LEAST_BYTES
        and all(format_of(split.file, config.input_format) is InputFormat.PARQUET for split in splits)
        and all(is_on_this_machine(split.file.root) for split in splits)
    )


def _key_columns(facts: TableFacts) -> tuple[str, ...]:
    """Columns that decide of a row's key and which row of a key wins."""
    wanted = {*facts.keys.columns, *facts.event_time_fields}
    return tuple(name for name in facts.schema.names if name in wanted)


def _tells_all(spec: RunSpec, facts: TableFacts, footer: pq.FileMetaData, file: KeyedFile) -> bool:
    """Whether the columns that are no part of a key need not be looked at: each is there once, they are all the
    table's, have its types, and nulls only where these may be; and nobody asks for a digest of the rows.
    """
    columns = [field for field in footer.schema.to_arrow_schema() if field.name not in META_COLUMNS]
    kinds = {field.name: field.type for field in columns}
    if len(kinds) < len(columns) or not kinds.keys() <= frozenset(facts.schema.names):
        return False
    if spec.batch_id != spec.run_id or facts.delete_mark is not None or DELETE_MARK in kinds:
        return False
    constant = {name: text for name, text in file.constants if name not in kinds}
    if any(name not in kinds and name not in constant for name in facts.schema.names):
        return False
    leaves = {footer.schema.column(n).path: n for n in range(footer.num_columns)}
    for field in facts.schema:
        if field.name in constant:
            if constant[field.name] is None and not field.nullable:
                return False
            continue
        kind = kinds[field.name]
        if pa.types.is_nested(field.type) or _SAME_TEXTS.get(kind, decoded_type(kind)) != field.type:
            return False
        if not field.nullable and not _has_no_null(footer, leaves[field.name]):
            return False
    return True


def _has_no_null(footer: pq.FileMetaData, place: int) -> bool:
    if footer.schema.column(place).max_definition_level == 0:
        return True
    facts = (footer.row_group(group).column(place).statistics for group in range(footer.num_row_groups))
    return all(f is not None and f.has_null_count and f.null_count == 0 for f in facts)


def _sample(
    spec: RunSpec, facts: TableFacts, groups: Sequence[tuple[KeyedFile, pq.FileMetaData, RowGroup]]
) -> pa.Table:
    """The first rows of some row groups: record key and the table's columns."""
    keys, wanted = KeyGenerator(facts.keys), columns_to_stage(facts)
    tables = []
    for place in dict.fromkeys(len(groups) * n // _SAMPLES for n in range(_SAMPLES)):
        file, footer, group = groups[place]
        try:
            reader = file.reader(metadata=footer)
            batches = reader.iter_batches(_SAMPLE_ROWS, row_groups=[group.number], use_threads=False)
            batch = pa.Table.from_batches([next(batches)])
            check_values(batch)
            lacking = frozenset(wanted.names) - frozenset(batch.column_names)
            for name, text in file.constants:
                if name in lacking:
                    batch = batch.append_column(name, repeated_text(text, wanted.field(name).type, batch.num_rows))
        except (pa.ArrowException, OSError) as error:
            raise unreadable(file, error) from error
        rows = fit_batch(
            batch,
            wanted,
            may_lack=may_lack(facts, spec.config),
            stored=facts.before or facts.schema,
            delete_mark=facts.delete_mark,
        ).columns
        tables.append(rows.append_column(STAGED_KEY, keys.keys_of(rows).record_key))
    return pa.concat_tables(tables)
