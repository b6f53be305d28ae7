"""The generated parts of docs/, manifests/ and charts/ are current."""

import re
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

import pytest
from click.testing import CliRunner

from tests.admission import mutate, validate
from tests.objects import pod
from tools.generate import FILES, PART, PARTS, ROOT, generated
from webhook.cli.check import check
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.rules.facts import Facts
from webhook.systems.core import METADATA, POD_TEMPLATE
from webhook.systems.kind_spec import KindSpec, RetryField
from webhook.systems.kinds import CONTROLLERS, KINDS
from webhook.systems.pod_source import Evidence, Level, PodSource
from webhook.systems.pods import SOURCES

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
    first = opening.split("\n\n")[1]
    assert first.startswith("For ")
    assert "After this page" in first
    assert "```" in opening or "For example" in opening


def test_the_index_links_to_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    named = {(index.parent / link).resolve() for link in re.findall(r"\]\(([^)#]+)", index.read_text())}
    assert sorted(page for page in (ROOT / "docs").glob("*/*.md") if page not in named) == []


def test_check_prints_what_the_readme_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = (ROOT / "README.md").read_text().split("$ retry-policy check -f manifests/samples 2>/dev/null\n")[1]
    monkeypatch.chdir(ROOT)
    assert CliRunner().invoke(check, ["-f", "manifests/samples"]).stdout == shown.split("```")[0]


def test_the_page_of_labels_and_annotations_names_the_writers_of_every_key() -> None:
    page = (ROOT / "docs" / "reference" / "labels-and-annotations.md").read_text()
    table = page.split("## Who writes what")[1]
    keys = re.findall(r"^\|[^|]+\| `([a-z-]+)` \|[^|]+\|[^|]+\|$", table, re.MULTILINE)
    assert set(keys) == {
        value.removeprefix(names.PREFIX)
        for value in vars(names).values()
        if isinstance(value, str) and value.startswith(names.PREFIX) and value != names.PREFIX
    }
    assert len(keys) == len(set(keys)) + 1  # of Namespaces, and of workloads: profile


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the kind that docs/how-to/add-a-kind.md adds."""
    page = (ROOT / "docs" / "how-to" / "add-a-kind.md").read_text()
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(dedent(block), given := dict(GIVEN))  # noqa: S102 - our own page
        if "RENDER" in given:
            row = given["RENDER"]
            monkeypatch.setitem(KINDS, (row.group, row.kind), row)
            monkeypatch.setitem(CONTROLLERS, (row.group, row.kind.lower()), row)
        else:
            for source in given["PODS"]:
                monkeypatch.setitem(SOURCES, source.controller, (source,))


GIVEN: Final[dict[str, Any]] = {
    "Evidence": Evidence,
    "Final": Final,
    "Level": Level,
    "METADATA": METADATA,
    "POD_TEMPLATE": POD_TEMPLATE,
    "PodSource": PodSource,
    "RetryField": RetryField,
    "KindSpec": KindSpec,
}
RENDER: Final[Json] = {"apiVersion": "example.dev/v1", "kind": "Render", "metadata": {"name": "film"}}


@pytest.mark.usefixtures("example")
def test_the_limit_applies_to_the_kind_that_the_docs_add() -> None:
    answer = validate({**RENDER, "spec": {"tries": 12}})
    assert answer.message.startswith("spec.tries: 11 retries exceed the limit of 10")
    assert mutate({**RENDER, "spec": {}}).object["spec"] == {"tries": 4}


@pytest.mark.usefixtures("example")
def test_the_pods_of_the_kind_that_the_docs_add_have_an_attempt() -> None:
    root = pod(owner=None, annotations={"example.dev/try": "2"})
    reference = {"apiVersion": "example.dev/v1", "kind": "Render", "name": "film", "uid": "u", "controller": True}
    root["metadata"]["ownerReferences"] = [reference]
    annotations = mutate(root, Facts(profile_name="default")).object["metadata"]["annotations"]
    assert (annotations[names.ATTEMPT], annotations[names.ATTEMPT_SOURCE]) == ("2", "Render")
