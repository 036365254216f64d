"""How long a store may take: to take a connection, to answer, and altogether."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from lakeindex.errors import OptionError
from lakeindex.storage.options import StoreOptions

LIMITS_PREFIX: Final = "lakeindex_store_"
CONNECT_OPTION: Final = "lakeindex_store_connect_timeout"
ANSWER_OPTION: Final = "lakeindex_store_timeout"
_CONNECT_S: Final = 5.0
_ANSWER_S: Final = 30.0
_TRIES: Final = 2
_UPLOAD: Final = 4
_WHOLE_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class TimeLimits:
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
