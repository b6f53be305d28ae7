"""How findings are printed."""

import json

from webhook.doctor.finding import LONGEST, Section, ok, problem, warning
from webhook.doctor.render import as_json, lines

SECTIONS = [
    Section("Leader", [problem("Lease a/b", "was not renewed", "kubectl get pods"), ok("Lease a/c", "is renewed")]),
    Section("Kinds", [warning("CRD x", "is old", "kubectl get crd x")]),
]


def test_people_get_a_line_for_each_finding_and_the_command_below_it() -> None:
    assert list(lines(SECTIONS)) == [
        "Leader",
        "  problem  Lease a/b: was not renewed",
        "             fix: kubectl get pods",
        "  ok       Lease a/c: is renewed",
        "Kinds",
        "  warning  CRD x: is old",
        "             fix: kubectl get crd x",
        "",
        "1 problem, 1 warning",
    ]


def test_with_several_problems_the_last_line_says_where_to_begin() -> None:
    found = [Section("Leader", [problem("a", "b", "c"), problem("d", "e", "f")])]
    assert list(lines(found))[-1] == "2 problems, 0 warnings; begin with the first problem, it may explain others"


def test_the_last_line_says_that_nothing_is_wrong() -> None:
    assert list(lines([Section("Leader", [ok("a", "b"), ok("c", "d")])]))[-1] == "2 checks, nothing is wrong"


def test_programs_get_one_object() -> None:
    found = json.loads(as_json(SECTIONS))
    assert (found["problems"], found["warnings"]) == (1, 1)
    assert found["findings"][0] == {
        "section": "Leader",
        "status": "problem",
        "object": "Lease a/b",
        "what": "was not renewed",
        "fix": "kubectl get pods",
    }


def test_a_long_answer_of_the_api_server_is_cut() -> None:
    assert len(problem("a", "x" * 10_000, "b").what) == LONGEST
