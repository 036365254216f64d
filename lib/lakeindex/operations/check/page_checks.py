"""``check --deep``: every byte of every base file, live and superseded, against the checksums that cover it."""

from __future__ import annotations

from dataclasses import dataclass

from lakeindex.errors import LakeIndexError
from lakeindex.files.footers import parse_layout, read_footer_bytes
from lakeindex.model import BaseFile
from lakeindex.operations.check.violations import Broken, Checked, Findings, Violation, is_damage
from lakeindex.operations.rows.aligned_rows import damaged
from lakeindex.parquet.stamps import footer_digest
from lakeindex.parquet.verify_pages import verify_pages
from lakeindex.storage.storage_file import StoredBytes
from lakeindex.tasks.stores import storage_at

_NO_CRC = (
    "some pages have no checksum, so damage to them cannot be seen (pages_without_crc): "
    "other writers, and lakeindex before it wrote checksums, leave it out; a rewrite gives one to what it encodes"
)


@dataclass(frozen=True, slots=True)
class PagesTask:
    """A base file whose pages are walked; ``digest``: of its footer, as its commit says, None if it does not."""

    uri: str
    file: BaseFile
    digest: str | None = None


def check_pages(task: PagesTask) -> Findings:
    """Walk one file."""
    store, file = storage_at(task.uri), task.file
    try:
        raw = read_footer_bytes(store, file)
        layout = parse_layout(raw, file)
        found = verify_pages(StoredBytes(store, file.path, file.size_bytes), layout.metadata)
    except LakeIndexError as error:
        if not is_damage(error):
            raise
        return Findings((Violation.of(Broken.FILE, error, file.path),))
    except (OSError, ValueError) as error:
        return Findings((Violation.of(Broken.FILE, damaged(file, str(error)), file.path),))
    violations = [Violation.of(Broken.FILE, damaged(file, problem), file.path) for problem in found.problems]
    violations += against_digest(file, raw, task.digest)
    notes = (_NO_CRC,) if found.without_crc else ()
    return Findings(tuple(violations), notes, Checked(pages=found.pages, pages_without_crc=found.without_crc))


def against_digest(file: BaseFile, footer: bytes, digest: str | None) -> list[Violation]:
    """The footer is the one that the commit wrote: with its page headers' checksums, it stands for the whole file."""
    if digest is None or footer_digest(footer) == digest:
        return []
    error = damaged(file, "its footer is not the one that its commit wrote")
    return [Violation.of(Broken.FOOTER, error, file.path)]
