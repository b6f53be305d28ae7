"""The names of rules."""

from pathlib import Path
from typing import Any

from webhook.admission import edit_workload
from webhook.cli.findings import RULES, help_of
from webhook.rules import registry
from webhook.rules.rule import Rule

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "check.md"


def test_every_rule_of_admission_has_a_description() -> None:
    rules: tuple[Rule[Any], ...] = (
        *registry.JOB_RULES,
        *registry.WORKLOAD_RULES,
        *registry.POD_RULES,
        *registry.VALIDATING_RULES,
        registry.CONTROLLED,
        edit_workload.EARLIER_INJECTIONS,
        edit_workload.NOTE,
    )
    nameless = {rule.name for rule in rules} - RULES.keys()
    assert not nameless, "add a line to RULES in webhook/cli/findings.py, and a heading to docs/reference/check.md"


def test_the_page_that_a_finding_links_to_has_a_heading_for_each_rule() -> None:
    headings = [line[4:] for line in PAGE.read_text().split("\n## Rules\n")[1].splitlines() if line.startswith("### ")]
    assert headings == sorted(RULES), "the headings of docs/reference/check.md, in the order of the alphabet"
    assert help_of("retries").endswith("/reference/check/#retries")
