"""HBASE: what it has to do for a batch, which is asked without its client, and the kind, which needs that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakeindex.index.advice import Expected, KindAdvice, Workload, located
from lakeindex.index.cost import LookupLoad
from lakeindex.model import IndexSpec
from lakeindex.options.types import WriteConfig

if TYPE_CHECKING:
    from lakeindex.index.hbase.hbase_store import HBaseIndex

_ROW_BYTES: Final = 100.0
"""Bytes of a row on the wire, about."""
_BATCH: Final = 1_000.0
"""Keys a request."""


def _expected(work: Workload, config: WriteConfig) -> Expected:
    del config
    found = work.keys * work.updates
    load = LookupLoad(work.keys, work.files, store_requests=work.keys / _BATCH, store_bytes=found * _ROW_BYTES)
    return located(work, load, "needs an HBase server")


ADVICE: Final = KindAdvice(_expected)


def make_index(spec: IndexSpec) -> HBaseIndex:
    """The kind. Raises: ModuleNotFoundError: happybase is not installed."""
    from lakeindex.index.hbase.hbase_store import HBaseIndex

    return HBaseIndex(spec)
