"""What a batch is, whatever its files are called and however its rows come: what its batch id stands for."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.commit.run_records import RunIdentity
from lakeindex.errors import LakeIndexError
from lakeindex.hashing.batch_digest import NO_ROWS, BatchDigest, digest_batch
from lakeindex.pipeline import REASON
from lakeindex.run.checkpoints import Manifest
from lakeindex.run.spec import RunSpec, TableFacts
from lakeindex.stages.stage_input.inputs import content_digest, find_batch
from lakeindex.tasks.runner import Runner
from lakeindex.write.types.avro_schema import DELETE_MARK
from lakeindex.write.types.schema_fit import FittedBatch

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


def rows_fact(spec: RunSpec, facts: TableFacts, digest: BatchDigest) -> dict[str, str]:
    """What the manifest says of the rows. Of a partial update its columns count, too."""
    return {} if spec.batch_id == spec.run_id else {ROWS_FACT: digest.text(*(facts.given or ()))}


def identity_of(spec: RunSpec, staged: Manifest, runner: Runner) -> RunIdentity:
    """What the run commits: its batch, and digests of its content by this release's algorithms and the older ones."""
    digest, older = str(staged.facts["input_digest"]), staged.facts.get("older_digest")
    rows = staged.facts.get(ROWS_FACT)
    if older is not None:
        whole = digest if rows is None else f"{digest} {rows}"
        return RunIdentity(spec.run_id, spec.batch_id, whole, (str(older),))
    try:  # an older release staged it
        found = find_batch(spec.inputs, spec.config.input_format, spec.checkpoints_uri)
        content = content_digest(found, runner, spec.config)
    except LakeIndexError:
        return RunIdentity(spec.run_id, spec.batch_id, digest)
    return RunIdentity(spec.run_id, spec.batch_id, content, (digest,))
