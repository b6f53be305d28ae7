"""What `retry-policy test` prints."""

import json

import click
import jsonschema

from tests.unit.cli import schemas
from webhook.cli import policy_tests
from webhook.cli.policy_tests import Difference, Result

GOOD = Result(file="cases.yaml", line=4, name="good", differences=[])
BAD = Result(
    file="cases.yaml",
    line=9,
    name="bad, 100%",
    differences=[Difference("placement", ["- OnDemand", "+ Spot", "  - x"])],
)


def test_text_has_a_line_for_each_case_and_the_differences_of_failed_ones() -> None:
    assert [click.unstyle(line) for line in policy_tests.text([GOOD, BAD])] == [
        "PASS  good",
        "FAIL  bad, 100%  (cases.yaml:9)",
        "      placement:",
        "        - OnDemand",
        "        + Spot",
        "          - x",
        "",
        "2 cases: 1 passed, 1 failed; - is expected, + is what admission does",
    ]


def test_the_lines_of_a_difference_have_the_colour_of_their_sign() -> None:
    lines = list(policy_tests.text([BAD]))
    assert lines[2].startswith("        \x1b[31m- OnDemand")
    assert lines[3].startswith("        \x1b[32m+ Spot")
    assert "\x1b" not in lines[4]


def test_json_is_valid_by_its_schema() -> None:
    report = json.loads(policy_tests.as_json([GOOD, BAD]))
    jsonschema.validate(report, schemas.of("test-report"))
    assert report["summary"] == {"cases": 2, "passed": 1, "failed": 1}
    assert [case["differences"] for case in report["cases"]] == [
        [],
        [{"where": "placement", "lines": ["- OnDemand", "+ Spot", "  - x"]}],
    ]


def test_junit_has_a_test_for_each_case() -> None:
    text = policy_tests.as_junit([GOOD, BAD])
    schemas.validate_junit(text)
    assert 'tests="2" failures="1" errors="0"' in text


def test_github_has_an_annotation_for_each_failed_case() -> None:
    assert policy_tests.as_github([GOOD, BAD]) == (
        "::error file=cases.yaml,line=9,title=failed%3A bad%2C 100%25::placement:%0A  - OnDemand%0A  + Spot%0A    - x\n"
    )
