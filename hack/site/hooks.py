"""MkDocs hooks: what is outside docs/ and belongs to the site, and lists that are nested as on GitHub.

Pages link to files of the repository, such as a manifest. The site contains each of these files, so that it needs no
other host: pages of the repository's root as pages, all others as they are.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from markdown import Extension
from markdown.blockprocessors import build_block_parser
from markdown_it import MarkdownIt
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File

if TYPE_CHECKING:
    from markdown import Markdown
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = "docs"
HOME: Final = "README.md"
PAGES: Final = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
PROJECT: Final = "project"  # the section of PAGES
FILES: Final = "files"  # the folder of files that are not pages
LOG: Final = get_plugin_logger("site")
COMMON_MARK: Final = MarkdownIt("commonmark").enable("table")
TAGS: Final = re.compile(r"<(li|ol|ul|table|pre|h[1-6])\b")
LINK: Final = re.compile(r"(?<=\]\()(?P<file>[^)#:\s]+)(?P<anchor>#[^)\s]*)?(?=\))")


class NestedByTwo(Extension):  # type: ignore[misc] # types of the site's packages are not installed
    """Nests the contents of a list as GitHub does, by two or three spaces; Python-Markdown demands four."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - Python-Markdown's name
        """Build the block parser anew, because its parts have read the number of spaces already."""
        md.tab_length = 2
        md.parser = build_block_parser(md)


def on_config(config: MkDocsConfig) -> None:
    """Add the extension as the first one: those after it extend the block parser."""
    config.markdown_extensions.insert(0, NestedByTwo())


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages of the root, and every file to which a page links."""
    for name in PAGES:
        files.append(File.generated(config, f"{PROJECT}/{name}", abs_src_path=str(ROOT / name)))
    wanted = set()
    for page in files.documentation_pages():
        for link in LINK.finditer(page.content_string):
            wanted.add(target(origin(page.src_uri), link["file"]))
    for path in sorted(wanted):
        if in_site(path).startswith(f"{FILES}/") and (ROOT / path).is_file():
            files.append(File.generated(config, in_site(path), abs_src_path=str(ROOT / path)))


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Point links to the place that a file has in the site."""
    here = page.file.src_uri
    if here == HOME:
        page.meta["hide"] = ["navigation"]  # the tabs above it have all sections

    def pointed(link: re.Match[str]) -> str:
        path = target(origin(here), link["file"])
        if origin(here) == f"{DOCS}/{here}" and path.startswith(f"{DOCS}/"):
            return link[0]  # from docs/ to docs/
        if not (ROOT / path).exists():
            return link[0]  # MkDocs reports it
        return posixpath.relpath(in_site(path), PurePosixPath(here).parent) + (link["anchor"] or "")

    return LINK.sub(pointed, markdown)


def on_page_content(html: str, page: Page, **_: object) -> None:
    """Warn if a page has other lists, tables or blocks of code than on GitHub, which `--strict` makes an error."""
    expected = Counter(TAGS.findall(COMMON_MARK.render(page.markdown or "")))
    if (found := Counter(TAGS.findall(html))) != expected:
        differences = {
            tag: f"{found[tag]}, on GitHub {expected[tag]}" for tag in expected if found[tag] != expected[tag]
        }
        LOG.warning("%s: %s; is a blank line missing?", page.file.src_uri, differences)


def origin(uri: str) -> str:
    """Return the path in the repository of a page of the site."""
    section, _, name = uri.partition("/")
    return name if section == PROJECT and name in PAGES else f"{DOCS}/{uri}"


def target(page: str, link: str) -> str:
    """Return the path in the repository of the file to which a page links."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def in_site(path: str) -> str:
    """Return the path in the site's sources of a file of the repository."""
    if path in PAGES:
        return f"{PROJECT}/{path}"
    return path.removeprefix(f"{DOCS}/") if path.startswith(f"{DOCS}/") else f"{FILES}/{path}"
