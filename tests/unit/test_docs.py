"""What docs/ takes from the code has not drifted from it."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs import DOCS, PARTS, with_part

ROOT = DOCS.parent
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]


@pytest.mark.parametrize(("file", "part"), PARTS.items(), ids=PARTS)
def test_a_generated_part_is_what_the_code_says(file: str, part: tuple[str, Callable[[], str]]) -> None:
    text = (DOCS / file).read_text()
    assert text == with_part(text, part[0], part[1]()), "run: make docs"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []
