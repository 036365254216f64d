"""What commands have in common: options, pairs, consoles."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from lakeindex.cli.completion import complete_pair, complete_table
from lakeindex.cli.group import Failure
from lakeindex.cli.screen import is_terminal, screen
from lakeindex.errors import LakeIndexError, OptionError
from lakeindex.options.parse import parse_options
from lakeindex.showing.json_result import JsonResult
from lakeindex.showing.notebook import Screen, shower

if TYPE_CHECKING:
    from lakeindex.tasks.progress_bars import Progress

_SHORT: Final = "lakeindex.short"
_F = TypeVar("_F", bound=Callable[..., Any])


def table_argument(function: _F) -> _F:
    """TABLE, a path or URL."""
    return click.argument("table", metavar="TABLE", shell_complete=complete_table)(function)


def json_option(function: _F) -> _F:
    """``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout, also on failure.")(
        function
    )


def pairs_option(function: _F) -> _F:
    """``-o key=value``."""
    return click.option(
        "-o",
        "--option",
        "options",
        multiple=True,
        metavar="KEY=VALUE",
        help="An option; `lakeindex options` lists them.",
        shell_complete=complete_pair,
    )(function)


def given_options(*options: Callable[[_F], _F]) -> Callable[[_F], _F]:
    """Several options, in their order."""

    def on(function: _F) -> _F:
        for option in reversed(options):
            function = option(function)
        return function

    return on


runner_options = given_options(
    click.option(
        "--runner",
        type=click.Choice(["local", "spark"]),
        default="local",
        show_default=True,
        help="Threads of this process, or Spark.",
    ),
    click.option("--master", metavar="M", help="Spark master, e.g. local[4] or spark://host:7077."),
)
"""Who does the tasks."""


def passed_on(
    *, options: tuple[str, ...], runner: str = "local", master: str | None = None, **given: Any
) -> dict[str, Any]:
    """What a command was given, as the arguments of a table's method: they have the same names.

    Raises:
        OptionError: wrong options, before anything loads.
    """
    pairs = parse_pairs(options)
    parse_options(pairs)
    if master is not None and runner != "spark":
        raise OptionError("--master has no meaning for the local runner", culprit="--master", hint="add --runner spark")
    return {**given, "options": pairs, "runner": runner, "master": master, "progress": progress()}


def short_option(flag: str, key: str, valid: Iterable[object], text: str) -> Callable[[_F], _F]:
    """A flag that is short for ``-o KEY=VALUE``; :func:`parse_pairs` adds it."""

    def keep(context: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is not None:
            context.meta.setdefault(_SHORT, []).append(f"{key}={value}")

    return click.option(
        flag,
        type=click.Choice([str(one) for one in valid]),
        callback=keep,
        expose_value=False,
        help=f"{text}; short for -o {key}=VALUE.",
    )


def parse_pairs(texts: tuple[str, ...]) -> dict[str, str]:
    """``-o`` texts, and flags that are short for them, as option names and values.

    Raises:
        OptionError: one without ``=``, or one name with two values.
    """
    pairs: dict[str, str] = {}
    context = click.get_current_context(silent=True)
    short = () if context is None else context.meta.get(_SHORT, ())
    for text in (*texts, *short):
        key, sign, value = text.partition("=")
        key = key.strip()
        if not sign or not key:
            raise OptionError(f"-o cannot be {text!r}", culprit=text, hint="write -o KEY=VALUE")
        if pairs.setdefault(key, value) != value:
            raise OptionError(
                f"option {key} is given twice: {pairs[key]!r} and {value!r}", culprit=key, hint="give one"
            )
    return pairs


def split_names(text: str | None) -> tuple[str, ...]:
    """Names between commas."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def progress() -> Progress:
    """Bars on stderr, if that is a terminal."""
    from lakeindex.tasks.progress_bars import NoProgress, TerminalProgress

    return TerminalProgress() if is_terminal(err=True) else NoProgress()


def say(result: JsonResult, show: Callable[[Screen], None] | None = None, *, as_json: bool) -> None:
    """Print a result: as one JSON object, or for a person, as the result says itself or in another way."""
    if as_json:
        click.echo(result.to_json())
    elif show is None:
        shower(result.shown_by)(screen(), result)
    else:
        show(screen())


def say_compared(
    ctx: click.Context, found: JsonResult, broken: LakeIndexError | Failure | None, *, as_json: bool
) -> None:
    """Print all that a comparison found, as JSON with the ``error``; end with the exit code of what is broken."""
    if as_json:
        failure = Failure.of(broken) if isinstance(broken, LakeIndexError) else broken
        error = None if failure is None else failure.as_dict()
        click.echo(json.dumps({**found.as_dict(), "error": error}))
    else:
        shower(found.shown_by)(screen(), found)
    if broken is not None:
        ctx.exit(broken.exit_code)
