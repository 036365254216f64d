"""The columns that a batch has, read from its files before any row is, and what the table's become by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Final

import pyarrow as pa

from lakeindex.model import Operation
from lakeindex.options.types import InputFormat, SchemaMode, WriteConfig
from lakeindex.run.spec import RunSpec, TableFacts
from lakeindex.stages.stage_input.input_pieces import read_columns
from lakeindex.stages.stage_input.inputs import InputFile
from lakeindex.tasks.runner import Runner, for_work, run_tasks
from lakeindex.write.types.avro_schema import schema_from_avro, schema_to_avro
from lakeindex.write.types.evolution import evolved

BATCH_COLUMNS: Final = "batch_columns"
"""What the manifest calls the columns of the batch: Avro text, in the types that they have in the table."""
_FOOTER_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class ColumnsTask:
    """Read the columns of one file."""

    file: InputFile
    schema: pa.Schema
    wanted: InputFormat


def columns_task(task: ColumnsTask) -> pa.Schema:
    """Columns of a file. Raises: InputError: it cannot be read."""
    return read_columns(task.file, task.schema, task.wanted)


def batch_columns(spec: RunSpec, facts: TableFacts, files: Sequence[InputFile], runner: Runner) -> pa.Schema | None:
    """The columns that at least one file of the batch has, in the types that they get in the table.

    Returns:
        None if the table's columns may not change: then nobody needs to know.

    Raises:
        InputError: a file cannot be read.
        SchemaMismatchError: a new column whose name or type a table cannot have.
    """
    config = spec.config
    if config.schema_mode is SchemaMode.STRICT or spec.operation is Operation.DELETE or spec.chosen is not None:
        return None
    tasks = [ColumnsTask(file, facts.schema, config.input_format) for file in files]
    runner = for_work(runner, len(files) * _FOOTER_BYTES, config)
    found = run_tasks(runner, columns_task, tasks, "stage input: columns of the batch")
    distinct = list(dict.fromkeys(found))
    whole = reduce(lambda schema, batch: _evolved(schema, batch, facts, config), distinct, facts.schema)
    named = {name for schema in distinct for name in schema.names}
    return pa.schema([field for field in whole if field.name in named])


def columns_text(columns: pa.Schema | None, facts: TableFacts) -> dict[str, str]:
    """What the manifest says of them."""
    return {} if columns is None else {BATCH_COLUMNS: schema_to_avro(columns, facts.name)}


def with_columns(facts: TableFacts, columns: pa.Schema | None, config: WriteConfig) -> TableFacts:
    """What tasks know of the table once the batch is in it."""
    if columns is None:
        return facts
    before = facts.before or facts.schema
    schema = _evolved(before, columns, facts, config)
    return replace(facts, schema=schema, before=None if schema.equals(before) else before)


def may_lack(facts: TableFacts, config: WriteConfig) -> frozenset[str]:
    """Columns that a file of the batch need not have: those that another file of it brings;
    on request all that can be null and decide nothing.
    """
    if config.null_for_missing:
        deciding = {*facts.keys.columns, *facts.event_time_fields}
        return frozenset(field.name for field in facts.schema if field.nullable and field.name not in deciding)
    return frozenset() if facts.before is None else frozenset(facts.schema.names) - frozenset(facts.before.names)


def with_columns_of(facts: TableFacts, staged: Mapping[str, Any], config: WriteConfig) -> TableFacts:
    """The same, of a batch that is staged, by its manifest's facts."""
    text = staged.get(BATCH_COLUMNS)
    return with_columns(facts, None if text is None else schema_from_avro(text), config)


def _evolved(schema: pa.Schema, batch: pa.Schema, facts: TableFacts, config: WriteConfig) -> pa.Schema:
    return evolved(schema, batch, config.schema_mode, facts.keys.columns)
