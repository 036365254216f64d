"""What a shell offers while a command is typed: from the lists in memory and names on local disk,
nothing else is read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem

from lakeindex.format.instants import parse_instant
from lakeindex.options.option import Option
from lakeindex.options.option_table import CREATE_OPTIONS, OPTIONS
from lakeindex.pipeline import SUMMARY_FILE

_MOST: Final = 50
_WRITES: Final = (".commit", ".replacecommit")


def complete_pair(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001 - click's signature
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


def complete_run(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001 - click's signature
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


def complete_instant(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001 - click's signature
    """Completed writes of a local table, the newest first."""
    folder = Path(str(ctx.params.get("table") or "")).expanduser() / ".hoodie"
    found = (path for timeline in (folder, folder / "timeline") for path in timeline.glob("*"))
    instants = (parse_instant(path.name) for path in found if path.suffix in _WRITES)
    times = sorted({one.time for one in instants if one is not None}, reverse=True)
    return [CompletionItem(time) for time in times if time.startswith(incomplete)][:_MOST]


def complete_table(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001 - click's signature
    """Folders."""
    return [CompletionItem(incomplete, type="dir")]
