"""What the pages show is run: Python blocks, and commands with their output."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from contextlib import ExitStack
from importlib.metadata import requires
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeindex
from lakeindex.catalogs.glue import glue_catalog
from lakeindex.options.sync_options import SyncOptions
from tests.builders import as_hudis, make_table
from tests.docs.examples import blocks_of, matches, run_command, run_page
from tests.moto_server import empty_glue, moto_here, use_aws
from tests.scheduling import some_of

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
DAYS = ("2026-10-01", "2026-10-02")
ORDERS = pa.schema(
    [
        pa.field("order_id", pa.string(), nullable=False),
        ("day", pa.string()),
        ("amount", pa.float64()),
        ("status", pa.string()),
        ("updated_at", pa.int64()),
    ]
)


def orders(first: int, count: int, updated_at: int, status: str) -> pa.Table:
    """Orders k00000, k00001, ... spread over the days."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "order_id": [f"k{number:05d}" for number in numbers],
            "day": [DAYS[number % 2] for number in numbers],
            "amount": [float(number % 100) / 2 for number in numbers],
            "status": [status] * count,
            "updated_at": [updated_at] * count,
        },
        schema=ORDERS,
    )


def files_of_orders() -> None:
    """A first batch, a second one in ``new/``, keys to look for, and rows to forget."""
    Path("lake").mkdir()
    Path("new").mkdir()
    pq.write_table(orders(0, 1000, 1, "open"), "orders.parquet")
    pq.write_table(orders(900, 200, 2, "paid"), "new/orders.parquet")
    pq.write_table(orders(122, 2, 0, "open").select(["order_id"]), "keys.parquet")
    pq.write_table(orders(10, 5, 0, "open").select(["order_id", "day"]), "to_forget.parquet")


def table_of_orders() -> None:
    """The same, and the table with the first batch in it."""
    files_of_orders()
    make_table("lake/orders", schema=ORDERS, keys=("order_id",), partitions=("day",), ordering="updated_at").upsert(
        "orders.parquet", batch_id="orders/first"
    )


def table_of_a_service() -> None:
    """The same as Hudi would leave it: version 6, a metadata table, nothing of ours."""
    files_of_orders()
    table = lakeindex.create_table(
        "lake/orders", ORDERS, key="order_id", partition="day", ordering="updated_at", table_version=6, metadata=True
    )
    table.upsert("orders.parquet", batch_id="orders/first")
    as_hudis(table)


def table_of_a_service_and_glue() -> None:
    """The same, and Glue, which knows it as the service's own sync tells."""
    table_of_a_service()
    lakeindex.open_table("lake/orders").sync("glue")


def table_of_orders_beside_glue() -> None:
    """The same, and Glue, which knows nothing."""
    table_of_orders()


def nothing() -> None:
    """The page makes all it needs."""


PAGES: dict[str, Callable[[], None]] = {
    "../README.md": files_of_orders,
    "index.md": files_of_orders,
    "api.md": nothing,
    "columns.md": table_of_orders,
    "operations.md": table_of_orders,
    "reading.md": table_of_orders,
    "recipes.md": table_of_a_service_and_glue,
    "catalogs.md": table_of_orders_beside_glue,
    "how-to.md": nothing,
    "tutorial.md": nothing,
    "from-delta-rs.md": nothing,
}
"""Pages with blocks that are run -> what is there before."""

EXCERPTS = "adding-an-index.md"
"""Its code is compared with the code that is run: tests/docs/test_guide.py."""


PLAIN = {"../README.md", "index.md", "api.md", "how-to.md"}
"""Pages for which nothing but lakeindex is installed."""

EXTRAS = ("polars", "pandas", "duckdb", "pyspark", "airflow", "deltalake", "hudi", "matplotlib")


class Gone:
    """Finds none of these packages, nor lets others find them."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize(
    "name", some_of(PAGES, lambda name: name not in ("tutorial.md", "how-to.md"), pytest.mark.slow)
)
@pytest.mark.slow
def test_a_page_does_what_it_shows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in PLAIN:
        monkeypatch.setattr(sys, "meta_path", [Gone(), *sys.meta_path])
        for module in [one for one in sys.modules if one.partition(".")[0] in EXTRAS]:
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(ROOT / "lib"), str(ROOT))))
    with ExitStack() as stack:
        if PAGES[name] in (table_of_orders_beside_glue, table_of_a_service_and_glue):
            use_aws(monkeypatch, stack.enter_context(moto_here()))
            empty_glue(glue_catalog(SyncOptions())._client)
        PAGES[name]()
        assert run_page(DOCS / name) > 0


def test_pages_for_a_plain_installation_ask_for_what_it_has() -> None:
    """The packages that are taken away are none that lakeindex depends on."""
    needed = {re.split(r"[^a-z0-9-]", one.lower())[0] for one in requires("lakeindex") or () if "extra ==" not in one}
    assert {"pyarrow", "click", "rich"} <= needed
    assert needed.isdisjoint(EXTRAS)


def test_every_block_is_run_or_says_why_not() -> None:
    silent = [
        f"{page.name}:{block.line}"
        for page in [*sorted(DOCS.glob("*.md")), ROOT / "README.md"]
        if page.name not in (*(Path(name).name for name in PAGES), EXCERPTS)
        for block in blocks_of(page)
        if block.left_out is None
    ]
    assert silent == []


def test_a_command_that_prints_something_else_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo one; echo two\none\nthree\n```\n")
    with pytest.raises(AssertionError, match=r"page\.md:2: echo one; echo two\nprinted\none\ntwo"):
        run_page(page)


def test_a_command_that_fails_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ lakeindex inspect nowhere\n```\n")
    with pytest.raises(AssertionError, match="ended with 4"):
        run_page(page)


def test_a_python_block_that_fails_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nx = 1\n```\n\n<!-- not run: no reason -->\n```python\n1 / 0\n```\n\n```python\nassert x == 2\n```\n"
    )
    assert [block.left_out for block in blocks_of(page)] == [None, "no reason", None]
    with pytest.raises(AssertionError):
        run_page(page)


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        (["committed 20261121193447100, 4.42 s, 3.0 MiB"], ["committed 20270101000000000, 0.1 s, 12 B"], True),
        (["kept 50.27 %"], ["kept 50.28 %"], False),
        (["1,012 inserts"], ["1,013 inserts"], False),
        (["a", "...", "z"], ["a", "b", "c", "z"], True),
        (["a", "..."], ["a"], True),
        (["a"], ["a", "b"], False),
        (["a    b"], ["a b"], True),
        ([], ["anything"], True),
    ],
)
def test_output_is_compared_but_for_what_varies(shown: list[str], printed: list[str], same: bool) -> None:
    assert matches(shown, printed) is same


def test_patterns_are_expanded_as_by_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files_of_orders()
    assert [path.name for path in Path("new").iterdir()] == ["orders.parquet"]
    assert run_command("lakeindex create lake/t --like new/*.parquet --key order_id")[0] == 0
    assert run_command("lakeindex upsert lake/t *.nothing")[0] == 3
