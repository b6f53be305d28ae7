"""Names that a browser could take for markup, code or an address do nothing."""

import pytest

from tests import reports
from tests.page.conftest import Show
from webhook.insight.report.model import Report

VIEWS = ["overview", "workloads", "namespaces", "profiles", "nodes", "zones", "limits"]


@pytest.fixture(scope="module")
def report() -> Report:
    return reports.report(120, hostile=True)


def test_hostile_names_are_shown_as_text_and_do_nothing(show: Show, report: Report) -> None:
    """`show` fails the test at a dialog, a request, an error on the console, or what the policy forbids."""
    page = show(report)
    scripts = page.evaluate("document.scripts.length")
    for view in VIEWS:
        page.go(view)
    for row in report.workloads[:20]:
        page.go(f"workload?uid={row.uid}")
        page.page.locator(".attempt").first.focus()
    page.go("namespaces")
    assert {"<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "__proto__"} <= set(page.names("namespaces"))
    assert page.evaluate("document.scripts.length") == scripts
    assert page.page.locator("main img, main iframe, main a[href^='javascript:']").count() == 0


def test_a_link_of_a_hostile_name_leads_to_its_own_rows(show: Show, report: Report) -> None:
    page = show(report, "#namespaces")
    for name in ("%3Cscript%3E&q=1#workloads", "<script>alert(1)</script>", "constructor"):
        page.go("namespaces")
        page.view("namespaces").get_by_role("link", name=name, exact=True).click()
        page.view("workloads").wait_for()
        cells = page.view("workloads").locator("tbody tr td:nth-child(2)").all_inner_texts()
        assert set(cells) == {name}


def test_characters_that_turn_or_hide_text_are_written_out(show: Show, report: Report) -> None:
    page = show(report, "#nodes")
    names = page.names("nodes")
    assert "U+202Egnp.exe" in names
    assert "U+2028U+2029" in names


def test_no_command_is_offered_for_a_name_that_a_shell_could_run(show: Show, report: Report) -> None:
    page = show(report)
    for row in report.workloads[:10]:
        page.go(f"workload?uid={row.uid}")
        assert page.page.locator(".explain").count() == 0
    good = reports.report(5)
    page = show(good, f"#workload?uid={good.workloads[0].uid}")
    row = good.workloads[0]
    command = f"retry-policy explain {row.namespace}/{row.kind.lower()}/{row.name}"
    assert page.page.locator(".explain code").inner_text() == command


def test_the_policy_of_the_page_forbids_markup_made_of_text_and_other_scripts(show: Show, report: Report) -> None:
    """Even if a script of the page did it by mistake."""
    page = show(report)
    tries = {
        "markup": "document.body.innerHTML = '<b>x</b>'",
        "script": "document.body.append(Object.assign(document.createElement('script'), {src: 'x.js'}))",
        "code": "setTimeout('window.ran = true')",
    }
    for script in tries.values():
        outcome = page.evaluate(
            f"() => {{ try {{ {script}; return 'done'; }} catch (error) {{ return error.name; }} }}"
        )
        assert outcome == "TypeError", script
    refused = page.evaluate("fetch('https://example.invalid/').then(() => 'sent', () => 'refused')")
    assert refused == "refused"
    assert {"require-trusted-types-for", "connect-src"} <= set(page.evaluate("window.forbidden"))
    page.evaluate("window.forbidden.length = 0")
    page.wrong.clear()
