"""Settings of the stores of one table handle: endpoint, region, credentials.

They belong to the handle, not to the process: two handles may have different ones at the same time. A call of the
handle sets them for itself (a context variable, so threads and other calls see nothing of it), and whatever starts
tasks hands them on. They are nowhere in a run's arguments, so they get into no checkpoint, report or log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from lakeindex.errors import OptionError

_SHOWN: Final = ("endpoint", "region", "allow_http", "account_name")
"""Parts of the names whose values are no secrets."""


@dataclass(frozen=True, repr=False, slots=True)
class StoreOptions(Mapping[str, str]):
    """Names and values; a mapping that does not show its secrets.

    Names are in small letters, but Hadoop's, those with a ``.``, as they were given:
    names of services in them have a case.
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
