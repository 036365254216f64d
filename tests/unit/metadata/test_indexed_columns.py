"""Which columns have statistics in the metadata table."""

import json

import pyarrow as pa
import pytest

from lakeindex.errors import TableCorruptError
from lakeindex.metadata.indexed_columns import (
    StatsEncoding,
    columns_to_index,
    indexed_columns,
    stats_encoding,
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


@pytest.mark.parametrize("name", ["column_stats", "partition_stats"])
@pytest.mark.parametrize(("made_by", "encoding"), [(8, StatsEncoding.V1), (9, StatsEncoding.V2)])
def test_statistics_are_in_the_encoding_that_their_definition_says(name: str, made_by: int, encoding: StatsEncoding):
    """Of either kind alone, whatever the table's version is by now; without a definition the version says it."""
    said = with_definition(None, name, ["id"], made_by)
    said = with_definition(said, "record_index", [], made_by)
    assert {stats_encoding(said, version) for version in (6, 8, 9)} == {encoding}
    others = with_definition(None, "record_index", [], 9)
    for definitions in (None, others):
        assert stats_encoding(definitions, made_by) is encoding
    with pytest.raises(TableCorruptError, match="'V9'"):
        stats_encoding(said.replace(f'"{encoding}"', '"V9"'), made_by)
