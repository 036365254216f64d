"""What is done beside the work or after its commit: nothing that happens to it may say of the work that it failed."""

from __future__ import annotations

import logging
from collections.abc import Callable


def noted(what: str, work: Callable[[], object]) -> tuple[str, ...]:
    """Do something that what was achieved, or is under way, does not depend on.

    Args:
        what: what is the case if it goes wrong: "the run's report could not be written".

    Returns:
        A note for the summary if it went wrong, whatever went wrong; else nothing.
    """
    try:
        work()
    except Exception as error:  # noqa: BLE001 - whatever it is: a run whose batch is committed did not fail
        return (f"{what}: {type(error).__name__}: {error}",)
    return ()


def show_warnings() -> None:
    """Let a program of ours print the library's warnings on stderr, unless it has logging set up.

    The library alone prints nothing: its logger ``lakeindex`` has a handler that does nothing.
    """
    log, plain = logging.getLogger("lakeindex"), logging.lastResort
    if plain is not None and not logging.getLogger().handlers and plain not in log.handlers:
        log.addHandler(plain)
