"""The fit of the cost model's constants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import calibrate
from lakeindex.index.cost import CostConstants
from lakeindex.index.cost_constants import CONSTANTS


@settings(deadline=None)
@given(st.lists(st.floats(0.1, 10), min_size=3, max_size=3), st.integers(0, 99))
def test_fit_finds_constants_that_explain_everything(wanted: list[float], seed: int):
    counts = np.random.default_rng(seed).random((30, 3)) * np.array([1.0, 1e3, 1e6])
    found = calibrate.non_negative(counts, counts @ np.array(wanted))
    assert found == pytest.approx(np.array(wanted), rel=1e-6)


def test_fit_has_no_negative_constants_and_none_for_what_never_happened():
    counts = np.array([[1.0, 2.0, 0.0], [1.0, 4.0, 0.0], [1.0, 8.0, 0.0]])
    found = calibrate.non_negative(counts, np.array([3.0, 2.0, 0.5]))
    assert (found >= 0).all()
    assert found[1] == found[2] == 0.0
    assert found[0] > 0


def test_constants_are_written_as_the_module_they_are_read_from():
    space: dict[str, object] = {}
    exec(calibrate._source(CONSTANTS, 0.25, 7), space)  # what --write writes
    assert space["MEAN_ERROR"] == 0.25
    assert "7 runs" in str(space["MEASURED_ON"])
    written = space["CONSTANTS"]
    assert isinstance(written, CostConstants)
    for name in CostConstants.__struct_fields__:
        assert getattr(written, name) == pytest.approx(getattr(CONSTANTS, name), rel=1e-3)


def test_constants_that_are_kept_are_plausible():
    values = [getattr(CONSTANTS, name) for name in CostConstants.__struct_fields__]
    assert all(value >= 0 for value in values)
    assert 0 < CONSTANTS.key_share <= 1
    assert CONSTANTS.file_opened > CONSTANTS.row_matched > 0
