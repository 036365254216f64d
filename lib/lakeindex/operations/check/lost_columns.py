"""Check that no commit of ours lost a column that the table had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lakeindex.format.avro_columns import columns_of
from lakeindex.operations.check.violations import Broken, Violation
from lakeindex.operations.written_slices import Commits
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import ATTEMPT_KEY

_HINT = (
    "an older lakeindex wrote it while another writer added the column: "
    "roll it back if it is the newest commit, else add the column again with Hudi and upsert its values"
)


def columns_then(commits: Commits) -> Mapping[str, frozenset[str]]:
    """Which columns the table had at each commit of ours: those of the commits before it, and its own.

    A column that a commit of Hudi's no longer names was dropped on purpose
    (``hoodie.datasource.write.schema.allow.auto.evolution.column.drop``); we drop none.
    """
    known: frozenset[str] = frozenset()
    found: dict[str, frozenset[str]] = {}
    for instant, metadata in commits:
        if metadata.schema_text is None:
            continue
        named = frozenset(columns_of(metadata.schema_text))
        is_ours = ATTEMPT_KEY in metadata.extra_metadata
        known = known | named if is_ours else named
        if is_ours:
            found[instant.time] = known
    return found


def check_commit_columns(timeline: Timeline, commits: Commits) -> Iterator[Violation]:
    """Commits of ours whose schema lacks a column that the table had."""
    then = columns_then(commits)
    for instant, metadata in commits:
        if instant.time in then and metadata.schema_text is not None:
            for name in sorted(then[instant.time] - set(columns_of(metadata.schema_text))):
                path = timeline.path(instant)
                yield Violation(Broken.COMMIT, path, f"{path}: the commit lost the table's column {name!r}", _HINT)


def lost_columns(path: str, names: list[str], then: frozenset[str]) -> Iterator[Violation]:
    """Columns that a file lacks though the table had them when it was written.

    Args:
        then: the table's columns when it was written; empty if that is not known.
    """
    for name in sorted(then - set(names)):
        yield Violation(Broken.FILE, path, f"{path} lost the column {name!r}, which the table had", _HINT)
