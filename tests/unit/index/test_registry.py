from __future__ import annotations

import pickle

import pytest

from lakeindex import pipeline
from lakeindex.errors import OptionError
from lakeindex.index.protocol import FilterIndex, Index
from lakeindex.index.registry import INDEXES, filter_index_for, index_for
from lakeindex.model import IndexType


@pytest.mark.parametrize("index_type", IndexType)
def test_every_index_type_is_there_and_agrees_with_the_pipeline(index_type: IndexType) -> None:
    index = index_for(index_type)
    assert isinstance(index, Index)
    assert index.traits.index_type is index_type
    assert index.traits.is_global == pipeline.is_global(index_type)
    assert index.traits.needs_filters == (pipeline.Stage.BLOOM_CHECK in pipeline.stages_for(index_type))
    assert pickle.loads(pickle.dumps(index)) == index


def test_name_of_any_case() -> None:
    assert index_for("global_bloom") is INDEXES[IndexType.GLOBAL_BLOOM]


def test_index_that_is_not_there_is_an_error_and_never_another_one() -> None:
    with pytest.raises(OptionError, match="HBASE") as caught:
        index_for("HBASE")
    assert caught.value.culprit == "hoodie.index.type"
    assert caught.value.hint == "valid: BLOOM, GLOBAL_BLOOM"
    with pytest.raises(OptionError, match="HBASE"):
        filter_index_for("HBASE")


def test_filters_are_asked_only_of_an_index_that_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(filter_index_for("BLOOM"), FilterIndex)

    class Without:
        traits = INDEXES[IndexType.BLOOM].traits

    monkeypatch.setitem(INDEXES, IndexType.BLOOM, Without())  # type: ignore[arg-type]  # lacks what a filter index has
    with pytest.raises(OptionError, match="no bloom filters"):
        filter_index_for("BLOOM")
