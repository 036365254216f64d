"""What STATE has to do for a batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lakeindex.index.advice import STORED, Expected, KindAdvice, Workload
from lakeindex.options.types import WriteConfig


def _expected(work: Workload, config: WriteConfig) -> Expected:
    return replace(STORED.expected(work, config), note="needs Spark")


ADVICE: Final = KindAdvice(_expected)
