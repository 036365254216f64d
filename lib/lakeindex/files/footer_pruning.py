"""Which of some sorted keys one base file may hold, by its footer alone: key range first, then the filter."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakeindex.bloom import filter_candidates, usable_filter
from lakeindex.files.footer_cache import FooterCache
from lakeindex.files.footers import Footer, read_footer
from lakeindex.hashing.arrow import string_buffers
from lakeindex.index.key_ranges import KeyRange, prune
from lakeindex.model import BaseFile
from lakeindex.storage.port import Storage


def rows_that_may_be_in(storage: Storage, file: BaseFile, keys: pa.Array) -> np.ndarray:
    """Rows of ``keys`` (sorted by UTF-8 bytes) that a file may hold: int64, ascending."""
    footer = _footer(storage, file)
    slices = prune(keys, [KeyRange(footer.min_key, footer.max_key)])
    first, last = int(slices.from_row[0]), int(slices.to_row[0])
    bloom = usable_filter(footer.filter_text, footer.filter_type, footer.rows)
    return filter_candidates(bloom, string_buffers(keys), first, last)


def _footer(storage: Storage, file: BaseFile) -> Footer:
    cache = FooterCache(storage)
    known = cache.load([file]).get(file.path)
    found = None if known is None else cache.load_filter(known[1], file)
    return found if found is not None else read_footer(storage, file)
