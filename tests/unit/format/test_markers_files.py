"""Files of Hudi's timeline server that hold markers: as many as it likes."""

import pytest

from lakeindex.format.file_names import is_markers_file


@pytest.mark.parametrize(
    ("name", "holds"), [("MARKERS0", True), ("MARKERS9", True), ("MARKERS10", True), ("MARKERS123", True)]
)
def test_every_numbered_file_is_read(name: str, holds: bool):
    assert is_markers_file(name) is holds


@pytest.mark.parametrize("name", ["MARKERS", "MARKERS.type", "MARKERS1.tmp", "xMARKERS1", "MARKERS1/2"])
def test_no_other_file_is(name: str):
    assert not is_markers_file(name)
