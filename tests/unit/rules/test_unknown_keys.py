"""A key with our prefix that has no effect where it stands brings a warning, which names what to use instead."""

from typing import Any

import pytest

from tests.admission import OPTED_IN, mutate, validate
from tests.objects import cron_job, job, job_spec, pod
from webhook.kube import names
from webhook.objects import bounds
from webhook.objects.problem import Json
from webhook.policy.parse import load_default
from webhook.rules import opt_in, unknown_keys
from webhook.rules.facts import Facts
from webhook.systems.argo import spec as argo

PREFIX = names.PREFIX
TYPO = {f"{PREFIX}max-retrys": "2"}
WARNING = f"metadata.annotations[{PREFIX}max-retrys]: unknown, no effect; use max-retries"


def warnings_of(root: Json, facts: Facts = OPTED_IN, **request: Any) -> list[str]:
    return [text for text in validate(root, facts, **request).warnings if "no effect" in text]


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("max-retrys", "use max-retries"),
        ("interuptible", "use interruptible"),
        ("Skip", "use skip"),
        ("max_disruptions", "use max-disruptions"),
        ("retry-requested", "use retry-requested-at"),
        ("profile", "label the Namespace with it"),
        ("mode", "label the Namespace with it"),
        ("zzz", "known: attempt, checkpoint, deadline, independent-pods, interruptible, max-disruptions"),
    ],
)
def test_the_warning_about_an_unknown_annotation_says_what_to_use_instead(key: str, remedy: str) -> None:
    (text,) = warnings_of(job(annotations={PREFIX + key: "true"}))
    assert text.startswith(f"metadata.annotations[{PREFIX}{key}]: unknown, no effect; {remedy}"[:119])


def test_the_warning_about_an_annotation_that_was_written_as_a_label_says_where_it_belongs() -> None:
    assert warnings_of(job(labels={names.SKIP: "true"})) == [
        f"metadata.labels[{names.SKIP}]: unknown, no effect; annotate the workload with it"
    ]


def test_no_key_that_this_project_reads_or_writes_is_unknown() -> None:
    every = {value for value in vars(names).values() if isinstance(value, str) and value.startswith(PREFIX)} - {PREFIX}
    others = {names.DELAY, names.STALLED}  # a gate, a condition
    assert every == names.ANNOTATIONS | names.LABELS | names.NAMESPACE_LABELS | others, (
        "add an annotation to the set of its source at the end of webhook/kube/names.py, a label to LABELS"
    )
    root = job(annotations=dict.fromkeys(names.ANNOTATIONS, "1"), labels=dict.fromkeys(names.LABELS, "x"))
    assert warnings_of(root) == []


def test_keys_with_another_prefix_bring_no_warning() -> None:
    root = job(annotations={"example.test/max-retrys": "2", "max-retrys": "2", "retry-policy.dev": "x"})
    assert warnings_of(root) == []


@pytest.mark.parametrize(
    "key",
    [
        "retry-policy/max-retries",
        "retrypolicy.dev/max-retries",
        "retry-policy.io/max-retries",
        "retry-policy.k8s.io/max-retries",
        "Retry-Policy.dev/max-retries",
        "retry-polcy.dev/max-retrys",
        "retry_policy.dev/max-retries",
        "retry-policies.dev/max-retries",
    ],
)
def test_a_key_with_a_misspelt_prefix_brings_a_warning_with_the_whole_key_that_was_meant(key: str) -> None:
    assert warnings_of(job(annotations={key: "2"})) == [
        f"metadata.annotations[{key}]: unknown, no effect; use {names.MAX_RETRIES}"
    ]
    assert warnings_of(job(job_spec(pod_annotations={key: "2"}))) == [
        f"spec.template.metadata.annotations[{key}]: unknown, no effect; use {names.MAX_RETRIES}"
    ]


def test_the_warning_about_a_misspelt_prefix_says_where_the_key_belongs() -> None:
    labels = {"retry-policy/profile": "default", "retry-policy/skip": "true", "retry-policy/zzz": "1"}
    assert warnings_of(job(labels=labels)) == [
        f"metadata.labels[retry-policy/profile]: unknown, no effect; label the Namespace with {names.PROFILE}",
        f"metadata.labels[retry-policy/skip]: unknown, no effect; annotate the workload with {names.SKIP}",
        f"metadata.labels[retry-policy/zzz]: unknown, no effect; keys of this webhook begin with {PREFIX}",
    ]


