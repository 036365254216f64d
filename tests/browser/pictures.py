"""Pictures of what the tests see; none are taken unless ``LAKEINDEX_PICTURES`` names the folder of those that pages show."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Final

from PIL import Image
from playwright.sync_api import FloatRect, Page

SHOWN: Final = os.environ.get("LAKEINDEX_PICTURES")
LAKE: Final = Path("/srv/data")
"""Where the tables are while pictures are taken: they show paths. It must not be there, and goes afterwards."""
LOOKED_AT: Final = Path(__file__).resolve().parents[2] / "build" / "pictures"
"""Those that a person looks at once and no page shows."""


def show(page: Page, name: str, clip: FloatRect) -> None:
    """Take a part of a page for the documentation."""
    if SHOWN:
        shot = page.screenshot(animations="disabled", clip=clip)
        with Image.open(io.BytesIO(shot)) as image:  # a page has few colours: a third of the bytes
            image.quantize(96).save(Path(SHOWN) / f"{name}.png", optimize=True)


def look(page: Page, name: str, *, full_page: bool = False) -> None:
    """Take a page, or what is seen of it, to be looked at."""
    if SHOWN:
        page.screenshot(path=str(LOOKED_AT / f"{name}.png"), full_page=full_page)
