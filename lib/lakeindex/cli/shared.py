"""What commands have in common: options, pairs, completion, and where a person sees results.

Completion reads the lists in memory and names on the local disk, and nothing else. Results are drawn by rich on a
terminal; for a pipe rich is not loaded. Texts have rich's marks (``[bold]``, ``[red]``); foreign ones go through
:func:`lakeindex.showing.text.escape`. On a pipe a line is a line, however long: nothing is folded, and no window's
width counts.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from lakeindex.cli.program import Failure
from lakeindex.errors import LakeIndexError, OptionError
from lakeindex.format.instants import parse_instant
from lakeindex.options.option import Option
from lakeindex.options.option_table import CREATE_OPTIONS, OPTIONS
from lakeindex.options.parse import parse_options
from lakeindex.pipeline import SUMMARY_FILE
from lakeindex.showing.json_result import JsonResult
from lakeindex.showing.notebook import Screen, shower
from lakeindex.showing.text import Grid, unmarked

if TYPE_CHECKING:
    from rich.console import Console

    from lakeindex.tasks.progress_bars import Progress

_MOST: Final = 50
_WRITES: Final = (".commit", ".replacecommit")


def complete_pair(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """``KEY=`` of an option, then its values where they are a few words."""
    of_create = ctx.info_name == "create"
    known = {option.key: option for option in (CREATE_OPTIONS if of_create else OPTIONS)}
    key, sign, start = incomplete.partition("=")
    if sign:
        option = known.get(key)
        values = () if option is None else words_of(option)
        return [CompletionItem(f"{key}={value}") for value in values if value.lower().startswith(start.lower())]
    return [CompletionItem(f"{name}=", help=known[name].text) for name in sorted(known) if name.startswith(key)]


def words_of(option: Option) -> tuple[str, ...]:
    """The valid values of an option, if they are listed by ``|``."""
    words = tuple(word.strip() for word in option.valid.replace(" or ", " | ").replace(", ", " | ").split("|"))
    return words if len(words) > 1 and all(_is_taken(option, word) for word in words) else ()


def _is_taken(option: Option, word: str) -> bool:
    try:
        option.parse(word)
    except ValueError:
        return False
    return True


def complete_run(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Folders of finished runs, the newest first, once the checkpoints' root is typed; folders until then."""
    root, slash, start = incomplete.rpartition("/")
    folder = Path(root).expanduser()
    if not slash or "://" in root or not folder.is_dir():
        return [CompletionItem(incomplete, type="dir")]
    marks = [mark for mark in folder.glob(f"*/{SUMMARY_FILE}") if mark.parent.name.startswith(start)]
    newest = sorted(marks, key=lambda mark: -mark.stat().st_mtime_ns)[:_MOST]
    if not newest:
        return [CompletionItem(incomplete, type="dir")]
    return [CompletionItem(f"{root}/{mark.parent.name}") for mark in newest]


def complete_instant(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completed writes of a local table, the newest first."""
    folder = Path(str(ctx.params.get("table") or "")).expanduser() / ".hoodie"
    found = (path for timeline in (folder, folder / "timeline") for path in timeline.glob("*"))
    instants = (parse_instant(path.name) for path in found if path.suffix in _WRITES)
    times = sorted({one.time for one in instants if one is not None}, reverse=True)
    return [CompletionItem(time) for time in times if time.startswith(incomplete)][:_MOST]


def complete_table(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="dir")]


PIPED_WIDTH: Final = 200
"""Columns that what is laid out by the width there is has on a pipe."""


class Pipe:
    """Output that goes to a file or a program, as plain lines.

    Args:
        err: to stderr.
    """

    is_terminal = False
    width = PIPED_WIDTH

    def __init__(self, *, err: bool = False) -> None:
        self._err = err

    def print(self, *what: Any, markup: bool | None = None, **_: Any) -> None:
        """See :class:`Screen`; what else there is to say is for terminals."""
        grids = [line for one in what if isinstance(one, Grid) for line in one.lines()]
        texts = [str(one) if markup is False else unmarked(str(one)) for one in what if not isinstance(one, Grid)]
        click.echo("\n".join([*grids, *([" ".join(texts)] if texts or not grids else [])]), err=self._err)


def screen(*, err: bool = False) -> Screen:
    """Stdout, or stderr, for a person."""
    return drawn_by_rich(err=err) if is_terminal(err=err) else Pipe(err=err)


def drawn_by_rich(*, err: bool = False) -> Console:
    """Stdout, or stderr, for what only rich draws: bars, tables with lines."""
    from rich.console import Console

    width = None if is_terminal(err=err) else PIPED_WIDTH
    return Console(stderr=err, highlight=False, emoji=False, width=width)


def is_terminal(*, err: bool = False) -> bool:
    """Whether somebody looks at stdout, or stderr; ``FORCE_COLOR`` says so, too, as everywhere."""
    stream = sys.stderr if err else sys.stdout
    return bool(os.environ.get("FORCE_COLOR")) or (stream is not None and stream.isatty())  # None: closed (2>&-)


_SHORT: Final = "lakeindex.short"
_F = TypeVar("_F", bound=Callable[..., Any])


def table_argument(function: _F) -> _F:
    return click.argument("table", metavar="TABLE", shell_complete=complete_table, callback=_located)(function)


def _located(_context: click.Context, _param: click.Parameter, place: str | None) -> str | None:
    """Where the table is, of one that is named by a catalog, too."""
    if place is None or "://" not in place:
        return place
    from lakeindex.catalogs.places import located

    return located(place)


def checkpoints_option(function: _F) -> _F:
    return click.option(
        "--checkpoints", metavar="DIR", help="Root of the run folders; default: TABLE.lakeindex beside the table."
    )(function)


def memory_option(function: _F) -> _F:
    return click.option(
        "--memory",
        metavar="SIZE",
        help="Memory that the tasks of a process hold together, e.g. 2g; short for -o lakeindex.memory=SIZE.",
    )(function)


def json_option(function: _F) -> _F:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout, also on failure.")(
        function
    )


def pairs_option(function: _F) -> _F:
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
    context = click.get_current_context(silent=True)
    short = () if context is None else context.meta.get(_SHORT, ())
    return pairs_of((*texts, *short), "-o", "option")


def pairs_of(texts: Iterable[str], flag: str, what: str) -> dict[str, str]:
    """``KEY=VALUE`` texts of a flag. Raises: OptionError: one without ``=``, or one name with two values."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        key = key.strip()
        if not sign or not key:
            raise OptionError(f"{flag} cannot be {text!r}", culprit=text, hint=f"write {flag} KEY=VALUE")
        if pairs.setdefault(key, value) != value:
            raise OptionError(
                f"{what} {key} is given twice: {pairs[key]!r} and {value!r}", culprit=key, hint="give one"
            )
    return pairs


def split_names(text: str | None) -> tuple[str, ...]:
    """Names between commas."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def named_only(text: str | None, flag: str) -> tuple[str, ...] | None:
    """The same of a flag without which all are meant; None if it is not given. Raises: OptionError: it names none."""
    names = split_names(text)
    if text is not None and not names:
        raise OptionError(f"{flag} cannot be {text!r}", culprit=flag, hint="name one at least, or leave it out")
    return names or None


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
