"""The columns that a batch has, read from its files before any row is, and what the table's become by them; and what a
batch is, whatever its files are called and however its rows come: what its batch id stands for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from lakeindex.commit.run_records import RunIdentity
from lakeindex.errors import InputError, OptionError, SchemaMismatchError
from lakeindex.frozen import Frozen
from lakeindex.hashing.batch_digest import NO_ROWS, BatchDigest, digest_batch
from lakeindex.model import Operation
from lakeindex.options.option import MERGE_OPTION, NULL_FOR_MISSING_OPTION, PARTIAL_OPTION
from lakeindex.options.types import CsvFormat, InputFormat, PartialUpdate, SchemaMode, WriteConfig
from lakeindex.pipeline import REASON
from lakeindex.run.checkpoints import Manifest
from lakeindex.run.spec import RunSpec, TableFacts
from lakeindex.stages.stage_input.input_pieces import read_columns, read_pieces
from lakeindex.stages.stage_input.inputs import FoundInputs, InputFile, Split, format_of, split_inputs
from lakeindex.stages.stage_input.text_files import without_bad_values
from lakeindex.tasks.memory_bound import current_share, piece_bytes
from lakeindex.tasks.runner import Runner, for_work, run_tasks
from lakeindex.write.types.avro_schema import DELETE_MARK, META_COLUMNS, schema_from_avro, schema_to_avro
from lakeindex.write.types.schema_fit import FittedBatch, evolved, fit_batch, refuse_feed

BATCH_COLUMNS: Final = "batch_columns"
"""What the manifest calls the columns of the batch: Avro text, in the types that they have in the table."""
_FOOTER_BYTES: Final = 256 * 1024


class ColumnsTask(Frozen):
    """Read the columns of one file."""

    file: InputFile
    schema: pa.Schema
    wanted: InputFormat
    csv: CsvFormat


def columns_task(task: ColumnsTask) -> pa.Schema:
    """Columns of a file. Raises: InputError: it cannot be read."""
    return read_columns(task.file, task.schema, task.wanted, task.csv)


def batch_columns(spec: RunSpec, facts: TableFacts, files: Sequence[InputFile], runner: Runner) -> pa.Schema | None:
    """The columns that at least one file of the batch has, in the types that they get in the table.

    Returns:
        None if the table's columns may not change, and none may be left out: then nobody needs to know.

    Raises:
        InputError: a file cannot be read, or does not say which columns it updates.
        OptionError: an operation that updates nothing cannot be partial.
        SchemaMismatchError: a new column whose name or type a table cannot have.
    """
    config = spec.config
    partial = config.partial_update
    function = spec.merge_function
    updates_whole = spec.operation not in (Operation.UPSERT, Operation.DELETE) or spec.change is not None
    what = spec.change or spec.operation
    if function is not None and partial is not PartialUpdate.OFF:
        raise OptionError(
            f"merge function {function.name} gets whole rows, and {PARTIAL_OPTION}={partial} lets a batch lack columns",
            culprit=PARTIAL_OPTION,
            hint=f"leave it out: with {NULL_FOR_MISSING_OPTION}=true the function gets nulls",
        )
    if config.merge_function is not None and updates_whole:
        raise OptionError(
            f"option {MERGE_OPTION} cannot be {config.merge_function!r} for {what}: it is for upserts of a batch",
            culprit=MERGE_OPTION,
            hint="leave it out",
        )
    if partial is not PartialUpdate.OFF and updates_whole:
        raise OptionError(
            f"option {PARTIAL_OPTION} cannot be {str(partial)!r} for {what}, which stores whole rows",
            culprit=PARTIAL_OPTION,
            hint=f"leave it out; {NULL_FOR_MISSING_OPTION}=true makes columns null that a batch lacks",
        )
    is_whole = config.schema_mode is SchemaMode.STRICT and partial is PartialUpdate.OFF
    if is_whole or spec.operation is Operation.DELETE or spec.chosen is not None:
        return None
    tasks = [ColumnsTask(file, facts.schema, config.input_format, config.csv) for file in files]
    runner = for_work(runner, len(files) * _FOOTER_BYTES, config)
    found = run_tasks(runner, columns_task, tasks, "stage input: columns of the batch")
    distinct = list(dict.fromkeys(found))
    refuse_feed({name for schema in distinct for name in schema.names} - set(facts.schema.names))
    whole = reduce(lambda schema, batch: _evolved(schema, batch, facts, config), distinct, facts.schema)
    named = {name for schema in distinct for name in schema.names}
    if partial is PartialUpdate.OVERWRITE:
        _check_same_columns(files, found, named, config)
    return pa.schema([field for field in whole if field.name in named])


def _check_same_columns(
    files: Sequence[InputFile], found: Sequence[pa.Schema], named: Collection[str], config: WriteConfig
) -> None:
    """Each file says which columns its rows update, and they are the same. Raises: InputError."""
    hint = (
        f"make a batch of each set of columns, or give {PARTIAL_OPTION}={PartialUpdate.KEEP}: nulls keep what is stored"
    )
    for file, columns in zip(files, found, strict=True):
        if format_of(file, config.input_format) is InputFormat.JSON:
            raise InputError(
                f"{file.display!r} is JSON, where a field that a line lacks cannot be told from a null one, "
                f"and {PARTIAL_OPTION}={PartialUpdate.OVERWRITE} would store nulls",
                culprit=file.display,
                hint=f"give {PARTIAL_OPTION}={PartialUpdate.KEEP}, or the batch as Parquet",
            )
        lacking = sorted(set(named) - {*columns.names, *META_COLUMNS, DELETE_MARK})
        if lacking:
            raise SchemaMismatchError(
                f"{file.display!r} lacks column {lacking[0]!r}, which other files of the batch have",
                culprit=file.display,
                hint=hint,
            )


def batch_pieces(
    spec: RunSpec, facts: TableFacts, split: Split, limit: int, content: bytes | None
) -> Iterator[pa.Table]:
    """The pieces of a split, as of :func:`read_pieces`. To a delete, columns that are not the key's do not matter."""
    config, keys_only = spec.config, spec.operation is Operation.DELETE
    schema = facts.schema
    if keys_only:
        schema = pa.schema([field for field in schema if field.name in facts.keys.columns])
    return read_pieces(split, schema, config.input_format, limit, content, config.csv, known_only=keys_only)


