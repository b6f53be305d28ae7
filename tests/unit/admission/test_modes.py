"""The modes for a roll-out: Warn shows users what would be done, Audit writes it to the audit log."""

import msgspec
import pytest

from tests.admission import OPTED_IN, lacking, mutate, policy, review_of, validate
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
POLICY = ("spec", "podFailurePolicy")


def audited(rules: object, root: Json, facts: Facts = AUDIT, under: Policy | None = None) -> Json:
    """Return the response as the API server gets it."""
    subject = subject_of(review.decode(review_of(root)))
    assert subject is not None
    response = rules(subject, under or policy(), facts)  # type: ignore[operator]
    found: Json = msgspec.json.decode(review.encode("uid", response))["response"]
    return found


def test_warn_changes_nothing_and_says_what_would_be_changed() -> None:
    root = lacking(job(), POLICY, ("spec", "backoffLimit"))
    root["spec"]["podReplacementPolicy"] = "TerminatingOrFailed"
    answer = mutate(root, WARN)
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


def test_a_value_that_would_be_clamped_is_not_reported_as_denied() -> None:
    clamping = policy(default=Profile(retries=Retries(on_exceed="Clamp")))
    assert validate(job(job_spec(backoffLimit=25)), WARN, clamping).warnings == []


@pytest.mark.parametrize("facts", [WARN, AUDIT, ENFORCE])
@pytest.mark.parametrize("root", [job(), cron_job(), pod()], ids=lambda root: str(root["kind"]))
def test_validation_does_not_change_the_object(root: Json, facts: Facts) -> None:
    subject = subject_of(review.decode(review_of(root)))
    assert subject is not None
    placing = policy(default=Profile(placement=Placement(provider="gke", spot="Require")))
    engine.validate(subject, placing, msgspec.structs.replace(facts, owner=stored_job()))
    assert subject.root == root


def test_no_warning_is_longer_than_kubectl_shows() -> None:
    rules = [exit_codes("FailJob", "NotIn", 143)]
    root = cron_job(job_spec(backoffLimit=25, rules=rules, podReplacementPolicy="TerminatingOrFailed"))
    said = [*mutate(root, WARN).warnings, *validate(root, WARN).warnings]
    fields = ("podFailurePolicy.rules[0]", "podReplacementPolicy", "backoffLimit")
    assert {f"spec.jobTemplate.spec.{field}" for field in fields} <= {one.partition(": ")[0] for one in said}
    assert max(map(len, said)) <= WARNING_LENGTH


def test_audit_gives_no_warnings_and_writes_to_the_audit_log() -> None:
    root = lacking(job(job_spec(backoffLimit=25)), POLICY)
    assert (mutate(root, AUDIT).warnings, mutate(root, AUDIT).patch) == ([], [])
    assert (validate(root, AUDIT).warnings, validate(root, AUDIT).allowed) == ([], True)
    assert audited(engine.mutate, root)["auditAnnotations"] == {"would-change": "spec.podFailurePolicy: would be added"}
    denial = audited(engine.validate, root)["auditAnnotations"]["would-deny"]
    assert denial.startswith("spec.backoffLimit: 25 retries")


def test_an_object_that_needs_no_change_gets_no_audit_annotation() -> None:
    done = mutate(job()).object
    assert "auditAnnotations" not in audited(engine.mutate, done)
    assert "auditAnnotations" not in audited(engine.validate, done)


def test_enforce_is_the_default_mode() -> None:
    assert mutate(job(), ENFORCE) == mutate(job(), OPTED_IN)


@pytest.mark.parametrize("facts", [WARN, AUDIT])
def test_warn_and_audit_change_no_pod(facts: Facts) -> None:
    placing = policy(default=Profile(placement=Placement(provider="gke", spot="Require")))
    told = Facts(profile_name="default", mode=facts.mode, owner=stored_job())
    assert mutate(pod(), told, placing).patch == []


@pytest.mark.parametrize("facts", [WARN, AUDIT])
def test_wrong_types_are_not_denied_and_only_warn_gives_a_warning(facts: Facts) -> None:
    assert validate(job({"backoffLimit": "3"}), facts).allowed
    assert len(mutate(job({"backoffLimit": "3"}), facts).warnings) == (facts.mode == "Warn")


def test_under_an_unknown_mode_an_object_is_unchanged_with_a_warning() -> None:
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


def test_in_audit_the_response_names_the_rules_that_would_edit_and_deny() -> None:
    subject = subject_of(review.decode(review_of(job(job_spec(backoffLimit=25)))))
    assert subject is not None
    assert engine.mutate(subject, policy(), AUDIT).edited[:1] == ["failure_policy"]
    assert [rule for rule, _ in engine.validate(subject, policy(), AUDIT).would_deny] == ["retries"]


@pytest.mark.parametrize("mode", ["Warn", "Audit"])
def test_the_response_has_each_change_and_denial_with_its_rule_and_path(mode: str) -> None:
    facts = Facts(profile_name="default", mode=mode)
    subject = subject_of(review.decode(review_of(lacking(job(job_spec(backoffLimit=25)), POLICY))))
    assert subject is not None
    changed = engine.mutate(subject, policy(), facts).would_change
    assert [(rule, problem.path) for rule, problem in changed] == [("failure_policy", POLICY)]
    denied = engine.validate(subject, policy(), facts).would_deny
    assert [(rule, problem.path) for rule, problem in denied] == [("retries", ("spec", "backoffLimit"))]


def test_edits_of_the_metadata_are_not_reported_as_changes() -> None:
    assert [rule for rule, _ in modes.would_change("Audit", edits(), []).would_change] == ["retries"] * 4


def test_an_audit_annotation_has_at_most_1024_characters() -> None:
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


def test_each_change_gets_a_warning_except_edits_of_the_metadata() -> None:
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
def test_the_response_names_the_editing_rules_in_every_mode(mode: str) -> None:
    assert modes.would_change(mode, edits(), []).edited == ["retries"] * 4 + ["annotations"]


@pytest.mark.parametrize("mode", ["Audit", "Nonsense"])
def test_modes_other_than_warn_write_only_to_the_audit_log(mode: str) -> None:
    found = modes.would_change(mode, edits(), [Problem(("spec",), "is odd", "mend it")])
    assert found.warnings == []
    assert found.audit == {
        "would-change": "spec.limit: would become 3; spec.policy: would be added; spec.rules: would be replaced; "
        "spec.suspend: would be removed"
    }
    denied = modes.would_deny(mode, [("retries", Problem(("spec", "limit"), "is too much", "set 3"))])
    assert (denied.warnings, denied.audit) == ([], {"would-deny": "spec.limit: is too much"})


def test_without_changes_and_denials_there_is_no_audit_annotation() -> None:
    assert modes.would_change("Audit", [], []).audit == {}
    assert modes.would_deny("Audit", []).audit == {}


def test_the_audit_annotation_of_a_thousand_problems_is_cut() -> None:
    found = [("retries", Problem(("spec", str(index)), "is too much", "set 3")) for index in range(1000)]
    (text,) = modes.would_deny("Audit", found).audit.values()
    assert len(text) == modes.LONGEST_NOTE
