"""JUnit XML."""

from tests.unit.cli import schemas
from webhook.cli import forms


def test_a_case_has_one_failure_with_all_texts() -> None:
    cases = [
        forms.JUnitCase("a.yaml", "good", [], [], ["warned"]),
        forms.JUnitCase("b.yaml", "bad", ["<one> & 'two'", "three"], [], []),
        forms.JUnitCase("a.yaml", "broken", ["unseen"], ["cannot be read"], []),
    ]
    text = forms.junit_document("retry-policy check", cases)
    schemas.validate_junit(text)
    assert text.splitlines() == [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<testsuites name="retry-policy check" tests="3" failures="1" errors="1">',
        '  <testsuite name="a.yaml" tests="2" failures="0" errors="1">',
        '    <testcase name="good" classname="a.yaml">',
        "      <system-out>warned</system-out>",
        "    </testcase>",
        '    <testcase name="broken" classname="a.yaml">',
        '      <error message="cannot be read">cannot be read</error>',
        "    </testcase>",
        "  </testsuite>",
        '  <testsuite name="b.yaml" tests="1" failures="1" errors="0">',
        '    <testcase name="bad" classname="b.yaml">',
        "      <failure message=\"&lt;one&gt; &amp; 'two' (and 1 more)\">&lt;one&gt; &amp; 'two'",
        "three</failure>",
        "    </testcase>",
        "  </testsuite>",
        "</testsuites>",
    ]
