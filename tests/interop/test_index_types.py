"""Tables written with each of our index types, upserted into by Hudi with its own, and by us again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.hudi_client import HudiServer
from tests.interop.rows import SIMPLE
from tests.interop.story import keeping_story

pytestmark = pytest.mark.interop

_PAIRS = [
    ("BLOOM", "SIMPLE"),
    ("SIMPLE", "BLOOM"),
    ("GLOBAL_SIMPLE", "SIMPLE"),
    ("INMEMORY", "BLOOM"),
    ("RECORD_LEVEL_INDEX", "BLOOM"),
]


@pytest.mark.parametrize(("ours", "hudis"), _PAIRS)
def test_turns_under_two_index_types(hudi: HudiServer, folder: Path, ours: str, hudis: str) -> None:
    story = keeping_story(folder, SIMPLE, hudi)
    story.options |= {"hoodie.index.type": hudis}
    story.we_create({"hoodie.index.type": ours})
    story.we_upsert(range(60), 1)
    story.hudi_upserts(range(40, 90), 2)
    story.hudi_deletes(range(5))
    story.we_upsert(range(30, 100), 3)  # the summary is compared with the replay: no false insert, none missed
    story.hudi_upserts(range(80, 110), 4)
    story.judge(f"{ours} and Hudi's {hudis}", sound=True)
