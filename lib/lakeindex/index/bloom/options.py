"""Options of BLOOM and GLOBAL_BLOOM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakeindex.errors import OptionError
from lakeindex.options.option import Option, OptionArea
from lakeindex.options.types import WriteConfig
from lakeindex.options.values import FLAG, flag

CACHE_ONLY_OPTION: Final = "hoodie.bloom.index.use.metadata"


@dataclass(frozen=True, slots=True)
class BloomOptions:
    """How the bloom index looks keys up."""

    prune_by_ranges: bool = True
    treebased_filter: bool | None = None
    moves_rows: bool = True
    filters_from_cache_only: bool = False


def _check(config: WriteConfig) -> None:
    if config.of(BloomOptions).filters_from_cache_only and not config.footer_cache:
        raise OptionError(
            f"option {CACHE_ONLY_OPTION}=true needs the footer cache, and lakeindex.footer.cache=false turns it off",
            culprit=CACHE_ONLY_OPTION,
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
        Option(CACHE_ONLY_OPTION, "filters_from_cache_only", flag, FLAG,
               "Look up from the footer cache only. Footers that are missing from the cache are added to it first "
               "(`footers_read` in the summary counts them), so the cache must be writable. Hudi's metadata table is "
               "never used."),
    ),
    check=_check,
)
# fmt: on
