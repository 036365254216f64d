from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.errors import InvariantError
from lakeindex.index.key_match import match_keys
from tests.strategies import any_texts, plain_key_texts

texts = st.one_of(any_texts, plain_key_texts)


@given(
    st.lists(texts, unique=True, max_size=20), st.lists(st.lists(st.one_of(st.none(), texts), max_size=8), max_size=5)
)
def test_equals_a_dictionary(asked: list[str], groups: list[list[str | None]]) -> None:
    places: dict[str, list[tuple[int, int]]] = {}
    for group, stored in enumerate(groups):
        for row, key in enumerate(stored):
            if key is not None:
                places.setdefault(key, []).append((group, row))
    found = match_keys(pa.array(asked, pa.string()), [pa.array(stored, pa.string()) for stored in groups])
    expected = [(place, *one) for place, key in enumerate(asked) for one in places.get(key, [])]
    assert (
        list(zip(found.candidate.tolist(), found.row_group.tolist(), found.row_in_group.tolist(), strict=True))
        == expected
    )
    assert found.rows_read == sum(map(len, groups))


def test_every_string_type() -> None:
    kinds = [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.string_view()]
    for asked in kinds:
        for stored in kinds:
            found = match_keys(pa.array(["b", "x"]).cast(asked), [pa.array(["a", "b"]).cast(stored).slice(1)])
            assert (found.candidate.tolist(), found.row_in_group.tolist()) == ([0], [0])


def test_chunked_row_groups_and_types_of_result() -> None:
    groups = [pa.chunked_array([["a"], ["b", "c"]]), pa.chunked_array([["d"]])]
    found = match_keys(pa.array(["d", "c"]), groups)
    assert found.row_group.tolist() == [1, 0]
    assert found.row_in_group.tolist() == [0, 2]
    assert (found.candidate.dtype, found.row_group.dtype, found.row_in_group.dtype) == ("int64", "int32", "int32")


def test_nothing_asked_nothing_stored() -> None:
    assert len(match_keys(pa.array([], pa.string()), [pa.array(["a"])]).candidate) == 0
    assert len(match_keys(pa.array(["a"]), []).candidate) == 0
    assert len(match_keys(pa.array(["a"]), [pa.array([], pa.string())]).candidate) == 0


def test_key_asked_twice_is_a_defect() -> None:
    with pytest.raises(InvariantError, match="twice"):
        match_keys(pa.array(["a", "a"]), [pa.array(["a"])])


@given(
    st.lists(
        st.tuples(st.lists(texts, unique=True, max_size=6), st.lists(st.lists(texts, max_size=6), max_size=3)),
        min_size=1,
        max_size=4,
    )
)
def test_keys_of_several_files_are_looked_for_in_their_own(files: list[tuple[list[str], list[list[str]]]]) -> None:
    asked = [key for keys, _ in files for key in keys]
    groups = [pa.array(group, pa.string()) for _, mine in files for group in mine]
    of_asked = np.repeat(np.arange(len(files)), [len(keys) for keys, _ in files])
    of_group = np.repeat(np.arange(len(files)), [len(mine) for _, mine in files])
    found = match_keys(pa.array(asked, pa.string()), groups, (of_asked, of_group))
    alone = [match_keys(pa.array(keys, pa.string()), [pa.array(g, pa.string()) for g in mine]) for keys, mine in files]
    keys_before = np.cumsum([0, *(len(keys) for keys, _ in files)])
    groups_before = np.cumsum([0, *(len(mine) for _, mine in files)])
    expected = [
        (int(key) + keys_before[n], int(group) + groups_before[n], int(row))
        for n, one in enumerate(alone)
        for key, group, row in zip(one.candidate, one.row_group, one.row_in_group, strict=True)
    ]
    places = zip(found.candidate.tolist(), found.row_group.tolist(), found.row_in_group.tolist(), strict=True)
    assert list(places) == expected


def test_a_key_asked_twice_of_one_file_of_several_is_a_defect() -> None:
    groups = [pa.array(["a"]), pa.array(["a"])]
    apart, twice, of_group = np.array([0, 1]), np.array([1, 1]), np.array([0, 1])
    assert len(match_keys(pa.array(["a", "a"]), groups, (apart, of_group)).candidate) == 2
    with pytest.raises(InvariantError, match="twice"):
        match_keys(pa.array(["a", "a"]), groups, (twice, of_group))
