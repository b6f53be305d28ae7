"""What is kept of many findings."""

import pytest

from webhook.cli import findings
from webhook.cli.documents import Document, Unusable
from webhook.cli.findings import Collected, finding_of
from webhook.objects.problem import Problem

DOCUMENT = Document("a.yaml", 1, {}, [])
PROBLEM = Problem(("spec",), "is wrong", "mend it")


def test_findings_beyond_the_bound_are_counted_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "MOST_FINDINGS", 2)
    collected = Collected()
    collected.add("problem", DOCUMENT, "job/a", [("retries", PROBLEM)] * 5)
    summary = collected.summary()
    assert (summary.problems, summary.unlisted) == (5, 3)
    assert len(list(collected.findings(lambda _: ""))) == 2


def test_objects_beyond_the_bound_are_counted_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "MOST_OBJECTS", 1)
    collected = Collected()
    for name in ("job/a", "job/b"):
        collected.judged(DOCUMENT, name)
    assert (collected.summary().objects, len(collected.objects)) == (2, 1)


def test_a_file_is_read_again_only_if_it_has_findings_about_fields() -> None:
    read: list[str] = []

    def text_of(file: str) -> str:
        read.append(file)
        return "spec: 1\n"

    collected = Collected()
    collected.judged(Document("good.yaml", 1, {}, []), "job/good")
    collected.refuse(Unusable("broken.yaml", 1, 3, "is broken", "mend it"))
    collected.add("problem", DOCUMENT, "job/a", [("retries", PROBLEM)] * 2)
    assert [one.line for one in collected.findings(text_of)] == [3, 1, 1]
    assert read == ["a.yaml"]


def test_a_finding_has_no_unprintable_character() -> None:
    problem = Problem(("spec", "a\nb"), "is \x1b[31m", "mend\u202e it")
    found = finding_of("problem", "retries", "a\x07.yaml", 1, problem, "job/\x00")
    assert all(text.isprintable() for text in (found.file, found.path, found.what, found.remedy, found.object))
    assert found.text == r"spec.a\nb: is \x1b[31m; mend\u202e it (job/\x00)"
