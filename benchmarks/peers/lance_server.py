"""Lance in the benchmark's own environment (``.bench/venv``). :mod:`benchmarks.peers.remote` is the client."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Request = dict[str, Any]


def _compressed(schema: pa.Schema, request: Request) -> pa.Schema:
    """The schema with the codec and level of all engines; this environment cannot import them."""
    how = {"lance-encoding:compression": request["codec"], "lance-encoding:compression-level": str(request["level"])}
    return pa.schema([field.with_metadata(how) for field in schema])


def load(request: Request) -> None:
    """A fragment a file, then a BTREE over the keys."""
    files: list[str] = request["paths"]
    schema = _compressed(pq.read_schema(files[0]), request)

    def batches() -> Iterator[pa.RecordBatch]:
        for path in files:
            yield from pq.read_table(path).cast(schema).to_batches()

    rows = pq.read_metadata(files[0]).num_rows
    reader = pa.RecordBatchReader.from_batches(schema, batches())
    dataset = lance.write_dataset(reader, request["table"], max_rows_per_file=rows)
    dataset.create_scalar_index("id", "BTREE")


def upsert(request: Request) -> None:
    dataset = lance.dataset(request["table"])
    rows = pq.read_table(request["batch"]).cast(dataset.schema)
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)


def totals(request: Request) -> list[int]:
    rows = lance.dataset(request["table"]).to_table(columns=["id", "ts", "n1"])
    sums = [pc.sum(rows[name]).as_py() for name in ("ts", "n1")]
    return [rows.num_rows, pc.count_distinct(rows["id"]).as_py(), *sums]


def main() -> None:
    """Answer until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(answer: Request) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    operations: dict[str, Callable[[Request], object]] = {"load": load, "upsert": upsert, "totals": totals}
    say({"ok": True, "result": None})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            say({"ok": True, "result": operations[request["op"]](request)})
        except Exception as error:  # noqa: BLE001 - the other end raises it again
            say({"ok": False, "error": f"{type(error).__name__}: {error}"[:4000]})


if __name__ == "__main__":
    main()
