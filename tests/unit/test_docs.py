"""What docs/ and manifests/ take from the code has not drifted from it."""

import re
from pathlib import Path

import pytest

from tests.generated import PART, PARTS, ROOT, generated

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("file", PARTS)
def test_a_generated_part_is_what_the_code_says(file: str) -> None:
    text = (ROOT / file).read_text()
    assert text == generated(text, PARTS[file]), "run: make generated"


@pytest.mark.parametrize("file", PARTS)
def test_every_generated_part_stands_somewhere(file: str) -> None:
    assert {part["name"] for part in PART.finditer((ROOT / file).read_text())} == set(PARTS[file])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []
