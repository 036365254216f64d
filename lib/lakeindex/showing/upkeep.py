"""What was done to a table's indexes, metadata table, buckets and keys, for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakeindex.showing.grid import escape
from lakeindex.showing.notebook import Screen
from lakeindex.showing.results import show_notes

if TYPE_CHECKING:
    from lakeindex.operations.index import IndexBuilt, IndexDropped, IndexStatus, IndexVerified
    from lakeindex.operations.metadata import MetadataBuilt, MetadataDropped, MetadataStatus, MetadataVerified
    from lakeindex.operations.migrate_index import IndexMigrated
    from lakeindex.operations.repair_keys import KeysRepaired
    from lakeindex.operations.rescale_run import RescaleSummary

_KEYS_SHOWN: Final = 20


def show_index_built(console: Screen, done: IndexBuilt) -> None:
    """A stored index that was built."""
    console.print(
        f"built {done.index_type} as {done.generation}: {done.rows:,} keys of {done.files:,} files, through "
        f"{done.covered_through or 'the beginning'}, {done.bytes:,} bytes, {done.seconds:.2f} s",
        markup=False,
    )


def show_index_migrated(console: Screen, done: IndexMigrated) -> None:
    """A table whose index type was changed."""
    show_notes(console, done.notes)
    if done.noop:
        console.print(f"the index of {done.table} is {done.index_type} already", markup=False)
        return
    facts = [
        f"{done.keys_checked:,} keys proven unique" if done.keys_checked else "",
        f"{done.rows_built:,} keys built" if done.rows_built else "",
        f"{done.rows_rewritten:,} rows in {done.files_rewritten:,} files rewritten" if done.files_rewritten else "",
        "no file rewritten" if not done.files_rewritten else "",
        f"{done.seconds:.2f} s",
    ]
    what = "would migrate" if done.dry_run else "migrated"
    at = f" at {done.instant}" if done.instant else ""
    console.print(f"{what} {done.before} to {done.index_type}{at}: {', '.join(f for f in facts if f)}", markup=False)


def show_index_dropped(console: Screen, done: IndexDropped) -> None:
    """A stored index that was removed."""
    what = "removed" if done.was_built else "was not built; removed what was left of"
    console.print(f"{what} {done.index_type} ({done.bytes:,} bytes)", markup=False)


def show_index_verified(console: Screen, found: IndexVerified) -> None:
    """What a comparison of a stored index with the files found."""
    console.print(
        f"compared {found.entries:,} entries of {found.index_type} with {found.rows:,} keys in {found.files:,} files; "
        f"{found.seconds:.2f} s",
        markup=False,
    )
    if found.files_behind:
        console.print(f"note: {found.files_behind:,} files are not covered yet; the next write reads them first")
    for count, what in index_faults(found):
        if count:
            console.print(f"{count:,} {what}", markup=False)
    for one in found.examples:
        places = f"stored in {one.stored or 'no file'}, entry says {one.entry or 'nothing'}"
        console.print(f"  {one.kind} {one.key!r}: {places}", markup=False)
    if found.ok:
        console.print("[green]every entry is right[/green]")


def show_index_status(console: Screen, found: IndexStatus) -> None:
    """The state of a stored index."""
    state = "built" if found.is_built else "not built: lakeindex index build TABLE"
    in_metadata = found.kept_in != "lakeindex"
    rows = (
        ("index", found.index_type + ("" if found.is_bound else " (the table is not bound to it)")),
        ("kept in", "the metadata table, by every commit" if in_metadata else "lakeindex's own store"),
        ("state", state),
        ("generation", found.generation or "none"),
        ("covers", f"through {found.covered_through or 'nothing'}; the newest commit is {found.last_commit or 'none'}"),
        ("files", f"{found.files:,} covered, {found.files_behind:,} to be read by the next write"),
        ("deltas", f"{found.deltas:,}"),
        ("keys", "not counted" if found.rows is None else f"{found.rows:,}"),
        ("size", f"{found.bytes:,} bytes"),
    )
    for name, value in rows:
        console.print(f"{name:<11} {value}", markup=False)


def show_metadata_built(console: Screen, done: MetadataBuilt) -> None:
    """What was built of the metadata table."""
    named = ", ".join(done.built)
    console.print(f"built {named}: {done.files:,} files named; {done.seconds:.2f} s", markup=False)


def show_metadata_dropped(console: Screen, done: MetadataDropped) -> None:
    """What was taken away of the metadata table."""
    left = f"; left: {', '.join(done.left)}" if done.left else ""
    console.print(f"dropped {', '.join(done.dropped) or 'nothing: there is no metadata table'}{left}", markup=False)


def show_metadata_status(console: Screen, found: MetadataStatus) -> None:
    """What the metadata table has."""
    if not found.partitions:
        console.print(f"table {found.table} has no metadata table", markup=False)
    for one in found.partitions:
        kept = f"{one.groups} file groups, {one.logs} logs, {one.bytes:,} bytes" if one.kept else "not kept up"
        console.print(f"{one.name:<16} {kept}", markup=False)
    if found.inflight:
        console.print(f"in the making: {', '.join(found.inflight)}", markup=False)
    if found.partitions:
        last = found.last_compaction or "never"
        console.print(f"compacted {last}; {found.delta_commits} delta commits since", markup=False)


def show_metadata_verified(console: Screen, found: MetadataVerified) -> None:
    """What a comparison of the metadata table with the files found."""
    where = f"{found.files:,} files in {found.partitions:,} partitions"
    console.print(f"compared with {where}; {found.seconds:.2f} s", markup=False)
    for kind, count in found.counts.items():
        console.print(f"{count:,} {kind}", markup=False)
    for kind, count in found.record_index.items():
        if count:
            console.print(f"  {count:,} {kind} in the record index", markup=False)
    for one in found.examples:
        console.print(f"  {one.entry or one.kind} {one.path}: says {one.said}, is {one.is_so}", markup=False)
    if found.ok:
        console.print("[green]it says what is there[/green]")


def show_rescaled(console: Screen, done: RescaleSummary) -> None:
    """What was rewritten, and what Hudi writers have to say from now on."""
    show_notes(console, done.notes)
    if done.noop:
        console.print(f"nothing to do: the table has these buckets already{_by(done)}")
        return
    for one in done.partitions:
        before = "another index" if one.buckets_before is None else f"{one.buckets_before} buckets"
        console.print(
            escape(
                f"{one.partition or '(the table)'}: {before} -> {one.buckets_after} ({one.files} files, "
                f"{one.bytes:,} bytes)"
            )
        )
    if done.dry_run:
        console.print(f"would rewrite {sum(one.files for one in done.partitions)} files; nothing was done")
    else:
        console.print(
            f"committed {done.instant}: {done.rows:,} rows in {done.files_created:,} files instead of "
            f"{done.files_replaced:,}, {done.seconds:.1f} s"
        )
    console.print("Hudi writers of this table need:", markup=False)
    for key, text in done.hudi_options.items():
        console.print(f"  {key}={text}", markup=False)


def _by(done: RescaleSummary) -> str:
    return f" (committed by {done.instant})" if done.instant else ""


def show_repaired(console: Screen, done: KeysRepaired) -> None:
    """Keys that were stored more than once."""
    show_notes(console, done.notes)
    if not done.keys:
        console.print(f"every key is stored once in its {done.scope}")
        return
    for one in done.found[:_KEYS_SHOWN]:
        console.print(escape(f"{one.key}: stays in {one.kept}, goes from {', '.join(one.removed)}"))
    if done.keys > _KEYS_SHOWN:
        console.print(f"and {done.keys - min(_KEYS_SHOWN, len(done.found)):,} more keys")
    console.print(
        f"{done.keys:,} keys are stored more than once in their {done.scope}; the {done.keep} row of each stays, "
        f"{done.rows_removed:,} rows go, {done.files_rewritten:,} files change"
    )
    console.print(
        "nothing was written: --apply does it" if done.dry_run else f"committed {done.instant}, {done.seconds:.1f} s"
    )


def index_faults(found: IndexVerified) -> tuple[tuple[int, str], ...]:
    """Counts of what is wrong with a stored index, and what that is."""
    return (
        (found.missing, "keys without an entry"),
        (found.wrong, "entries that name another place"),
        (found.surplus, "entries of keys that are not stored"),
        (found.doubled, "keys stored twice"),
    )
