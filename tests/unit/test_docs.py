"""The generated parts of docs/, manifests/ and charts/ are current."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tools.generate import FILES, PART, PARTS, ROOT, generated
from webhook.cli.check import check
from webhook.kube import names

PAGES = [
    *(ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("**/*.md")),
]


@pytest.mark.parametrize("file", PARTS)
def test_a_generated_part_is_current(file: str) -> None:
    text = (ROOT / file).read_text()
    assert text == generated(text, PARTS[file]), "run: make generated"


@pytest.mark.parametrize("file", PARTS)
def test_a_file_contains_all_its_generated_parts(file: str) -> None:
    assert {part["name"] for part in PART.finditer((ROOT / file).read_text())} == set(PARTS[file])


@pytest.mark.parametrize("file", FILES)
def test_a_generated_file_is_current(file: str) -> None:
    assert (ROOT / file).read_text() == FILES[file](), "run: make generated"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_file_and_the_heading_of_a_link_exist(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text())
    assert [link for link in links if not target_exists(page, *link)] == []


def target_exists(page: Path, file: str, anchor: str) -> bool:
    target = page.parent / file if file else page
    return target.exists() and (not anchor or anchor in anchors(target.read_text()))


def anchors(text: str) -> list[str]:
    """Return the anchors of a page's headings, as GitHub writes them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("**/*.md")), ids=lambda page: page.name)
def test_a_page_begins_with_its_readers_and_an_example(page: Path) -> None:
    opening = page.read_text().split("\n## ")[0]
    assert opening.split("\n\n")[1].startswith("For ")
    assert "```" in opening or "For example" in opening


def test_there_are_at_most_55_pages_and_the_home_page_and_the_navigation_name_each() -> None:
    docs = ROOT / "docs"
    pages = {str(page.relative_to(docs)) for page in docs.glob("*/*.md")}
    assert len(pages) < 55
    home = set(re.findall(r"\]\(([^)#]+)", (docs / "README.md").read_text()))
    assert sorted(pages - home) == []
    of_the_site = set(re.findall(r"- ([\w/-]+\.md)$", (docs / ".nav.yml").read_text(), re.MULTILINE))
    assert {page for page in pages - of_the_site if not page.startswith("gallery/")} == set()


def test_check_prints_what_the_readme_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = (ROOT / "README.md").read_text().split("$ retry-policy check -f manifests/samples 2>/dev/null\n")[1]
    monkeypatch.chdir(ROOT)
    assert CliRunner().invoke(check, ["-f", "manifests/samples"]).stdout == shown.split("```")[0]


def test_the_page_of_labels_and_annotations_names_the_writers_of_every_key() -> None:
    page = (ROOT / "docs" / "reference" / "labels-and-annotations.md").read_text()
    table = page.split("## Who writes what")[1]
    keys = re.findall(r"^\|[^|]+\| `([A-Za-z-]+)` \|[^|]+\|[^|]+\|$", table, re.MULTILINE)
    known = {
        value.removeprefix(names.PREFIX)
        for value in vars(names).values()
        if isinstance(value, str) and value.startswith(names.PREFIX) and value != names.PREFIX
    }
    rows = 'the rows of "Who writes what" in docs/reference/labels-and-annotations.md'
    assert sorted(known - {*keys}) == [], f"add them to {rows}"
    assert sorted({*keys} - known) == [], f"take them out of {rows}: webhook/kube/names.py lacks them"
    assert len(keys) == len(set(keys)) + 1  # of Namespaces, and of workloads: profile
