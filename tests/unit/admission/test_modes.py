"""The modes for a roll-out: Warn tells users what would be done, Audit writes it to the audit log."""

import msgspec
import pytest

from tests.admission import OPTED_IN, mutate, policy, review_of, validate
from tests.objects import cron_job, exit_codes, job, job_spec, pod, stored_job
from webhook.admission import engine, modes, review
from webhook.admission.review import WARNING_LENGTH
from webhook.admission.subject import subject_of
from webhook.objects.patch import Edit, Editor
from webhook.objects.problem import Json, Problem
from webhook.policy.model import Placement, Policy, Profile, Retries
from webhook.rules.facts import Facts

WARN = Facts(profile_name="default", mode="Warn")
AUDIT = Facts(profile_name="default", mode="Audit")
ENFORCE = Facts(profile_name="default", mode="Enforce")


def audited(rules: object, root: Json, facts: Facts = AUDIT, under: Policy | None = None) -> Json:
    """Return the response as the API server gets it."""
    subject = subject_of(review.decode(review_of(root)))
    assert subject is not None
    response = rules(subject, under or policy(), facts)  # type: ignore[operator]
    found: Json = msgspec.json.decode(review.encode("uid", response))["response"]
    return found


def test_warn_changes_nothing_and_says_what_would_be_changed() -> None:
    answer = mutate(job(job_spec(podReplacementPolicy="TerminatingOrFailed")), WARN)
    assert answer.patch == []
    assert answer.warnings == [
        "spec.podFailurePolicy: would be added; not done in mode Warn",
        'spec.podReplacementPolicy: would become "Failed"; not done in mode Warn',
        "spec.backoffLimit: would become 3; not done in mode Warn",
    ]


def test_warn_denies_nothing_and_says_what_would_be_denied() -> None:
    answer = validate(job(job_spec(backoffLimit=25)), WARN)
    assert answer.allowed
    assert answer.warnings == [
        "spec.backoffLimit: would deny: 25 retries exceed the limit of 10 in profile 'default'; set 10 or less"
    ]


def test_what_would_be_mended_first_would_not_be_denied() -> None:
    clamping = policy(default=Profile(retries=Retries(on_exceed="Clamp")))
    assert validate(job(job_spec(backoffLimit=25)), WARN, clamping).warnings == []


@pytest.mark.parametrize("facts", [WARN, AUDIT, ENFORCE])
@pytest.mark.parametrize("root", [job(), cron_job(), pod()], ids=lambda root: str(root["kind"]))
def test_the_object_that_is_validated_is_left_as_it_is(root: Json, facts: Facts) -> None:
    subject = subject_of(review.decode(review_of(root)))
    assert subject is not None
    placing = policy(default=Profile(placement=Placement(provider="gke", spot="Require")))
    engine.validate(subject, placing, msgspec.structs.replace(facts, owner=stored_job()))
    assert subject.root == root


def test_every_warning_fits_into_what_kubectl_shows() -> None:
    rules = [exit_codes("FailJob", "NotIn", 143)]
    root = cron_job(job_spec(backoffLimit=25, rules=rules, podReplacementPolicy="TerminatingOrFailed"))
    said = [*mutate(root, WARN).warnings, *validate(root, WARN).warnings]
    assert len(said) == 3
    assert max(map(len, said)) <= WARNING_LENGTH


def test_audit_is_silent_to_people_and_told_to_the_audit_log() -> None:
    root = job(job_spec(backoffLimit=25))
    assert (mutate(root, AUDIT).warnings, mutate(root, AUDIT).patch) == ([], [])
    assert (validate(root, AUDIT).warnings, validate(root, AUDIT).allowed) == ([], True)
    assert audited(engine.mutate, job(job_spec(backoffLimit=25)))["auditAnnotations"] == {
        "would-change": "spec.podFailurePolicy: would be added"
    }
    denial = audited(engine.validate, job(job_spec(backoffLimit=25)))["auditAnnotations"]["would-deny"]
    assert denial.startswith("spec.backoffLimit: 25 retries")


def test_an_object_with_nothing_to_tell_has_no_audit_annotation() -> None:
    done = mutate(job()).object
    assert "auditAnnotations" not in audited(engine.mutate, done)
    assert "auditAnnotations" not in audited(engine.validate, done)


def test_enforce_is_as_if_absent() -> None:
    assert mutate(job(), ENFORCE) == mutate(job(), OPTED_IN)


@pytest.mark.parametrize("facts", [WARN, AUDIT])
def test_a_pod_is_not_touched(facts: Facts) -> None:
    placing = policy(default=Profile(placement=Placement(provider="gke", spot="Require")))
    told = Facts(profile_name="default", mode=facts.mode, owner=stored_job())
    assert mutate(pod(), told, placing).patch == []


@pytest.mark.parametrize("facts", [WARN, AUDIT])
def test_wrong_types_are_not_denied_and_told_to_people_in_warn_alone(facts: Facts) -> None:
    assert validate(job({"backoffLimit": "3"}), facts).allowed
    assert len(mutate(job({"backoffLimit": "3"}), facts).warnings) == (facts.mode == "Warn")


def test_a_mode_that_nobody_knows_leaves_alone_with_a_warning() -> None:
    unknown = Facts(profile_name="default", mode="warn")
    answer = mutate(job(), unknown)
    assert answer.patch == []
    assert answer.warnings == [
        (
            "Namespace.metadata.labels[retry-policy.dev/mode]: no mode 'warn': object left alone; "
            "must be Enforce, Warn or Audit"
        )
    ]
    assert validate(job(job_spec(backoffLimit=25)), unknown).allowed


def test_what_would_have_been_done_is_counted_by_rule() -> None:
    subject = subject_of(review.decode(review_of(job(job_spec(backoffLimit=25)))))
    assert subject is not None
    assert engine.mutate(subject, policy(), AUDIT).edited[:1] == ["failure_policy"]
    assert [rule for rule, _ in engine.validate(subject, policy(), AUDIT).would_deny] == ["retries"]


@pytest.mark.parametrize("mode", ["Warn", "Audit"])
def test_who_reports_finds_what_would_be_denied_and_changed_as_values(mode: str) -> None:
    facts = Facts(profile_name="default", mode=mode)
    subject = subject_of(review.decode(review_of(job(job_spec(backoffLimit=25)))))
    assert subject is not None
    changed = engine.mutate(subject, policy(), facts).would_change
    assert [(rule, problem.path) for rule, problem in changed] == [("failure_policy", ("spec", "podFailurePolicy"))]
    denied = engine.validate(subject, policy(), facts).would_deny
    assert [(rule, problem.path) for rule, problem in denied] == [("retries", ("spec", "backoffLimit"))]


def test_notes_in_the_metadata_are_no_change_to_report() -> None:
    assert [rule for rule, _ in modes.would_change("Audit", edits(), []).would_change] == ["retries"] * 4


def test_an_audit_annotation_is_bounded() -> None:
    rules = [exit_codes("FailJobs", "NotIn", 143) for _ in range(20)]
    text = audited(engine.validate, job(job_spec(rules=rules)))["auditAnnotations"]["would-deny"]
    assert len(text) == 1024


def edits() -> list[Edit]:
    """Return an update with one edit of each sort, and one of the metadata."""
    editor = Editor({"metadata": {}, "spec": {"suspend": True, "rules": [1], "limit": 6}})
    editor.rule = "retries"
    editor.set(("spec", "limit"), 3)
    editor.set(("spec", "policy"), {"a": 1})
    editor.set(("spec", "rules"), [2])
    editor.remove(("spec", "suspend"))
    editor.rule = "annotations"
    editor.set(("metadata", "labels"), {"a": "b"})
    return editor.edits


def test_a_warning_says_how_a_value_would_change_and_edits_of_the_metadata_have_none() -> None:
    found = modes.would_change("Warn", edits(), [Problem(("spec",), "is odd", "mend it")])
    assert [str(one) for one in found.warnings] == [
        "spec.limit: would become 3; not done in mode Warn",
        "spec.policy: would be added; not done in mode Warn",
        "spec.rules: would be replaced; not done in mode Warn",
        "spec.suspend: would be removed; not done in mode Warn",
        "spec: is odd; mend it",
    ]
    assert (found.patch, found.audit) == (b"", {})


@pytest.mark.parametrize("mode", ["Warn", "Audit", "Nonsense"])
def test_rules_are_counted_whatever_the_mode(mode: str) -> None:
    assert modes.would_change(mode, edits(), []).edited == ["retries"] * 4 + ["annotations"]


@pytest.mark.parametrize("mode", ["Audit", "Nonsense"])
def test_any_mode_but_warn_tells_only_the_audit_log(mode: str) -> None:
    found = modes.would_change(mode, edits(), [Problem(("spec",), "is odd", "mend it")])
    assert found.warnings == []
    assert found.audit == {
        "would-change": "spec.limit: would become 3; spec.policy: would be added; spec.rules: would be replaced; "
        "spec.suspend: would be removed"
    }
    denied = modes.would_deny(mode, [("retries", Problem(("spec", "limit"), "is too much", "set 3"))])
    assert (denied.warnings, denied.audit) == ([], {"would-deny": "spec.limit: is too much"})


def test_where_there_is_nothing_to_tell_there_is_no_audit_annotation() -> None:
    assert modes.would_change("Audit", [], []).audit == {}
    assert modes.would_deny("Audit", []).audit == {}


def test_an_audit_annotation_has_a_length_however_many_problems_there_are() -> None:
    found = [("retries", Problem(("spec", str(index)), "is too much", "set 3")) for index in range(1000)]
    (text,) = modes.would_deny("Audit", found).audit.values()
    assert len(text) == modes.LONGEST_NOTE