@pytest.mark.parametrize(
    "key",
    [
        "retry-policy.example.com/max-retries",
        "retry.example.com/max-retries",
        "retry-policy",
        "policy/max-retries",
        "example.test/retry-policy/max-retries",
    ],
)
def test_a_key_whose_prefix_belongs_to_another_project_brings_no_warning(key: str) -> None:
    assert warnings_of(job(annotations={key: "2"})) == []


def test_a_namespace_label_with_a_misspelt_prefix_brings_a_warning() -> None:
    root = {"metadata": {"labels": {"retry-policy/profile": "default"}}}
    assert [str(warning) for warning in unknown_keys.of_namespace(root, None)] == [
        f"metadata.labels[retry-policy/profile]: unknown, no effect; use {names.PROFILE}"
    ]


def test_a_stored_job_has_no_unknown_key() -> None:
    assert warnings_of(mutate(job(annotations={names.MAX_RETRIES: "2"})).object) == []


WORKFLOW: Json = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Workflow",
    "metadata": {"name": "flow"},
    "spec": {"entrypoint": "main", "templates": [{"name": "main", "metadata": {"annotations": TYPO}}]},
}
WRAPPER: Json = {
    "apiVersion": "workload.codeflare.dev/v1beta2",
    "kind": "AppWrapper",
    "metadata": {"name": "wrapped"},
    "spec": {"components": [{"template": job(annotations=TYPO)}]},
}


@pytest.mark.parametrize(
    ("root", "where"),
    [
        (job(job_spec(pod_annotations=TYPO)), "spec.template.metadata"),
        (cron_job(annotations=TYPO), "metadata"),
        (cron_job(template_metadata={"annotations": TYPO}), "spec.jobTemplate.metadata"),
        (cron_job(job_spec(pod_annotations=TYPO)), "spec.jobTemplate.spec.template.metadata"),
        (pod(owner=None, annotations=TYPO), "metadata"),
        (WORKFLOW, "spec.templates[0].metadata"),
        (WRAPPER, "spec.components[0].template.metadata"),
    ],
    ids=["a Job's pods", "CronJob", "its Jobs", "their pods", "bare pod", "a Workflow's pods", "Job in an AppWrapper"],
)
def test_an_unknown_key_is_found_wherever_it_stands_in_an_object(root: Json, where: str) -> None:
    assert warnings_of(root) == [f"{where}.annotations[{PREFIX}max-retrys]: unknown, no effect; use max-retries"]


def test_an_update_brings_a_warning_only_for_an_unknown_key_that_it_adds() -> None:
    assert warnings_of(cron_job(annotations=TYPO), old=cron_job()) == [WARNING]
    assert warnings_of(cron_job(annotations=TYPO, labels={"a": "b"}), old=cron_job(annotations=TYPO)) == []


@pytest.mark.parametrize(("mode", "warned"), [("Enforce", [WARNING]), ("Warn", [WARNING]), ("Audit", [])])
def test_unknown_keys_bring_warnings_in_modes_enforce_and_warn_and_none_in_audit(mode: str, warned: list[str]) -> None:
    assert warnings_of(job(annotations=TYPO), Facts(profile_name="default", mode=mode)) == warned


def test_the_mode_label_is_known_on_a_cluster_wide_template() -> None:
    (row,) = [row for row in argo.KINDS if not row.namespaced]
    root: Json = {"apiVersion": row.api_version, "kind": row.kind, "metadata": {"name": "all"}, "spec": {}}
    assert warnings_of({**root, "metadata": {"name": "all", "labels": {names.MODE: "Warn"}}}) == []


def test_only_a_few_of_thousands_of_unknown_keys_are_named() -> None:
    many = {f"{PREFIX}{number}{'max-retries' * 30}": "" for number in range(20_000)}
    found = unknown_keys.of_namespace({"metadata": {"labels": many}}, None)
    assert len(found) == bounds.LISTED_NAMES
    assert {warning.remedy for warning in found} == {"known: profile, mode"}


def test_on_a_namespace_the_labels_profile_and_mode_are_known_and_no_annotation_is() -> None:
    labels = {f"{PREFIX}proflie": "default", names.MODE: "Warn", names.PROFILE: "default"}
    root = {"metadata": {"labels": labels, "annotations": {names.PROFILE: "default", names.SKIP: "true"}}}
    assert [str(warning) for warning in unknown_keys.of_namespace(root, None)] == [
        f"metadata.labels[{PREFIX}proflie]: unknown, no effect; use profile",
        f"metadata.annotations[{names.PROFILE}]: unknown, no effect; label the Namespace with it",
        f"metadata.annotations[{names.SKIP}]: unknown, no effect; annotate the workload with it",
    ]
    assert unknown_keys.of_namespace(root, root) == []
    assert opt_in.problems(root, None, load_default()) == []
