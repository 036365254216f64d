"""What a batch is, whatever its files are called and however its rows come: what its batch id stands for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.commit.run_records import RunIdentity
from lakeindex.errors import SchemaMismatchError
from lakeindex.hashing.batch_digest import NO_ROWS, BatchDigest, digest_batch
from lakeindex.pipeline import REASON
from lakeindex.run.checkpoints import Manifest
from lakeindex.run.spec import RunSpec, TableFacts
from lakeindex.stages.stage_input.input_pieces import read_pieces
from lakeindex.stages.stage_input.inputs import FoundInputs, Split, split_inputs
from lakeindex.stages.stage_input.text_files import without_bad_values
from lakeindex.tasks.memory_bound import current_share, piece_bytes
from lakeindex.tasks.runner import Runner, for_work, run_tasks
from lakeindex.write.types.avro_schema import DELETE_MARK
from lakeindex.write.types.schema_fit import FittedBatch, fit_batch

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


@dataclass(frozen=True, slots=True)
class DigestTask:
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
    return RunIdentity(spec.run_id, spec.batch_id, digest if rows is None else f"{digest} {rows}", (str(older),))