def columns_text(columns: pa.Schema | None, facts: TableFacts) -> dict[str, str]:
    """What the manifest says of them."""
    return {} if columns is None else {BATCH_COLUMNS: schema_to_avro(columns, facts.name)}


def with_columns(facts: TableFacts, columns: pa.Schema | None, config: WriteConfig) -> TableFacts:
    """What tasks know of the table once the batch is in it."""
    if columns is None:
        return facts
    before = facts.before or facts.schema
    schema = _evolved(before, columns, facts, config)
    given = None
    if config.partial_update is not PartialUpdate.OFF:
        wanted = facts.deciding.union(columns.names)
        given = tuple(name for name in schema.names if name in wanted)
    keep = config.partial_update is PartialUpdate.KEEP
    changed = None if schema.equals(before) else before
    return replace(facts, schema=schema, before=changed, given=given, nulls_keep=keep)


def may_lack(facts: TableFacts, config: WriteConfig) -> frozenset[str]:
    """Columns that a file of the batch need not have: those that another file of it brings;
    on request all that can be null and decide nothing.
    """
    if config.null_for_missing:
        return frozenset(field.name for field in facts.schema if field.nullable) - facts.deciding
    if facts.nulls_keep:
        return facts.filled
    return frozenset() if facts.before is None else frozenset(facts.schema.names) - frozenset(facts.before.names)


