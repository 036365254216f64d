"""The site's hook: links out of ``docs/`` lead to pages, tables come from the library, nothing is loaded from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from mkdocs.config import load_config
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files, get_files
from mkdocs.structure.pages import Page

from lakeindex.options.option_table import CREATE_OPTIONS, OPTIONS
from lakeindex.options.parse import NOTED_OPTIONS, REFUSED_OPTIONS

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import api_page  # noqa: E402 - a script of the checkout
import docs_docstrings  # noqa: E402 - as above
import docs_site  # noqa: E402 - as above


@pytest.fixture(scope="module")
def files() -> Files:
    config = load_config(str(ROOT / "mkdocs.yml"))
    config.plugins._current_plugin = "docs_site"  # MkDocs sets it when it calls a hook
    return docs_site.on_files(get_files(config), config)


def rendered(files: Files, uri: str) -> str:
    file = files.get_file_from_path(uri)
    assert file is not None, f"no page {uri}"
    config = load_config(str(ROOT / "mkdocs.yml"))
    return docs_site.on_page_markdown(file.content_string, Page(None, file, config), config, files)


def test_a_link_to_a_source_file_leads_to_a_page_that_shows_it(files: Files) -> None:
    assert "](source/tests/contract/sqlite_index/sqlite.py.md)" in rendered(files, "adding-an-index.md")
    shown = files.get_file_from_path("source/tests/contract/sqlite_index/sqlite.py.md")
    assert shown is not None
    assert (ROOT / "tests/contract/sqlite_index/sqlite.py").read_text() in shown.content_string


def test_markdown_of_the_checkout_is_a_page_whose_links_are_turned(files: Files) -> None:
    assert "](benchmarks.md)" in rendered(files, "performance.md")
    assert "](performance.md)" in rendered(files, "benchmarks.md")
    assert "](commit-protocol.md)" in rendered(files, "changelog.md") or "](format.md)" in rendered(
        files, "changelog.md"
    )


def test_a_notebook_is_a_page_of_its_texts_and_its_code(files: Files) -> None:
    page = rendered(files, "first-hour.md")
    assert page.startswith("# The first hour\n")
    assert "```python\nimport datetime as dt" in page
    assert "](reading.md)" in page


def test_a_link_that_leads_nowhere_is_left_for_the_strict_build(files: Files) -> None:
    config = load_config(str(ROOT / "mkdocs.yml"))
    file = files.get_file_from_path("cli.md")
    assert file is not None
    text = "[a](../no/such.py) [b](https://example.com/x) [c](#here) [d](reading.md#what-narrows)"
    assert docs_site.on_page_markdown(text, Page(None, file, config), config, files) == text


def test_the_page_of_options_has_every_option(files: Files) -> None:
    text = rendered(files, "options.md")
    wanted = {o.key for o in (*OPTIONS, *CREATE_OPTIONS)} | NOTED_OPTIONS.keys() | REFUSED_OPTIONS.keys()
    assert {key for key in wanted if f"| `{key}` |" not in text} == set()


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ('<script src="https://cdn.example/x.js"></script>', ["https://cdn.example/x.js"]),
        ('<link rel="stylesheet" href="//cdn.example/x.css">', ["//cdn.example/x.css"]),
        ('<img src="http://example.com/x.png">', ["http://example.com/x.png"]),
        ('<a href="https://example.com">x</a><script src="assets/x.js"></script>', []),
        ('<link rel="canonical" href="https://example.com/">', []),
    ],
)
def test_what_a_page_would_load_is_found(html: str, found: list[str]) -> None:
    assert docs_site.loaded_from_elsewhere(html) == found


def test_a_site_that_loads_from_elsewhere_is_refused(tmp_path: Path) -> None:
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path))
    (tmp_path / "x.html").write_text('<script src="https://cdn.example/x.js"></script>')
    with pytest.raises(PluginError, match=r"x\.html: https://cdn\.example/x\.js"):
        docs_site.on_post_build(config)


def test_docstrings_become_markdown() -> None:
    text = "As :func:`run` and :class:`~a.b.C`: ``x``::\n\n    y\n"
    assert docs_docstrings.as_markdown(text) == "As `run` and `a.b.C`: `x`:\n\n    y\n"
    assert docs_docstrings.as_markdown("A tree.\n\n::\n\n    y\n") == "A tree.\n\n\n    y\n"


def test_an_example_of_a_docstring_is_a_block_of_code() -> None:
    text = "Do ``it``.\n\n>>> one(\n...     2\n... )\n3\n>>> two()\n\nMore.\n\nArgs:\n    x: that::\n"
    assert docs_docstrings.as_markdown(text) == (
        "Do `it`.\n\n```pycon\n>>> one(\n...     2\n... )\n3\n>>> two()\n```\n\nMore.\n\nArgs:\n    x: that:\n"
    )


@pytest.mark.slow
def test_arguments_of_the_python_page_are_listed_one_by_one() -> None:
    """Those of a typed dictionary that extends another, too, each with its description, below a signature that is not
    run.
    """
    for path in (
        "api.table.LakeTable.upsert",
        "api.operations.TableOperations.delete",
        "api.table.LakeTable.index_build",
    ):
        name = path.rpartition(".")[2]
        text = api_page.reference(3, path, [])
        head, _, rest = text.partition("\n```\n")
        assert head.startswith(f"### {name}\n\n```text\n{name}(\n")
        named = set(re.findall(r"(?m)^    (\w+): ", head))
        assert {"options", "checkpoints", "runner"} <= named
        described = re.findall(r"(?m)^- `(\w+)`: .", rest)
        assert named <= set(described)
    assert "update_if" in api_page.reference(3, "api.table.LakeTable.upsert", [])


def test_names_of_options_may_break_at_their_dots() -> None:
    html = "<td><code>lakeindex.lock.wait</code></td><td><code>a.b</code></td>"
    broken = "<td><code>lakeindex.<wbr>lock.<wbr>wait</code></td><td><code>a.b</code></td>"
    assert docs_site.on_page_content(html) == broken


def test_a_dead_link_and_a_dead_anchor_end_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text("[gone](gone.md)\n\n[nowhere](#nowhere)\n")
    config = (ROOT / "mkdocs.yml").read_text().split("\nvalidation:")[1].split("\nnav:")[0]
    (tmp_path / "mkdocs.yml").write_text(f"site_name: x\nvalidation:{config}\n")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(tmp_path / "mkdocs.yml")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "gone.md" in done.stderr
    assert "#nowhere" in done.stderr
