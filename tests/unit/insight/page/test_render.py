"""The file that a report becomes. What it does in a browser: tests/page."""

import html.parser
import json
import re
from importlib import resources
from typing import Any, Final

import msgspec
import pytest

from tests import reports
from tests.costs import assert_grows_with_its_input
from webhook.insight.page import render as module
from webhook.insight.page.render import as_json, bounded, digest, live_page, render
from webhook.insight.report.model import Report


class Read(html.parser.HTMLParser):
    """Reads a page as a browser does: its elements, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] in {"script", "style"} and data.strip():
            self.texts.append((self.elements[-1][0], data))

    @property
    def policy(self) -> str:
        (found,) = (one["content"] for _, one in self.elements if one.get("http-equiv") == "Content-Security-Policy")
        assert found is not None
        return found


FETCHING: Final = {"src", "href", "srcset", "data", "action", "poster", "background"}


@pytest.mark.parametrize("hostile", [False, True])
def test_the_page_has_the_whole_report_as_json(*, hostile: bool) -> None:
    report = reports.report(30, hostile=hostile)
    page = Read(render(report))
    (text,) = [text for tag, text in page.texts if tag == "script" and text.startswith("{")]
    assert msgspec.json.decode(text, type=Report) == report


def test_hostile_names_become_no_element() -> None:
    tame, hostile = (Read(render(reports.report(30, hostile=hostile))) for hostile in (False, True))
    assert hostile.elements == tame.elements
    text = render(reports.report(30, hostile=True))
    assert "<script>alert(1)" not in text
    assert "<!--" not in text.partition('id="report"')[2].partition("</script>")[0]


@pytest.mark.parametrize("text", [render(reports.empty()), live_page()], ids=["report", "dashboard"])
def test_the_page_names_no_other_host_and_has_no_inline_code(text: str) -> None:
    page = Read(text)
    addresses = {one[name] or "" for _, one in page.elements for name in FETCHING & one.keys()}
    assert addresses <= {"data:,", "#main", "page.css", "page.js"}
    assert [name for _, one in page.elements for name in one if name.startswith("on") or name == "style"] == []
    without_namespace = text.replace("http://www.w3.org/2000/svg", "")
    assert re.findall(r"(?:https?:)?//[\w.-]+\.\w{2,}", without_namespace) == []


def test_the_policy_allows_just_the_script_and_the_style_that_are_in_the_page() -> None:
    page = Read(render(reports.empty()))
    by_tag = {tag: text for tag, text in page.texts if not text.startswith("{")}
    allowed = dict(one.strip().split(" ", 1) for one in page.policy.split(";"))
    assert allowed["script-src"] == f"'{digest(by_tag['script'])}'"
    assert allowed["style-src"] == f"'{digest(by_tag['style'])}'"
    assert {allowed[name] for name in ("default-src", "base-uri", "form-action", "trusted-types")} == {"'none'"}
    assert "connect-src" not in allowed


def test_the_script_uses_nothing_that_turns_text_into_markup_or_code() -> None:
    code = module.page_script()
    found = re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|\.srcdoc", code)
    assert found == []


def test_all_files_of_the_package_are_in_the_page() -> None:
    files = {
        one.name
        for one in resources.files("webhook.insight.page").iterdir()
        if one.name.endswith((".js", ".css", ".html"))
    }
    assert files == {*module.SCRIPTS, "page.css", "page.html"}


def test_a_report_with_too_many_workloads_keeps_those_that_lost_most_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_WORKLOADS", 10)
    report = reports.report(40)
    kept = bounded(report)
    assert kept.workloads == report.workloads[:10]
    assert kept.total == report.total
    assert "leaves out the 30 workloads that lost least" in kept.notes[-1]
    assert set(kept.near_limit) <= {row.uid for row in kept.workloads}


def test_a_report_with_too_many_attempts_lists_those_of_the_first_workloads_and_counts_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_LISTED", 20)
    report = reports.report(40)
    kept = bounded(report)
    assert sum(len(row.attempts) for row in kept.workloads) == 20
    for before, after in zip(report.workloads, kept.workloads, strict=True):
        assert after.attempts_not_listed - before.attempts_not_listed == len(before.attempts) - len(after.attempts)
        assert after.attempts == before.attempts[len(before.attempts) - len(after.attempts) :]
    assert "leaves out attempts of the" in kept.notes[-1]


def test_each_list_of_the_page_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MOST_WORKLOADS", "MOST_PLACES", "MOST_GROUPS", "MOST_BUCKETS", "MOST_NOTES"):
        monkeypatch.setattr(module, name, 2)
    shown: dict[str, Any] = json.loads(as_json(reports.report(40)))
    lengths = {name: len(value) for name, value in shown.items() if isinstance(value, list)}
    assert lengths.pop("notes") <= 4  # and what is left out
    assert max(lengths.values()) == 2


def test_four_times_the_workloads_cost_at_most_five_times_as_much() -> None:
    assert_grows_with_its_input(render, reports.report, 500)