def columns_to_stage(facts: TableFacts) -> pa.Schema:
    """The columns that rows of the batch are fitted to; where nulls keep what is stored, none is too many."""
    filled = facts.filled
    return pa.schema([field.with_nullable(True) if field.name in filled else field for field in facts.staged])


def with_columns_of(facts: TableFacts, staged: Mapping[str, Any], config: WriteConfig) -> TableFacts:
    """The same, of a batch that is staged, by its manifest's facts."""
    text = staged.get(BATCH_COLUMNS)
    return with_columns(facts, None if text is None else schema_from_avro(text), config)


def _evolved(schema: pa.Schema, batch: pa.Schema, facts: TableFacts, config: WriteConfig) -> pa.Schema:
    return evolved(schema, batch, config.schema_mode, facts.keys.columns)


ROWS_FACT = "rows_digest"
"""What the manifest calls the digest of the batch's rows; not there if nobody asks for it by a batch id."""


def rows_digest(spec: RunSpec, fitted: FittedBatch, bad_values: pa.Array) -> BatchDigest:
    """The digest of a piece's rows, as the table's columns have them; of no rows if the batch has no id of its own."""
    if spec.batch_id == spec.run_id:
        return NO_ROWS
    rows = fitted.columns
    if pc.any(fitted.deleted).as_py():
        rows = rows.append_column(DELETE_MARK, pc.if_else(fitted.deleted, fitted.deleted, pa.scalar(None, pa.bool_())))
    if bad_values.null_count < len(bad_values):
        rows = rows.append_column(REASON, bad_values)
    return digest_batch(rows)


class DigestTask(Frozen):
    """Digest the rows of a split, which are not staged yet."""

    spec: RunSpec
    facts: TableFacts
    split: Split


def digest_split(task: DigestTask) -> BatchDigest | None:
    """The digest of a split's rows; None if they do not fit the table's columns."""
    total, config = NO_ROWS, task.spec.config
    limit = piece_bytes(current_share())
    for piece in read_pieces(task.split, task.facts.schema, config.input_format, limit, csv=config.csv):
        batch, bad_values = without_bad_values(piece, task.split.file, 0)
        try:
            fitted = fit_batch(batch, task.facts.schema, may_lack=frozenset(task.facts.schema.names))
        except SchemaMismatchError:
            return None
        total = total.followed_by(rows_digest(task.spec, fitted, bad_values))
    return total


def digest_input(spec: RunSpec, facts: TableFacts, found: FoundInputs, runner: Runner) -> str | None:
    """The digest of rows that are not staged yet; None if nobody asks for it, or they do not fit."""
    if spec.batch_id == spec.run_id:
        return None
    splits = split_inputs(found.files, spec.config.input_format)
    runner = for_work(runner, sum(split.bytes for split in splits), spec.config)
    tasks = [DigestTask(spec, facts, split) for split in splits]
    digests = run_tasks(runner, digest_split, tasks, "stage input: digest of the rows")
    known = [one for one in digests if one is not None]
    return reduce(BatchDigest.followed_by, known, NO_ROWS).text() if len(known) == len(digests) else None


def rows_fact(spec: RunSpec, facts: TableFacts, digest: BatchDigest) -> dict[str, str]:
    """What the manifest says of the rows. Of a partial update its columns count, too."""
    return {} if spec.batch_id == spec.run_id else {ROWS_FACT: digest.text(*(facts.given or ()))}


def identity_of(spec: RunSpec, staged: Manifest) -> RunIdentity:
    """What the run commits: its batch, and digests of its content by this release's algorithms and the older ones."""
    digest, older = str(staged.facts["input_digest"]), staged.facts["older_digest"]
    rows = staged.facts.get(ROWS_FACT)
    told = digest if rows is None else f"{digest} {rows}"
    return RunIdentity(spec.run_id, spec.batch_id, told, (str(older),), str(spec.operation))
