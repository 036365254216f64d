"""Write the option tables of docs/options.md and the README, and that of properties in docs/format.md;
``--check`` only says whether they are up to date.

The tables come from ``lakeindex.options.option_table`` and ``lakeindex.options.parse``.
Each stands between two markers, which name it.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from lakeindex.options.option_table import BY_KEY, OPTION_AREAS, options_table
from lakeindex.options.parse import NOTED_OPTIONS, NOTED_VALUES, REFUSED_OPTIONS
from lakeindex.table.property_keys import inventory_table

ROOT: Final = Path(__file__).resolve().parents[1]
PAGES: Final = (ROOT / "docs/options.md", ROOT / "README.md", ROOT / "docs/format.md")

FIRST_OPTIONS: Final = (
    "hoodie.index.type",
    "hoodie.write.record.merge.mode",
    "hoodie.parquet.max.file.size",
    "hoodie.parquet.small.file.limit",
    "lakeindex.memory",
    "lakeindex.lock.wait",
    "lakeindex.metadata.table",
    "hoodie.cleaner.commits.retained",
)
"""The options that a newcomer needs; the README shows them, at most eight."""

_MARKED: Final = re.compile(r"<!-- made by scripts/options_page\.py: (\w+) -->\n.*?<!-- end -->", re.DOTALL)


def by_area() -> str:
    """A heading and a table for each area; each option is in one of them."""
    return "\n\n".join(f"### {area}\n\n{options_table(options)}" for area, options in OPTION_AREAS.items())


def first_options() -> str:
    return options_table(BY_KEY[key] for key in FIRST_OPTIONS)


def noted_table() -> str:
    """Options of Hudi that are accepted and change nothing, as a Markdown table."""
    rows = [f"| `{key}` | {NOTED_VALUES.get(key, '')} | {why} |" for key, why in sorted(NOTED_OPTIONS.items())]
    return "\n".join(["| option of Hudi | only value | why it changes nothing |", "|---|---|---|", *rows])


def refused_table() -> str:
    """Options of Hudi that are refused, as a Markdown table."""
    rows = [f"| `{key}` | {instead} |" for key, instead in sorted(REFUSED_OPTIONS.items())]
    return "\n".join(["| option of Hudi | why, and what to do instead |", "|---|---|", *rows])


TABLES: Final[dict[str, Callable[[], str]]] = {
    "areas": by_area,
    "first": first_options,
    "noted": noted_table,
    "refused": refused_table,
    "properties": inventory_table,
}


def with_tables(text: str) -> str:
    """A page's text with fresh tables between its markers."""
    return _MARKED.sub(
        lambda match: f"<!-- made by scripts/options_page.py: {match[1]} -->\n\n{TABLES[match[1]]()}\n\n<!-- end -->",
        text,
    )


def main() -> int:
    """Write, or check; 1 if a check finds a page stale."""
    stale = 0
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        fresh = with_tables(text)
        if "--check" not in sys.argv:
            page.write_text(fresh, encoding="utf-8")
        elif fresh != text:
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
