"""Keyword arguments of the methods of a table: each is declared once, here, and passed on by its name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, TypeVar, cast

from lakeindex.options.types import ReportFormat

if TYPE_CHECKING:
    from lakeindex.api.batch_data import BatchData, PathText
    from lakeindex.options.parse import Options
    from lakeindex.tasks.progress_bars import ProgressChoice
    from lakeindex.tasks.runner import Runner
    from lakeindex.write.merge_function import Merge

F = TypeVar("F", bound=Callable[..., Any])

SchemaModeName: TypeAlias = Literal["strict", "add", "widen"]
"""What a batch may change of the table's columns."""

SortName: TypeAlias = Literal["key", "columns", "zorder", "hilbert", "none"]
"""In which order clustering puts rows."""
OnConflict: TypeAlias = Literal["error", "ignore"]
"""What becomes of a row whose key is stored."""

Nulls: TypeAlias = Literal["overwrite", "keep"]
"""What a null of a partial update does: it is stored, or leaves the stored value."""


class FolderArguments(TypedDict, total=False):
    """Arguments of everything that has options and working data."""

    options: Options | None
    """``hoodie.*`` and ``lakeindex.*`` options."""
    checkpoints: PathText | None
    """Root of the run folders; by default ``<table>.lakeindex`` beside the table."""


class RunnerArguments(TypedDict, total=False):
    """Arguments of everything that has tasks."""

    runner: Runner | str
    """``local`` (the default), ``spark``, or a runner."""
    master: str | None
    """Spark master, if a session has to be created."""
    progress: ProgressChoice
    """Receives the progress of the steps; by default bars in a notebook and on a terminal; False: none."""


class IndexArguments(FolderArguments, RunnerArguments, total=False):
    """Arguments of the methods that concern a stored index, and of maintenance."""


class ClusterArguments(RunnerArguments, total=False):
    """Arguments of a clustering."""

    target_size: int | None
    """Bytes of a new file, about."""
    small_files_only: bool
    """Leave files alone that are not small."""
    max_bytes: int | None
    """Most bytes of base files that are rewritten; the partitions with most files come first."""
    schedule: bool
    """Only put the plan on the timeline, for a later call or for Hudi."""
    instant: str | None
    """Carry out a plan that is on the timeline, Hudi's or ours, in its order."""
    dry_run: bool
    """Say what would be put together, and do nothing."""
    force: bool
    """Consider every pending instant of another writer dead."""
    options: Options | None
    """``hoodie.*`` and ``lakeindex.*`` options."""


class ImportArguments(FolderArguments, total=False):
    """Arguments of an import, beside those of the table that it makes."""

    like: BatchData
    """The columns and their types, instead of those of the files: a schema, text, a file, or what has columns."""
    combine: bool
    """Of rows with one key, keep the one that is newest by the ordering column."""
    max_bytes: int | None
    """Bytes of the source that are committed together, about; 16 GiB if it is not given."""
    dry_run: bool
    """Only look at the source, and say what would be made."""
    progress: ProgressChoice
    """Receives the progress of the steps, as of a write."""
    storage_options: Mapping[str, str] | None
    """As of :func:`lakeindex.open_table`."""


class ReplaceArguments(FolderArguments, total=False):
    """Arguments of a write without a batch."""

    batch_id: str | None
    """Name of the batch: the same id is committed once."""
    run_id: str | None
    """Name of the run folder; by default made from the batch id, or new."""
    force: bool
    """Commit a used batch id again; roll back pending instants of other writers whatever their age."""
    report: ReportFormat
    """Format of the run's report if ``lakeindex.report`` is not given."""
    dry_run: bool
    """Say what would be done, and write nothing, neither to the table nor beside it; on threads only."""


class RunArguments(RunnerArguments, ReplaceArguments, total=False):
    """Arguments of a write of rows."""

    max_quarantined: int
    """Bad rows that are tolerated; 0 if not given."""
    schema_mode: SchemaModeName | None
    """What the batch may change of the table's columns: ``strict``: nothing, ``add``: columns are added, ``widen``: the
    same, and numbers become wider; by default as ``lakeindex.schema.mode`` says: nothing."""


class UpsertArguments(RunArguments, total=False):
    """Arguments of an upsert."""

    update_if: str | None
    """A row whose key is stored replaces the stored row only if this holds: text over ``old.<column>`` and
    ``new.<column>``."""
    insert_if: str | None
    """A row whose key is not stored is inserted only if this holds: text over ``new.<column>``."""
    delete_if: str | None
    """The stored row is deleted if this holds; it is asked before ``update_if``."""
    partial: bool
    """The batch may lack columns: they stay as they are in the rows that it updates."""
    nulls: Nulls | None
    """Of a partial update, whether a null is stored (``overwrite``, the default) or leaves the stored value
    (``keep``)."""
    merge: Merge | str | None
    """A function that gets stored rows and rows of the batch with their keys, as Arrow tables, and returns what is
    stored; or its name, ``module:function``."""


DEFAULTS: Final[UpsertArguments] = {
    "runner": "local",
    "force": False,
    "report": ReportFormat.JSON,
    "dry_run": False,
    "max_quarantined": 0,
    "partial": False,
}
"""Of all other arguments it is None."""


def with_defaults(arguments: FolderArguments | RunnerArguments) -> UpsertArguments:
    """All arguments; those that are not given have their defaults."""
    return cast(UpsertArguments, {**dict.fromkeys(UpsertArguments.__annotations__), **DEFAULTS, **arguments})


def names_of_arguments(kind: type) -> Callable[[F], F]:
    """A method whose ``**arguments`` are those of a TypedDict: ``inspect.signature``, help and editors show them by
    name, and any other is refused.
    """
    types = {name: getattr(one, "__forward_arg__", one) for name, one in kind.__annotations__.items()}
    passed = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=DEFAULTS.get(name), annotation=one)
        for name, one in types.items()
    ]

    def named(method: F) -> F:
        shown = inspect.signature(method)
        own = [one for one in shown.parameters.values() if one.kind is not one.VAR_KEYWORD]
        known = frozenset(one.name for one in (*own, *passed))

        @functools.wraps(method)
        def checked(*given: Any, **arguments: Any) -> Any:
            unknown = sorted(arguments.keys() - known)
            if unknown:
                raise TypeError(f"{method.__name__}() got an unexpected keyword argument {unknown[0]!r}")
            return method(*given, **arguments)

        checked.__signature__ = shown.replace(parameters=[*own, *passed])  # type: ignore[attr-defined] # inspect's name
        return cast(F, checked)

    return named
