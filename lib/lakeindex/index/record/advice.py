"""What RECORD_INDEX and RECORD_LEVEL_INDEX have to do for a batch: what any store of sorted shards has."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lakeindex.index.advice import STORED

ADVICE: Final = replace(STORED, is_plain=True)
