"""What HBASE has to do for a batch."""

from __future__ import annotations

from typing import Final

from lakeindex.index.advice import Expected, KindAdvice, Workload, located
from lakeindex.index.cost import LookupLoad
from lakeindex.options.types import WriteConfig

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
