"""The seeded bugs: what ``catalogue/*.toml`` says, one file a package of the library."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path("lib/lakeindex")
CATALOGUE = Path(__file__).parent / "catalogue"


class SeedError(Exception):
    """A seeded bug that does not fit the tree."""


@dataclass(frozen=True)
class Mutant:
    """One seeded bug.

    Attributes:
        id: its name.
        file: the module, relative to the library.
        search: text that is in the module exactly once.
        replace: what stands in its place.
        why: whom it hurts.
        tests: files or test ids that should catch it, relative to the root.
        survives: why no test can catch it, if that is so.
    """

    id: str
    file: str
    search: str
    replace: str
    why: str
    tests: tuple[str, ...]
    survives: str = ""

    @property
    def package(self) -> str:
        """The library's package, or the module itself if it stands alone."""
        return self.file.partition("/")[0].removesuffix(".py")

    def path(self, root: Path) -> Path:
        """The module in a tree."""
        return root / LIBRARY / self.file

    def apply(self, text: str) -> str:
        """The module with the bug. Raises: SeedError: the text to replace is not there exactly once."""
        count = text.count(self.search)
        if count != 1:
            raise SeedError(f"{self.id}: the search text is {count} times in {self.file}, not once: {self.search!r}")
        return text.replace(self.search, self.replace)

    def key(self, root: Path) -> str:
        """Changes when a result of it would have to be found again: bug, module, mapped tests."""
        parts = [self.id, self.search, self.replace, *self.tests, self.path(root).read_text()]
        parts += [file.read_text() for file in files_of(root, self.tests)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def load() -> tuple[Mutant, ...]:
    """All of them, by package and as written."""
    entries = [
        entry for path in sorted(CATALOGUE.glob("*.toml")) for entry in tomllib.loads(path.read_text())["mutant"]
    ]
    return tuple(Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries)


def files_of(root: Path, targets: Sequence[str]) -> list[Path]:
    """The files of test ids. Raises: SeedError: one is not there."""
    files = [root / target.partition("::")[0] for target in targets]
    for file in files:
        if not file.is_file():
            raise SeedError(f"{file.relative_to(root)} is not there")
    return files
