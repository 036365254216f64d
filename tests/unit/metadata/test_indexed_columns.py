"""Which columns have statistics in the metadata table."""

import json

import pyarrow as pa

from lakeindex.metadata.indexed_columns import (
    StatsEncoding,
    columns_to_index,
    indexed_columns,
    with_definition,
    with_new_columns,
)


def test_new_columns_are_defined_where_hudi_would_define_them():
    before = pa.schema([("id", pa.string()), ("l", pa.list_(pa.int32())), ("n", pa.int32())])
    after = pa.schema([*before, ("e", pa.string()), ("s", pa.struct([("x", pa.int32())]))])
    default = with_definition(None, "column_stats", columns_to_index(before, StatsEncoding.V2), 9)
    grown = with_new_columns(default, before, after)
    assert indexed_columns(grown, 9, after) == columns_to_index(after, StatsEncoding.V2)
    assert {"e"} == set(indexed_columns(grown, 9, after)) - set(indexed_columns(default, 9, before))
    assert with_new_columns(grown, after, after) == grown
    chosen = with_definition(None, "column_stats", ["id"], 9)
    assert with_new_columns(chosen, before, after) == chosen
    others = with_definition(None, "record_index", [], 9)
    assert with_new_columns(others, before, after) == others
    both = with_definition(default, "record_index", [], 9)
    assert json.loads(with_new_columns(both, before, after))["indexDefinitions"].keys() == {
        "column_stats",
        "record_index",
    }
