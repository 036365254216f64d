"""How many bits and hashes a filter gets. Only formulas; Hudi's, so that equal settings give equal bytes.

For ``n`` entries and false-positive probability ``p`` (Hudi ``BloomFilterUtils``; Bloom 1970)::

    bits    m = ceil(n * -ln(p) / ln(2)**2)     at most 2**31 - 1
    hashes  k = ceil(ln(2) * m / n)
    false positives with i keys in it  = (1 - exp(-k * i / m)) ** k

================  =========  ======  ==========================
p asked for       bits/key   hashes  base64 text of 100,000 keys
================  =========  ======  ==========================
1e-2                    9.6       7                     160 kB
1e-4                   19.2      14                     320 kB
1e-6 (default)         28.8      20                     479 kB
1e-9 (Hudi's)          43.1      30                     719 kB
================  =========  ======  ==========================

Hudi's defaults (60,000 entries, 1e-9, growth bounded by 100,000 entries) stop filtering silently on large
files: measured false positives are 0.6 % at 300,000 rows a file, 33 % at 500,000 and 99 % at 1,000,000. So by
default a filter is sized for its file: 1.25 x the rows (room for the next merges), at 1e-6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from lakeindex.errors import OptionError
from lakeindex.options.types import FilterSizing, FilterType, WriteConfig

MAX_BITS: Final = 2**31 - 1
MAX_ENTRIES: Final = 2**31 - 1
EXACT_ROOM: Final = 1.25
EXACT_FPP: Final = 1e-6
HUDI_FPP: Final = 1e-9
_LN2: Final = math.log(2.0)


def bits_for(entries: int, fpp: float) -> int:
    """Bits of a filter row for this many entries (``m``)."""
    return min(math.ceil(entries * (-math.log(fpp) / (_LN2 * _LN2))), MAX_BITS)


def hashes_for(bits: int, entries: int) -> int:
    """Hashes a key (``k``)."""
    return math.ceil(_LN2 * bits / entries)


def false_positive_probability(bits: int, hashes: int, keys: int) -> float:
    """Expected false-positive probability of a filter row that holds this many distinct keys."""
    return float((1.0 - math.exp(-hashes * keys / bits)) ** hashes)


@dataclass(frozen=True, slots=True)
class FilterSize:
    """What a new filter is made for.

    Attributes:
        filter_type: SIMPLE or DYNAMIC_V0.
        entries: entries of one filter row.
        max_entries: bound of a DYNAMIC_V0 filter's growth, in entries.
        fpp: false-positive probability asked for.
    """

    filter_type: FilterType
    entries: int
    max_entries: int
    fpp: float

    @property
    def bits(self) -> int:
        """Bits of one filter row."""
        return bits_for(self.entries, self.fpp)

    @property
    def hashes(self) -> int:
        """Hashes a key."""
        return hashes_for(self.bits, self.entries)

    @property
    def max_rows(self) -> int:
        """Most rows the filter grows to."""
        if self.filter_type is FilterType.SIMPLE:
            return 1
        return max(1, -(-self.max_entries // self.entries))


def size_for(rows: int, config: WriteConfig) -> FilterSize:
    """The size of the filter of a file with this many rows.

    Raises:
        OptionError: the options ask for more bits than Hudi's format can say.
    """
    if config.filter_sizing is FilterSizing.FIXED:
        fpp = HUDI_FPP if config.filter_fpp is None else config.filter_fpp
        size = FilterSize(config.filter_type, config.filter_entries, config.filter_max_entries, fpp)
    else:
        fpp = EXACT_FPP if config.filter_fpp is None else config.filter_fpp
        entries = min(max(1, math.ceil(rows * EXACT_ROOM)), MAX_ENTRIES)
        size = FilterSize(config.filter_type, entries, entries, fpp)
    if size.bits < 1 or size.hashes < 1:
        raise OptionError(
            f"a filter of {size.entries} entries at false-positive probability {size.fpp} has no bits",
            culprit="hoodie.index.bloom.fpp",
            hint="ask for a smaller probability",
        )
    return size
