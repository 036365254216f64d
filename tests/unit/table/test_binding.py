from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakeindex.model import IndexType, MergeMode
from lakeindex.table.binding import TableBinding, format_binding, parse_binding

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
OPTIONS = st.dictionaries(TEXTS, TEXTS, max_size=2).map(lambda found: tuple(sorted(found.items())))
BINDINGS = st.builds(
    TableBinding,
    st.sampled_from(IndexType),
    st.sampled_from(MergeMode),
    st.none() | st.booleans(),
    st.none() | st.lists(st.sampled_from(["SIMPLE", "TIMESTAMP"]), min_size=1, max_size=3).map(tuple),
    TEXTS,
    OPTIONS,
    OPTIONS,
    st.booleans(),
)


@given(BINDINGS)
def test_parse_undoes_format(binding: TableBinding) -> None:
    data = format_binding(binding)
    assert parse_binding(data, "b") == binding
    assert b"\n" not in data, "it is one property of hoodie.properties, too"


def test_fields_of_a_newer_release_are_ignored() -> None:
    binding = TableBinding(IndexType.BLOOM, MergeMode.EVENT_TIME_ORDERING, created_by="x")
    assert parse_binding(format_binding(binding)[:-1] + b',"buckets":4}', "b") == binding
