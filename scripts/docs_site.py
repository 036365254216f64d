"""What MkDocs does not do by itself for this site: pages of files outside ``docs/`` (a hook of mkdocs.yml).

* A page may link to any file of the checkout, as it does on a code host. Markdown files named in ``PAGES`` become
  pages of their own; another text file becomes a page that shows it; a link to what is not there stays as it is, so
  that the strict build names it.
* The option tables, which ``scripts/options_page.py`` writes into pages, are made anew,
  so that the site is never stale.
* After the build every page is searched for what it would load from another place: there must be nothing.
"""

from __future__ import annotations

import json
import posixpath
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "lib"), str(ROOT / "scripts")]

from options_page import with_tables  # noqa: E402 - beside this file

DOCS: Final = "docs"
PAGES: Final = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "benchmarks/README.md": "benchmarks.md",
    "examples/first_hour.ipynb": "first-hour.md",
}
"""Markdown and notebooks of the checkout outside ``docs/`` -> the page. The README's place is the first page's."""

SHOWN: Final = "source"
"""Folder of the pages that show a file of the checkout."""

OPTIONS_PAGE: Final = "options.md"
LANGUAGES: Final = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".json": "json", ".sh": "bash"}

_LINK = re.compile(r"(?P<before>\]\()(?P<target>[^)\s#]+)(?P<after>(?:#[^)\s]*)?(?:\s+\"[^\"]*\")?\))")
_OPTION: Final = re.compile(r"<td><code>(?:hoodie|lakeindex|index)\.[^<]*</code>")
_LOADED: Final = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made of files outside ``docs/``: those in ``PAGES``, and all that a page links to."""
    for path, uri in PAGES.items():
        if (ROOT / path).is_file() and uri not in files.src_uris:
            files.append(_generated(config, uri, _markdown_of(path)))
    for file in list(files.documentation_pages()):
        for match in _LINK.finditer(file.content_string):
            path = _checkout_path(file.src_uri, match["target"])
            if path is not None and _is_shown(path) and _uri_of(path) not in files.src_uris:
                files.append(_generated(config, _uri_of(path), _as_page(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Point links at pages, and fill the tables in."""
    del config
    uri = page.file.src_uri

    def pointed(match: re.Match[str]) -> str:
        path = _checkout_path(uri, match["target"])
        if path is None or _uri_of(path) not in files.src_uris:
            return match[0]
        target = posixpath.relpath(_uri_of(path), posixpath.dirname(uri) or ".")
        return f"{match['before']}{target}{match['after']}"

    if not uri.startswith(f"{SHOWN}/"):
        markdown = _LINK.sub(pointed, markdown)
    if uri == OPTIONS_PAGE:
        page.meta["hide"] = ["toc"]  # wide tables: they get its room
    return with_tables(markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Let names of options break at their dots, for narrow screens."""
    return _OPTION.sub(lambda match: match[0].replace(".", ".<wbr>"), html)


def on_post_build(config: MkDocsConfig) -> None:
    """Refuse a site that would load anything over the network."""
    site = Path(config.site_dir)
    found = {
        f"{path.relative_to(site)}: {url}"
        for path in sorted(site.rglob("*.html"))
        for url in loaded_from_elsewhere(path.read_text(encoding="utf-8"))
    }
    if found:
        raise PluginError("pages load from other places: " + ", ".join(sorted(found)))


def loaded_from_elsewhere(html: str) -> list[str]:
    """Addresses of scripts, styles, pictures and frames that are not part of the site."""
    finder = _Loads()
    finder.feed(html)
    return finder.found


class _Loads(HTMLParser):
    """Collects what a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        url = given.get(_LOADED.get(tag, "")) or ""
        is_loaded = tag != "link" or (given.get("rel") or "") not in ("canonical", "next", "prev")
        if is_loaded and re.match(r"(?:[a-z]+:)?//", url):
            self.found.append(url)


def _checkout_path(uri: str, target: str) -> str | None:
    """Path in the checkout that a link of a page means; None if it leads elsewhere,
    or to a file in ``docs/`` from there.
    """
    if "://" in target or target.startswith(("/", "mailto:")):
        return None
    source = _source_of(uri)
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if path.startswith("../") or not (ROOT / path).is_file():
        return None
    return path


def _source_of(uri: str) -> str:
    """Where a page's Markdown stands in the checkout."""
    made_from = {page: path for path, page in PAGES.items() if path != "README.md"}
    return made_from.get(uri, f"{DOCS}/{uri}")


def _uri_of(path: str) -> str:
    """Page (or file of the site) that shows a file of the checkout."""
    if path.startswith(f"{DOCS}/"):
        return path.removeprefix(f"{DOCS}/")
    return PAGES.get(path, f"{SHOWN}/{path}.md")


def _is_shown(path: str) -> bool:
    return path not in PAGES and not path.startswith(f"{DOCS}/")


def _markdown_of(path: str) -> str:
    """A file of the checkout as Markdown: a notebook's code stands between its texts."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if not path.endswith(".ipynb"):
        return text
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(text)["cells"]]
    parts = [f"```python\n{source}\n```" if kind == "code" else source for kind, source in cells]
    return "\n\n".join(parts) + "\n"


def _as_page(path: str) -> str:
    text = (ROOT / path).read_text(encoding="utf-8")
    language = LANGUAGES.get(Path(path).suffix, "text")
    return f"# {path}\n\n````{language}\n{text}````\n"


def _generated(config: MkDocsConfig, uri: str, text: str) -> File:
    inclusion = InclusionLevel.NOT_IN_NAV if uri.startswith(f"{SHOWN}/") else InclusionLevel.UNDEFINED
    return File.generated(config, uri, content=text, inclusion=inclusion)
