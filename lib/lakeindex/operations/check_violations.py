"""What a check found: violations, each with its kind, culprit and cure, and what was looked at."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar

from msgspec import field

from lakeindex.errors import LakeIndexError, MachineError, ObjectNotFoundError, StorageError
from lakeindex.frozen import Frozen
from lakeindex.showing.json_result import TableResult

_SHOWN_IN_HTML = 100


class Broken(StrEnum):
    """Invariants that can be broken."""

    PROPERTIES = "properties"
    TIMELINE = "timeline"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    PARTITION = "partition"
    MISSING_FILE = "missing_file"
    FILE = "file"
    FOOTER = "footer"
    ROWS = "rows"
    META_COLUMNS = "meta_columns"
    STATISTICS = "statistics"
    KEY_RANGE = "key_range"
    FILTER = "filter"
    RECORD_KEY = "record_key"
    PARTITION_PATH = "partition_path"
    DUPLICATE_KEY = "duplicate_key"
    BUCKET = "bucket"
    STRAY = "stray"
    DOUBLE = "double"
    METADATA_TABLE = "metadata_table"
    IMPORT = "import"


class Writer(StrEnum):
    """Who made what a violation is about."""

    LAKEINDEX = "lakeindex"
    OTHER = "other"


class Violation(Frozen):
    """One broken invariant.

    Attributes:
        kind: the invariant.
        culprit: the file, instant or key.
        message: what is wrong.
        hint: what to do about it.
        writer: who made it so, where that can be known.
    """

    kind: Broken
    culprit: str
    message: str
    hint: str
    writer: Writer | None = None

    @property
    def told(self) -> str:
        """The message, and the file's writer if that was not lakeindex."""
        return f"{self.message} (by its writer, not by lakeindex)" if self.writer is Writer.OTHER else self.message

    @staticmethod
    def of(kind: Broken, error: LakeIndexError, culprit: str) -> Violation:
        """What an error says, as a violation."""
        return Violation(kind, error.culprit or culprit, error.message, error.hint or "restore it from a copy")


def is_damage(error: LakeIndexError) -> bool:
    """Whether an error says that something is broken; no permission and no answer do not say so."""
    return isinstance(error, ObjectNotFoundError) or not isinstance(error, (StorageError, MachineError))


class Checked(Frozen):
    """What was looked at.

    Attributes:
        instants: instants of the active timeline.
        commits: completed writes.
        partitions: partitions.
        files: live base files, every row group of them decoded.
        older_files: superseded base files, listed only.
        rows: rows read.
        bytes: size of the live files.
        filters: filters probed with every key of their file.
        ranges: key ranges compared with every key of their file.
        keys_recomputed: rows whose key and partition path were computed again from their columns.
        pages: pages that were compared with their checksums (``--deep``).
        pages_without_crc: of them, pages without a checksum: damage to them is not detected.
        unique_scope: ``table`` or ``partition``: where a key must be unique.
    """

    instants: int = 0
    commits: int = 0
    partitions: int = 0
    files: int = 0
    older_files: int = 0
    rows: int = 0
    bytes: int = 0
    filters: int = 0
    ranges: int = 0
    keys_recomputed: int = 0
    pages: int = 0
    pages_without_crc: int = 0
    unique_scope: str = "partition"

    def plus(self, other: Checked) -> Checked:
        """Sums; the scope is that of ``self``."""
        names = [one for one in self.__struct_fields__ if one != "unique_scope"]
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return Checked(**sums, unique_scope=self.unique_scope)


class CheckReport(TableResult):
    """What a check found.

    Attributes:
        table: the table's name; empty if its properties cannot be read.
        ok: no invariant is broken.
        violations: what is broken.
        notes: findings that break no invariant.
        checked: what was looked at.
        seconds: wall time.
    """

    shown_by: ClassVar[str] = "results:show_check"

    ok: bool
    violations: tuple[Violation, ...]
    notes: tuple[str, ...]
    checked: Checked
    seconds: float

    def __str__(self) -> str:
        found = "every invariant holds" if self.ok else f"{len(self.violations)} invariants broken"
        return f"{self.table}: {found}; {self.checked.files} files, {self.checked.rows} rows checked"


class Findings(Frozen):
    """What one part of the check gives."""

    violations: tuple[Violation, ...] = ()
    notes: tuple[str, ...] = ()
    checked: Checked = field(default_factory=Checked)

    @staticmethod
    def joined(parts: Iterable[Findings], unique_scope: str = "partition") -> Findings:
        """All of them in one."""
        violations: list[Violation] = []
        notes: dict[str, None] = {}
        checked = Checked(unique_scope=unique_scope)
        for part in parts:
            violations += part.violations
            notes.update(dict.fromkeys(part.notes))
            checked = checked.plus(part.checked)
        return Findings(tuple(violations), tuple(notes), checked)
