"""Each view is reached, read and used by the keyboard alone."""

import pytest

from tests import reports
from tests.page.conftest import Show
from webhook.insight.report.model import Report

VIEWS = ["Workloads", "Namespaces", "Profiles", "Nodes", "Zones", "Close to limits"]
OUTLINE = """() => { const style = getComputedStyle(document.activeElement);
  return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2; }"""


@pytest.fixture(scope="module")
def report() -> Report:
    return reports.report(200)


def test_the_first_stop_skips_to_the_content(show: Show, report: Report) -> None:
    page = show(report)
    page.press("Tab")
    assert page.focused() == "Skip to the content"
    page.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


@pytest.mark.parametrize("name", VIEWS)
def test_each_view_is_reached_and_gets_the_focus(show: Show, report: Report, name: str) -> None:
    page = show(report)
    page.tab_to(f"nav a[href='#{ {'Close to limits': 'limits'}.get(name, name.lower()) }']")
    page.press("Enter")
    page.until("document.activeElement.matches('h2')")
    assert page.heading() == {"Close to limits": "Close to their limits"}.get(name, name)
    assert page.page.locator("nav a[aria-current=page]").inner_text().startswith(name)


def test_from_the_cluster_to_the_rule_that_decided(show: Show, report: Report) -> None:
    page = show(report)
    page.tab_to("nav a[href='#workloads']")
    page.press("Enter")
    page.tab_to("#view-workloads tbody a")
    second = page.names("workloads")[1]
    page.press("ArrowDown", "Enter")
    page.until("document.activeElement.matches('#view-workload h2')")
    assert page.heading() == second
    page.tab_to(".attempt")
    page.press("Home")
    first = page.focused()
    details = page.page.locator(".details")
    assert details.get_by_text("Decided by").count() == 1
    pod = details.locator("h3").inner_text()
    page.press("ArrowRight")
    assert page.focused() != first
    assert details.locator("h3").inner_text() != pod
    page.tab_to("#view-workload tbody button")
    page.press("ArrowDown", "Enter")
    assert page.page.locator("#view-workload tbody tr.chosen").count() == 1
    assert page.evaluate("document.activeElement.matches('#view-workload tbody button')")


def test_the_back_link_keeps_the_filter(show: Show, report: Report) -> None:
    page = show(report, "#workloads?state=Failed")
    failed = page.names("workloads")
    page.tab_to("#view-workloads tbody a")
    page.press("Enter")
    page.until("document.activeElement.matches('#view-workload h2')")
    page.evaluate("document.querySelector('.back a').focus()")
    page.press("Enter")
    page.view("workloads").wait_for()
    assert page.names("workloads") == failed
    assert {one.state for one in report.workloads if one.name in failed} == {"Failed"}


def test_a_header_sorts_and_says_so(show: Show, report: Report) -> None:
    page = show(report, "#workloads")
    page.evaluate("document.querySelector('#view-workloads thead button').focus()")
    page.press("Enter")
    header = page.view("workloads").locator("thead th").first
    assert header.get_attribute("aria-sort") == "ascending"
    assert page.names("workloads") == sorted(one.name for one in report.workloads)[:50]
    page.press("Enter")
    assert header.get_attribute("aria-sort") == "descending"
    assert page.names("workloads") == sorted((one.name for one in report.workloads), reverse=True)[:50]
    others = page.view("workloads").locator("thead th[aria-sort=none]").count()
    assert others == page.view("workloads").locator("thead th").count() - 1


def test_page_down_in_a_table_shows_its_next_rows(show: Show, report: Report) -> None:
    page = show(report, "#workloads")
    first = page.names("workloads")
    page.tab_to("#view-workloads tbody a")
    page.press("PageDown")
    assert set(page.names("workloads")).isdisjoint(first)
    assert page.focused() == page.names("workloads")[0]
    page.press("PageUp", "End")
    assert page.focused() == first[-1]


def test_the_arrow_keys_read_each_bar_of_a_chart(show: Show, report: Report) -> None:
    page = show(report)
    page.tab_to("#causes-chart svg")
    page.press("Home")
    bucket = report.series[0]
    words = page.page.locator("#causes-chart .readout").inner_text()
    assert words.startswith("16 Nov 00:00 \u2013 03:00: ")
    assert f"Succeeded {bucket.causes['Succeeded']}" in words
    page.press("End")
    assert page.page.locator("#causes-chart .readout").inner_text() != words


def test_a_chart_has_a_table_with_its_numbers(show: Show, report: Report) -> None:
    page = show(report)
    page.tab_to("#causes-chart summary")
    page.press("Enter")
    rows = page.page.locator("#causes-chart tbody tr")
    rows.first.wait_for()
    assert rows.count() == len(report.series)
    column = page.page.locator("#causes-chart thead th").all_inner_texts().index("Succeeded")
    shown = [int(row.locator("th, td").nth(column).inner_text()) for row in rows.all()]
    assert shown == [one.causes.get("Succeeded", 0) for one in report.series]


@pytest.mark.parametrize("view", ["#overview", "#workloads", "#nodes", "#workload"])
def test_the_focus_is_visible_at_each_stop(show: Show, report: Report, view: str) -> None:
    if view == "#workload":
        view += f"?uid={max(report.workloads, key=lambda one: len(one.attempts)).uid}"
    page = show(report, view)
    stops = 0
    page.press("Tab")
    while not page.evaluate("document.activeElement === document.body") and stops < 80:
        assert page.evaluate(OUTLINE), page.focused()
        stops += 1
        page.press("Tab")
    assert 10 < stops < 80  # rows of a table are one stop
