"""Options of clustering: how files are chosen and sorted, and what becomes of writes to planned file groups."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from lakeindex.errors import UsageError
from lakeindex.frozen import Frozen
from lakeindex.options.option import Option, OptionArea, names_of, one_of, whole
from lakeindex.options.types import WriteConfig

_PLAN: Final = "hoodie.clustering.plan.strategy."
SORT_COLUMNS_OPTION: Final = f"{_PLAN}sort.columns"
LAYOUT_OPTION: Final = "hoodie.layout.optimize.strategy"
UPDATES_OPTION: Final = "hoodie.clustering.updates.strategy"
_STRATEGIES: Final = "org.apache.hudi.client.clustering.update.strategy."


class ClusteringUpdates(StrEnum):
    """What a write does about a pending clustering whose file groups it changes; Hudi's classes, by the last part of
    their names.
    """

    REJECT = "SparkRejectUpdateStrategy"
    ALLOW = "SparkAllowUpdateStrategy"


class Curve(StrEnum):
    """In which order rows are put by the columns that they are sorted by."""

    LINEAR = "linear"
    Z_ORDER = "z-order"
    HILBERT = "hilbert"
    NONE = "none"


class ClusteringOptions(Frozen):
    """What a clustering was told; None: as for new base files.

    Attributes:
        columns: to sort by; without any, by the record key.
    """

    updates: ClusteringUpdates = ClusteringUpdates.REJECT
    columns: tuple[str, ...] = ()
    curve: Curve = Curve.LINEAR
    target_bytes: int | None = None
    small_bytes: int | None = None
    group_bytes: int = 2 * 1024**3
    least_files: int = 8
    least_candidates: int = 4


_WITHOUT_COLUMNS: Final = {"key": Curve.LINEAR, "none": Curve.NONE}
_CURVES: Final = {"columns": Curve.LINEAR, "zorder": Curve.Z_ORDER, "hilbert": Curve.HILBERT}


def sorted_by(
    config: WriteConfig, sort: str | None, columns: Sequence[str] | None, target_bytes: int | None
) -> WriteConfig:
    """The options with what a call says in their place.

    Args:
        sort: key, columns, zorder, hilbert or none; None: as the options say.

    Raises:
        UsageError: there is no such order, or columns are given for the order by key, or missing.
    """
    if sort is not None and sort not in _WITHOUT_COLUMNS and sort not in _CURVES:
        valid = ", ".join((*_WITHOUT_COLUMNS, *_CURVES))
        raise UsageError(f"rows cannot be sorted by {sort!r}", culprit=sort, hint=f"valid: {valid}")
    if sort in _WITHOUT_COLUMNS and columns:
        order = "by key" if sort == "key" else "that rows have"
        raise UsageError(
            f"the order {order} has no columns", culprit=", ".join(columns), hint="say sort=columns, zorder or hilbert"
        )
    named = tuple(columns or ())
    if sort in _WITHOUT_COLUMNS:
        config = config.having(ClusteringOptions, "columns", ())
        config = config.having(ClusteringOptions, "curve", _WITHOUT_COLUMNS[sort])
    elif sort is not None and not named and not config.of(ClusteringOptions).columns:
        raise UsageError(f"sort={sort} needs columns", culprit=sort, hint="name them: --columns a,b")
    if named:
        config = config.having(ClusteringOptions, "columns", tuple(dict.fromkeys(named)))
    if sort in _CURVES:
        config = config.having(ClusteringOptions, "curve", _CURVES[sort])
    if target_bytes is not None:
        config = config.having(ClusteringOptions, "target_bytes", target_bytes)
    return config


def _columns(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    if not all(found):
        raise ValueError(text)
    return found


def _updates(text: str) -> ClusteringUpdates:
    return ClusteringUpdates(text.strip().removeprefix(_STRATEGIES))


# fmt: off
AREA: Final = OptionArea(
    title="Clustering",
    config=ClusteringOptions,
    options=(
        Option(UPDATES_OPTION, "updates", _updates, names_of(ClusteringUpdates),
               "A write that changes file groups of a pending clustering is refused (exit code 5), or goes on: the "
               "clustering is rolled back then, or plans anew. Writes to other file groups always go on."),
        Option(SORT_COLUMNS_OPTION, "columns", _columns, "columns, separated by commas",
               "Clustering sorts by these columns. Default: by the record key."),
        Option(LAYOUT_OPTION, "curve", one_of(Curve), names_of(Curve),
               "In which order clustering puts rows by these columns: one column after the other, or along a curve "
               "that keeps neighbours in all columns together. `none` (not Hudi's): rows stay in the order that they "
               "have, small files are only put together."),
        Option(_PLAN + "target.file.max.bytes", "target_bytes", whole(1), "bytes, 1 or more",
               "Clustering: target size of a base file. Default: `hoodie.parquet.max.file.size`; in Hudi 1 GiB."),
        Option(_PLAN + "small.file.limit", "small_bytes", whole(0), "bytes, 0 or more",
               "Clustering: files below this are small. Default: `hoodie.parquet.small.file.limit`; in Hudi 300 MiB."),
        Option(_PLAN + "max.bytes.per.group", "group_bytes", whole(1), "bytes, 1 or more",
               "Clustering: most bytes of files that are put together as one group."),
        Option("lakeindex.clustering.least.files", "least_files", whole(2, 1_000_000), "files, 2 or more",
               "`maintain` clusters a partition with so many small files."),
        Option("lakeindex.clustering.least.candidates", "least_candidates", whole(2, 1_000_000), "files, 2 or more",
               "`maintain` clusters a partition in which the key ranges of so many files hold a key on average."),
    ),
)
# fmt: on
