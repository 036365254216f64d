"""What SIMPLE and GLOBAL_SIMPLE have to do for a batch."""

from __future__ import annotations

from typing import Final

from lakeindex.index.advice import Expected, KindAdvice, Workload, mean_file_bytes
from lakeindex.index.cost import LookupLoad
from lakeindex.options.types import WriteConfig


def _expected(work: Workload, config: WriteConfig) -> Expected:
    """Every key is compared with every file."""
    del config
    load = LookupLoad(work.keys, work.files, pairs_verified=work.possible)
    opened = work.opening(load, work.files, work.rows)
    return Expected(opened, work.possible, work.files_updated, mean_file_bytes(work))


ADVICE: Final = KindAdvice(_expected, is_plain=True)
