"""Options of BLOOM and GLOBAL_BLOOM."""

from __future__ import annotations

from typing import Final

from lakeindex.errors import OptionError
from lakeindex.frozen import Frozen
from lakeindex.options.option import FLAG, Option, OptionArea, flag
from lakeindex.options.types import WriteConfig

USE_METADATA_OPTION: Final = "hoodie.bloom.index.use.metadata"


class BloomOptions(Frozen):
    """How the bloom index looks keys up."""

    prune_by_ranges: bool = True
    treebased_filter: bool | None = None
    moves_rows: bool = True
    use_metadata: bool = False


def _check(config: WriteConfig) -> None:
    if config.of(BloomOptions).use_metadata and not config.footer_cache:
        raise OptionError(
            f"option {USE_METADATA_OPTION}=true needs the footer cache, and lakeindex.footer.cache=false turns it off",
            culprit=USE_METADATA_OPTION,
            hint="remove one of the two options",
        )


# A table of options, not code: the formatter would give each argument a line.
# fmt: off
AREA: Final = OptionArea(
    "BLOOM and GLOBAL_BLOOM",
    BloomOptions,
    (
        Option("hoodie.bloom.index.prune.by.ranges", "prune_by_ranges", flag, FLAG,
               "Skip files whose key range excludes a key, before their bloom filters are read."),
        Option("hoodie.bloom.index.use.treebased.filter", "treebased_filter", flag, FLAG,
               "Algorithm of range pruning: an interval tree (`true`), a list (`false`), "
               "or binary search over the sorted keys (not set). The result is the same."),
        Option("hoodie.bloom.index.update.partition.path", "moves_rows", flag, FLAG,
               "GLOBAL_BLOOM, if a stored key arrives with another partition: "
               "`true` moves the row to that partition, `false` updates the row in its present partition."),
        Option(USE_METADATA_OPTION, "use_metadata", flag, FLAG,
               "Take key ranges from `column_stats` and filters from `bloom_filters` of the metadata table, of files "
               "that are not in the footer cache. Footers are read of files without an entry (`footers_read` in the "
               "summary counts them), and added to the cache. On a table without these partitions the look-up is from "
               "the cache alone, which must be writable."),
    ),
    check=_check,
)
# fmt: on
