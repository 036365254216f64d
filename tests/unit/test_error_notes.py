"""Work that nothing depends on."""

import importlib.metadata
import logging
from pathlib import Path

import pytest

import lakeindex
from lakeindex.errors import DEBUG_VARIABLE, TableNotFoundError, noted, show_warnings


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


def test_a_notebook_shows_a_frame_with_the_cause_the_cure_and_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TableNotFoundError) as raised:
        lakeindex.open_table(tmp_path / "none").scan().count()
    text = "\n".join(raised.value._render_traceback_())
    assert "TableNotFoundError" in text
    assert "lakeindex create" in text
    assert "lakeindex.open_table(tmp_path" in text
    assert DEBUG_VARIABLE in text
    assert "Traceback" not in text
    monkeypatch.setenv(DEBUG_VARIABLE, "1")
    assert "Traceback" in raised.value._render_traceback_()[0]


def test_a_frame_says_where_it_is_unless_the_message_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DEBUG_VARIABLE, raising=False)
    frames = [
        "\n".join(TableNotFoundError(f"no table{at}", culprit="/p/x")._render_traceback_()) for at in ("", " /p/x")
    ]
    assert ["where: " in frame for frame in frames] == [True, False]
    assert all("/p/x" in frame for frame in frames)


def test_the_version_is_that_of_the_package() -> None:
    assert lakeindex.__version__ == importlib.metadata.version("lakeindex")


def test_warnings_are_shown_unless_logging_is_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    log = logging.getLogger("lakeindex")
    monkeypatch.setattr(log, "handlers", [])
    show_warnings()
    assert log.handlers == []  # pytest has set logging up
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    show_warnings()
    show_warnings()
    assert log.handlers == [logging.lastResort]
