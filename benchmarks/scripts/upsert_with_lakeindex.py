"""The same with lakeindex: ``upsert_with_lakeindex.py TABLE BATCH``."""

import sys

import lakeindex

table, batch = sys.argv[1:]
lakeindex.open_table(table).upsert(batch)
