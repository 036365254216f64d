"""A user's script that upserts with delta-rs: ``upsert_with_delta.py TABLE BATCH``."""

import sys

import pyarrow.parquet as pq
from deltalake import DeltaTable

table, batch = sys.argv[1:]
rows = pq.read_table(batch)
days = ",".join(f"'{day}'" for day in rows["day"].unique().to_pylist())
merger = DeltaTable(table).merge(
    source=rows,
    predicate=f"t.id = s.id AND t.day = s.day AND t.day IN ({days})",
    source_alias="s",
    target_alias="t",
)
merger.when_matched_update_all().when_not_matched_insert_all().execute()
