"""What INMEMORY has to do for a batch."""

from __future__ import annotations

from typing import Final

from lakeindex.index.advice import Expected, KindAdvice, Workload, located
from lakeindex.index.cost import LookupLoad
from lakeindex.options.types import WriteConfig


def _expected(work: Workload, config: WriteConfig) -> Expected:
    del config
    note = "for tests: every process reads the whole table's keys first (the build)"
    return located(work, LookupLoad(work.keys, work.files), note)


ADVICE: Final = KindAdvice(_expected)
