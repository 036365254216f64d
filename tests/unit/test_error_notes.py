"""Work that nothing depends on."""

import pytest

from lakeindex.errors import noted


def test_what_goes_wrong_is_a_note() -> None:
    def fail() -> None:
        raise PermissionError(13, "Permission denied", "/p/x")

    assert noted("the report was not written", list) == ()
    (note,) = noted("the report was not written", fail)
    assert note.startswith("the report was not written: PermissionError: ")
    assert "/p/x" in note


def test_an_interrupt_is_none() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        noted("the report was not written", interrupt)
