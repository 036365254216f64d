"""Write the option tables of the README from the typed options; ``--check`` only says whether they are up to date."""

import sys
from pathlib import Path

from lakeindex.config import CREATE_OPTIONS, options_table

README = Path(__file__).resolve().parents[1] / "README.md"
START, END = "<!-- options: made from lakeindex.config -->", "<!-- end of options -->"


def with_tables(text: str) -> str:
    """The README's text with fresh option tables between the markers."""
    before, rest = text.split(START)
    after = rest.split(END)[1]
    tables = f"Of `upsert` and `delete`:\n\n{options_table()}\n\nOf `create`:\n\n{options_table(CREATE_OPTIONS)}"
    return f"{before}{START}\n\n{tables}\n\n{END}{after}"


def main() -> int:
    """Write, or check; 1 if a check finds them stale."""
    text = README.read_text()
    fresh = with_tables(text)
    if "--check" in sys.argv:
        return int(fresh != text)
    README.write_text(fresh)
    return 0


if __name__ == "__main__":
    sys.exit(main())
