"""What a look-up costs with each kind of index: a small linear model over counts.

Counts are expectations: keys asked, (key, file) pairs that are compared, files opened, rows in them. Each stage is a
sum of counts times constants; the constants are measured by ``python -m benchmarks.calibrate`` on the machine that
stands in :mod:`lakeindex.index.cost_constants`. The model is good for comparing index types on one table; its error is
kept in every run's summary (``estimate``) and shown by ``lakeindex advise``.

Files that hold at least one of ``n`` pairs of which each is true with probability ``q``: ``1 - (1 - q) ** n`` a file.
Filters let through ``fpp`` of the false pairs (:mod:`lakeindex.bloom.filter`).
"""

from __future__ import annotations

from typing import Final

from lakeindex.frozen import Frozen

FILTER_BYTES_A_ROW: Final = 4.5
"""Of a filter sized exactly: 28.8 bits a key at 1e-6, for 1.25 x the rows."""
FOOTER_TEXT: Final = 4 / 3
"""A footer holds its filter as base64 text."""
_ENTRY_BYTES: Final = 24.0
"""Bytes of an entry of a store of sorted Parquet shards, compressed, about."""
_ENTRY_GROUP: Final = 10_000.0
"""Entries that are read together there."""


class CostConstants(Frozen):
    """Seconds for one of each, with the tasks at once that they were measured with.

    Attributes:
        stage: starting a stage: checkpoints, manifest.
        footer: a footer that is read because it is not cached.
        request: a request to the store, beside the bytes.
        file_opened: a base file whose key column is read.
        requests_a_file: requests to open a base file and read its key column.
        key_share: the key column's share of a base file's bytes, where it is not known.
    """

    stage: float
    file_in_scope: float
    footer: float
    request: float
    key_located: float
    entry_read: float
    filter: float
    filter_byte: float
    pair_probed: float
    file_opened: float
    row_matched: float
    pair_verified: float
    byte_rewritten: float
    requests_a_file: float
    key_share: float

    def slower_store(self, request: float) -> CostConstants:
        """The same on a store on which a request takes ``request`` seconds."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return CostConstants(**{**values, "request": max(request, self.request)})


class LookupLoad(Frozen):
    """Counts of one look-up with one kind of index; expectations, so they need not be whole.

    Attributes:
        footers_read: footers that are not cached (of kinds that need them).
        store_bytes: their bytes.
        filter_rows: rows of their files.
        pairs_probed: pairs after range pruning.
        pairs_verified: pairs after filters.
        footer_bytes: bytes of the footers read, of opened files too.
    """

    keys: float
    files: float
    footers_read: float = 0.0
    keys_located: float = 0.0
    entries_read: float = 0.0
    store_bytes: float = 0.0
    store_requests: float = 0.0
    filters: float = 0.0
    filter_rows: float = 0.0
    pairs_probed: float = 0.0
    pairs_verified: float = 0.0
    files_opened: float = 0.0
    rows_matched: float = 0.0
    key_bytes: float = 0.0
    footer_bytes: float = 0.0

    @property
    def bytes_read(self) -> float:
        return self.store_bytes + self.filter_rows * FILTER_BYTES_A_ROW + self.key_bytes + self.footer_bytes


class LookupCost(Frozen):
    """Seconds by stage."""

    index_lookup: float
    bloom_check: float
    verify_keys: float

    @property
    def seconds(self) -> float:
        return self.index_lookup + self.bloom_check + self.verify_keys


def requests_of(load: LookupLoad, constants: CostConstants) -> float:
    """Requests beyond those that every run makes."""
    return load.footers_read * 1.5 + load.store_requests + load.files_opened * constants.requests_a_file


def cost_of(load: LookupLoad, constants: CostConstants, *, has_filters: bool) -> LookupCost:
    """Seconds of a look-up."""
    c = constants
    lookup = (
        c.stage
        + c.file_in_scope * load.files
        + (c.footer + 1.5 * c.request) * load.footers_read
        + c.key_located * load.keys_located
        + c.entry_read * load.entries_read
        + c.request * load.store_requests
    )
    probe = 0.0
    if has_filters:
        probe = (
            c.stage
            + c.filter * load.filters
            + c.filter_byte * load.filter_rows * FILTER_BYTES_A_ROW
            + c.pair_probed * load.pairs_probed
        )
    verify = (
        c.stage
        + (c.file_opened + c.request * c.requests_a_file) * load.files_opened
        + c.row_matched * load.rows_matched
        + c.pair_verified * load.pairs_verified
    )
    return LookupCost(lookup, probe, verify)


def entries_of(rows: float, keys: float) -> tuple[float, float]:
    """Entries, and their bytes, that a store of sorted shards reads to find keys; each of ``rows`` is an entry."""
    entries = _ENTRY_GROUP * touched(max(rows / _ENTRY_GROUP, 1.0), keys) if rows else 0.0
    return min(entries, rows), min(entries, rows) * _ENTRY_BYTES


def hit_chance(pairs: float, true_share: float) -> float:
    """Chance that a file holds at least one key of its pairs, of which a share (0 to 1) is true."""
    if pairs <= 0:
        return 0.0
    return float(1.0 - (1.0 - min(max(true_share, 0.0), 1.0)) ** pairs)


def touched(groups: float, keys: float) -> float:
    """Groups that are hit when keys fall into equally likely groups: ``g * (1 - (1 - 1/g) ** n)``."""
    return groups * hit_chance(keys, 1.0 / groups) if groups > 0 else 0.0
