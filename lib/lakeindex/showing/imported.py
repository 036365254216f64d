"""An import for a person: what the source is, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeindex.showing.notebook import Screen
from lakeindex.showing.results import show_notes
from lakeindex.showing.text import human_bytes

if TYPE_CHECKING:
    from lakeindex.operations.importing.import_table import ImportSummary


def show_import(console: Screen, done: ImportSummary) -> None:
    """What the source is, and what became of it."""
    version = "" if done.source_version is None else f", version {done.source_version}"
    console.print(
        f"{done.source} ({done.kind}{version}): {done.files:,} files, {human_bytes(done.bytes)}, {done.rows:,} rows, "
        f"{done.partitions:,} partitions{' by ' if done.partition_fields else ''}{', '.join(done.partition_fields)}",
        markup=False,
    )
    for cast in done.casts:
        console.print(f"  {cast}", markup=False)
    for one in done.repeated:
        where = f" of {one.partition}" if one.partition else ""
        console.print(f"  key {one.key}{where}: {one.rows:,} rows, in {', '.join(one.files)}", markup=False)
    if done.repeated_keys > len(done.repeated):
        console.print(f"  and {done.repeated_keys - len(done.repeated):,} more keys that are there more than once")
    show_notes(console, done.notes)
    if done.dry_run:
        console.print(f"would be loaded in {done.commits:,} commits; nothing was made")
        return
    before = f" ({done.commits_before:,} of them by an earlier run)" if done.commits_before else ""
    console.print(
        f"{done.table}: {done.inserted:,} rows in {done.commits:,} commits{before}, {done.combined:,} combined, "
        f"{done.seconds:.1f} s",
        markup=False,
    )
