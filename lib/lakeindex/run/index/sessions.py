"""Which session the index of a run has. The sessions of stored indexes are loaded when one is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeindex.index.registry import index_for, stored_index_for
from lakeindex.run.index.index_session import IndexSession
from lakeindex.run.spec import RunSpec, TableFacts
from lakeindex.tasks.runner import Runner
from lakeindex.tasks.stores import storage_at

if TYPE_CHECKING:
    from lakeindex.run.index.stored_session import StoredSession


def session_for(spec: RunSpec, facts: TableFacts, runner: Runner) -> IndexSession:
    index = index_for(facts.index).stored
    if index is None:
        return IndexSession(spec, facts, runner)
    from lakeindex.run.index.in_metadata import MetadataSession, is_in_metadata
    from lakeindex.run.index.stored_session import InProcessSession, StoredSession

    if is_in_metadata(storage_at(spec.table_uri), index):
        return MetadataSession(spec, facts, runner, index)
    kind = InProcessSession if index.in_process else StoredSession
    return kind(spec, facts, runner, index)


def stored_session(spec: RunSpec, facts: TableFacts, runner: Runner) -> StoredSession:
    """The session of an index that is built. Raises: OptionError: the index stores nothing."""
    from lakeindex.run.index.stored_session import StoredSession

    return StoredSession(spec, facts, runner, stored_index_for(facts.index))
