"""HTML of results for notebooks: plain tables, in the notebook's own style.
Every text in them is data and is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape


def facts_html(title: str, facts: Mapping[str, object]) -> str:
    """A title, and a line for each fact; those that are None or empty are left out.

    >>> facts_html("t", {"rows": 1200, "by": "<b>", "gone": None})
    '<p><strong>t</strong></p><table><tr><th>rows</th><td>1,200</td></tr><tr><th>by</th><td>&lt;b&gt;</td></tr></table>'
    """
    lines = "".join(
        f"<tr><th>{escape(name)}</th><td>{_text(value)}</td></tr>" for name, value in facts.items() if _is_said(value)
    )
    return f"<p><strong>{escape(title)}</strong></p><table>{lines}</table>"


def rows_html(columns: Sequence[str], rows: Iterable[Sequence[object]], *, more: int = 0) -> str:
    """Rows under their columns.

    Args:
        columns: names.
        rows: a value for each column.
        more: rows that are not shown.

    >>> rows_html(["a"], [["x & y"]], more=2)
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>x &amp; y</td></tr></tbody></table><p>and 2 more</p>'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{_text(value)}</td>' for value in row)}</tr>" for row in rows)
    rest = f"<p>and {more:,} more</p>" if more else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _is_said(value: object) -> bool:
    return value is not None and value not in ("", ())


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, (tuple, list)):
        return escape(", ".join(str(one) for one in value))
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return escape(f"{value:.3g}" if isinstance(value, float) else str(value))
