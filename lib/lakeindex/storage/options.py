"""Settings of the stores of one table handle: endpoint, region, credentials, and how long a store may take.

They belong to the handle, not to the process: two handles may have different ones at the same time. A call of the
handle sets them for itself (a context variable, so threads and other calls see nothing of it), and whatever starts
tasks hands them on. They are nowhere in a run's arguments, so they get into no checkpoint, report or log.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from lakeindex.errors import OptionError
from lakeindex.frozen import Frozen

_SHOWN: Final = ("endpoint", "region", "allow_http", "account_name")
"""Parts of the names whose values are no secrets."""


@dataclass(frozen=True, repr=False, slots=True)
class StoreOptions(Mapping[str, str]):
    """Names and values; a mapping that does not show its secrets.

    Names are in small letters, except Hadoop's (those with a ``.``), which stay as they were given: names of services
    in them are case-sensitive.
    """

    pairs: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, given: Mapping[Any, object] | None) -> StoreOptions:
        """The options as a caller gave them.

        Raises:
            OptionError: a name that is none, one that is given twice, or a value that is neither text, number nor bool.
        """
        if isinstance(given, StoreOptions):
            return given
        found: dict[str, str] = {}
        for name, value in (given or {}).items():
            if not isinstance(name, str) or not name:
                raise OptionError(f"{name!r} is no name of a storage option", culprit=str(name), hint="give a text")
            if not isinstance(value, str | int | float):
                raise OptionError(
                    f"storage option {name!r} cannot be a {type(value).__name__}",
                    culprit=name,
                    hint="give a text, number or bool",
                )
            key = _key(name)
            if key in found:
                raise OptionError(
                    f"storage option {name!r} is given twice", culprit=name, hint="names go in either case"
                )
            found[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return cls(tuple(sorted(found.items())))

    def __getitem__(self, name: str) -> str:
        return dict(self.pairs)[_key(name)]

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self.pairs])

    def __len__(self) -> int:
        return len(self.pairs)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name!r}: {_shown(name, value)}" for name, value in self.pairs)
        return f"{{{shown}}}"


def _key(name: str) -> str:
    return name if "." in name else name.lower()


def _shown(name: str, value: str) -> str:
    """A value as it may be shown: neither a secret nor a URL that holds one."""
    plain = any(part in name for part in _SHOWN) and "@" not in value and not urlsplit(value).query
    return repr(value) if plain else "'***'"


NO_OPTIONS: Final = StoreOptions()

_current: ContextVar[StoreOptions] = ContextVar("store options", default=NO_OPTIONS)


def current_options() -> StoreOptions:
    """The options of the call, or task, that is running."""
    return _current.get()


@contextmanager
def using(options: StoreOptions) -> Iterator[None]:
    """Open stores with these options, and no others, in this call and what it starts."""
    token = _current.set(options)
    try:
        yield
    finally:
        _current.reset(token)


LIMITS_PREFIX: Final = "lakeindex_store_"
CONNECT_OPTION: Final = "lakeindex_store_connect_timeout"
ANSWER_OPTION: Final = "lakeindex_store_timeout"
_CONNECT_S: Final = 5.0
_ANSWER_S: Final = 30.0
_TRIES: Final = 2
_UPLOAD: Final = 4
_WHOLE_S: Final = 300.0


class TimeLimits(Frozen):
    """Limits of one store.

    Attributes:
        connect: for a connection to come about.
        answer: without a byte of an answer, in one try.
        all_tries: after it no call that reads or writes is tried again.
        whole: for one request, with all that it carries.
    """

    connect: timedelta
    answer: timedelta
    all_tries: timedelta
    whole: timedelta

    @classmethod
    def of(cls, options: StoreOptions) -> TimeLimits:
        """As the handle's options say, or the environment. Raises: OptionError: no number of seconds above 0."""
        answer = _seconds(options, ANSWER_OPTION, _ANSWER_S)
        connect = _seconds(options, CONNECT_OPTION, min(_CONNECT_S, answer))
        whole = max(_WHOLE_S, answer)
        return cls(*(timedelta(seconds=one) for one in (connect, answer, answer * _TRIES, whole)))

    def for_uploads(self) -> TimeLimits:
        """The same for what carries rows to the store: it answers when all of them are there."""
        return replace(self, answer=self.answer * _UPLOAD, all_tries=self.answer * _UPLOAD)

    def within(self, most: timedelta) -> TimeLimits:
        """The same, of which none is longer."""
        return TimeLimits(*(min(one, most) for one in (self.connect, self.answer, self.all_tries, self.whole)))


def _seconds(options: StoreOptions, name: str, default: float) -> float:
    text = options.get(name) or os.environ.get(name.upper())
    if not text:
        return default
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise OptionError(f"{name.upper()} cannot be {text!r}", culprit=name, hint="give seconds, such as 30")
    return found
