"""Tables and half-finished runs in tests/vectors/older, as lakeindex wrote them at the last commit that the README there names
(this file as it was at the one before wrote the others).

    git worktree add ../then COMMIT        # the code to keep a trace of
    PYTHONPATH=../then/lib:. python tests/vectors/recipes/older_tables.py /lake/older
    python tests/vectors/recipes/pack_older.py /lake/older

The folder's path stands in clean plans, rollbacks and reports: /lake/older is nobody's. So is the host's name.

One folder a fixture: `table`, its run folders `table.lakeindex`, the batches `in/*.parquet`, and `story.json`: what was done,
the rows that the table holds now, and for a killed run the arguments of its retry and the rows that must be there afterwards.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.api.table import LakeTable
from lakeindex.pipeline import run_id_of
from lakeindex.options.parse import parse_create_options
from lakeindex.model import Operation
from lakeindex.pipeline import Stage
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.run.spec import RunSpec
from lakeindex.conductor.upsert import run_batch, run_stage
from lakeindex.storage import open_storage
from lakeindex.table import host
from lakeindex.commit import session as commit
from lakeindex.table.create import create_table
from lakeindex.table.create_spec import CreateSpec
from lakeindex.write.types.avro_schema import schema_to_avro

SCHEMA = pa.schema([pa.field("id", pa.string(), False), ("day", pa.string()), ("ts", pa.int64()), ("v", pa.string())])
TABLES = {
    "bloom_6": {"hoodie.write.table.version": "6"},
    "record_9": {"hoodie.write.table.version": "9", "hoodie.index.type": "RECORD_INDEX"},
}
KILLED = ("planned",)
host._host_name = lambda: "host-of-then:boot:pid"


def batch(numbers, ts, deleted=()):
    """Rows of keys; a key stays in its partition."""
    return pa.table(
        {
            "id": [f"k{n:04d}" for n in numbers],
            "day": [f"d{n % 3}" for n in numbers],
            "ts": pa.array([ts] * len(numbers), pa.int64()),
            "v": [f"{ts}-{n}" for n in numbers],
            "_hoodie_is_deleted": [n in deleted for n in numbers],
        }
    )


class Story:
    """A table, its batches, and a dictionary that says what it holds."""

    def __init__(self, folder, options):
        self.folder, self.rows, self.batches = folder, {}, {}
        (folder / "in").mkdir(parents=True)
        (folder / "table").mkdir()
        config = parse_create_options(options)
        spec = CreateSpec("table", SCHEMA.names, ("id",), ("day",), ("ts",), config, schema_to_avro(SCHEMA, "table"))
        create_table(open_storage(str(folder / "table")), spec)
        self.table = LakeTable(str(folder / "table"))

    def write(self, batch_id, rows):
        """Put a batch into its file; it is not upserted yet."""
        path = self.folder / "in" / f"{batch_id}.parquet"
        pq.write_table(rows, path)
        self.batches[batch_id] = path
        return path

    def upsert(self, batch_id, rows):
        summary = self.table.upsert(str(self.write(batch_id, rows)), batch_id=batch_id, options={"lakeindex.parquet.row.group.rows": "100"})
        self.apply(rows)
        return summary.instant

    def apply(self, rows):
        for row in rows.to_pylist():
            if row.pop("_hoodie_is_deleted"):
                self.rows.pop(row["id"], None)
            else:
                self.rows[row["id"]] = row

    def close(self, **more):
        told = {"rows": sorted(self.rows.values(), key=lambda r: r["id"]), "committed": list(self.batches), **more}
        (self.folder / "story.json").write_text(json.dumps(told, indent=1, sort_keys=True))


def whole(folder, options):
    """Upserts, deletes, a rollback, a clean, an archiving."""
    story = Story(folder, options)
    if options["hoodie.write.table.version"] == "9":
        story.table.metadata_build(["column_stats", "record_index"])
    story.upsert("b1", batch(range(240), 1))
    story.upsert("b2", batch([*range(0, 60), *range(240, 260)], 2, deleted=range(50, 60)))
    story.table.delete(pa.table({"id": ["k0070", "k0071"], "day": ["d1", "d2"]}), batch_id="gone")
    for n in (70, 71):
        del story.rows[f"k{n:04d}"]
    before = dict(story.rows)
    taken_back = story.upsert("b3", batch(range(100, 120), 3))
    story.table.rollback(taken_back)
    story.rows = before
    del story.batches["b3"]
    for n in range(4, 9):
        story.upsert(f"b{n}", batch(range(10 * n, 10 * n + 8), n))
    keep = {"hoodie.cleaner.commits.retained": "2", "hoodie.keep.min.commits": "3"}
    story.table.clean(2)
    story.table.archive(3, options=keep)
    shutil.rmtree(folder / "table.lakeindex")  # it names the files of /lake/older
    story.close(rolled_back="b3")


def killed(folder, state):
    """A table with two commits, and a third run that was killed."""
    story = Story(folder, {})
    story.upsert("b1", batch(range(60), 1))
    story.upsert("b2", batch(range(0, 60, 5), 2, deleted=[10]))
    rows = batch([*range(0, 20), *range(60, 70)], 3, deleted=[3])
    path = story.write("b3", rows)
    done = subprocess.run([sys.executable, __file__, "--kill", state, str(folder)], check=False)
    assert done.returncode == 9, done.returncode
    del story.batches["b3"]
    now = sorted(story.rows.values(), key=lambda r: r["id"])
    story.apply(rows)
    told = {"batch_id": "b3", "input": path.name, "run_id": run_id_of("b3"), "state": state}
    after = sorted(story.rows.values(), key=lambda r: r["id"])
    story.rows = {row["id"]: row for row in now}
    story.close(killed=told, rows_after=after)


def kill_at(state, folder):
    """In a process of its own: run the batch up to a point, and die there as a kill would have it."""
    spec = RunSpec(
        table_uri=f"{folder}/table", checkpoints_uri=f"{folder}/table.lakeindex", run_id=run_id_of("b3"), batch_id="b3",
        operation=Operation.UPSERT, inputs=(f"{folder}/in/b3.parquet",),
    )
    runner = LocalRunner(2)
    if state in {"planned", "committed"}:
        where = "publish" if state == "planned" else "_follow"
        setattr(commit.WriteSession, where, lambda *_args, **_kwargs: os._exit(9))
        run_batch(spec, runner)
    for stage in Stage:
        run_stage(stage, spec, runner)
        if stage == state:
            os._exit(9)


def main():
    if sys.argv[1] == "--kill":
        kill_at(*sys.argv[2:])
    out = Path(sys.argv[1]).resolve()
    shutil.rmtree(out, ignore_errors=True)
    for name, options in TABLES.items():
        whole(out / name, options)
    for state in KILLED:
        killed(out / f"{state}_6", state)


if __name__ == "__main__":
    main()
