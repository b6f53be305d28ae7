"""The engine: all rules together, in their order, from a request to its response."""

import json
from copy import deepcopy
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.admission import answer_of, mutate, of_ours, policy, review_of, validate
from tests.merge_cases import CASES, bug
from tests.objects import DISRUPTION, cron_job, exit_codes, job, job_spec, pod, stored_job
from webhook.admission import engine, review
from webhook.admission.engine import validate_policy
from webhook.admission.subject import subject_of
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.applied import applied
from webhook.policy.model import Duration, FailurePolicy, Placement, Profile, RequestedRetry, Retries
from webhook.rules.facts import Facts
from webhook.rules.pods.protect import PROTECTION

EKS = Profile(placement=Placement(provider="eks", spot="Require"))
GKE_FACTS = Facts(profile_name="eks", owner=stored_job(job_spec(backoffLimit=3), {"failed": 3}))


def defaulted(root: Json) -> Json:
    """Return a Job as the API server sends it to a webhook."""
    spec = root["spec"]
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    spec.setdefault("suspend", False)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    return root


def test_a_job_gets_the_policy_and_an_annotation_that_records_the_edits() -> None:
    answer = mutate(defaulted(job()))
    assert answer.patch == [
        {"op": "add", "path": "/spec/podFailurePolicy", "value": {"rules": [DISRUPTION, bug()]}},
        {"op": "replace", "path": "/spec/podReplacementPolicy", "value": "Failed"},
        {"op": "replace", "path": "/spec/backoffLimit", "value": 3},
        {
            "op": "add",
            "path": "/metadata/annotations",
            "value": {
                names.POLICY: (
                    '{"profile":"default","injected":[{"op":"add","path":"/spec/podFailurePolicy",'
                    f'"now":{msgspec.json.encode({"rules": [DISRUPTION, bug()]}).decode()}}},'
                    '{"op":"replace","path":"/spec/podReplacementPolicy","now":"Failed","was":"TerminatingOrFailed"},'
                    '{"op":"replace","path":"/spec/backoffLimit","now":3,"was":6}],'
                    f'"applied":{msgspec.json.encode(applied(Profile())).decode()},"retriableExitCodes":[143]}}'
                )
            },
        },
        {"op": "add", "path": "/metadata/labels", "value": {names.PROFILE: "default"}},
    ]


def test_rules_are_added_beside_the_authors_rule() -> None:
    answer = mutate(job(job_spec(rules=[bug(values=(1,))])))
    assert answer.patch[0] == {"op": "add", "path": "/spec/podFailurePolicy/rules/0", "value": DISRUPTION}


@pytest.mark.parametrize("author", [case[0] for case in CASES.values()], ids=CASES)
def test_mutating_a_job_twice_changes_nothing_more(author: Json) -> None:
    once = mutate(defaulted(job(deepcopy(author)))).object
    assert mutate(once).patch == []


@pytest.mark.parametrize("author", [case[0] for case in CASES.values()], ids=CASES)
def test_applying_a_manifest_again_does_not_change_the_stored_job(author: Json) -> None:
    stored = mutate(defaulted(job(deepcopy(author)))).object
    applied = deepcopy(stored)  # fields in the manifest overwrite the stored ones
    applied["spec"].update(defaulted(job(deepcopy(author)))["spec"])
    if "podFailurePolicy" not in author:
        applied["spec"].pop("podFailurePolicy", None)
    assert mutate(applied, old=stored).object == stored


def test_replacing_a_job_with_its_manifest_keeps_what_the_webhook_wrote() -> None:
    stored = mutate(defaulted(job())).object
    assert mutate(defaulted(job()), old=stored).object == stored


def test_a_changed_policy_does_not_change_an_existing_job() -> None:
    stored = mutate(defaulted(job())).object
    changed = policy(
        default=Profile(failure_policy=FailurePolicy(retriable_exit_codes=(1, 2)), attempt_timeout=Duration(60))
    )
    assert mutate(deepcopy(stored), old=stored, under=changed).patch == []


def test_a_value_that_the_author_changes_on_update_is_kept() -> None:
    stored = mutate(defaulted(job())).object
    changed = deepcopy(stored)
    changed["spec"]["backoffLimit"] = 5
    assert mutate(changed, old=stored).patch == []


@pytest.mark.parametrize("nonsense", ["", "[]", "{", '{"profile":1}', '{"profile":"x","injected":[{"op":"add"}]}'])
def test_a_malformed_policy_annotation_changes_nothing(nonsense: str) -> None:
    old = job(annotations={names.POLICY: nonsense})
    assert mutate(deepcopy(old), old=old).patch == []


def test_a_policy_annotation_with_paths_that_the_webhook_never_writes_changes_nothing() -> None:
    paths = ["/spec/template/spec/containers/9", "/metadata/name", "/spec/x/y", "/spec/template/spec/containers/x", ""]
    record = {"profile": "default", "injected": [{"op": "add", "path": path} for path in paths]}
    old = job(annotations={names.POLICY: json.dumps(record)})
    assert mutate(deepcopy(old), old=old).patch == []


def test_a_job_from_before_opt_in_is_neither_changed_nor_denied() -> None:
    old = job(job_spec(backoffLimit=25))
    labelled = job(job_spec(backoffLimit=25, suspend=True, parallelism=2), labels={"team": "a"})
    assert mutate(labelled, old=old).patch == []
    assert validate(labelled, old=old).allowed


def test_an_update_is_denied_for_the_problems_that_it_adds() -> None:
    old = job(job_spec(backoffLimit=25))
    worse = job(job_spec(backoffLimit=30), annotations={names.SKIP: "perhaps"})
    message = validate(worse, old=old).message
    assert "spec.backoffLimit: 30 retries" in message
    assert "retry-policy.dev/skip" in message


@pytest.mark.parametrize("change", [{"suspend": True}, {"parallelism": 1}])
def test_suspending_or_scaling_down_warns_if_the_ended_pods_would_fail_the_job(change: Json) -> None:
    rules = [exit_codes("FailJob", "NotIn", 143, container="main")]
    stored = defaulted(job(job_spec(rules=rules, parallelism=2, completions=9)))
    changed = {**stored, "spec": {**stored["spec"], **change}}
    (field,) = change
    assert validate(changed, old=stored).warnings == [
        f"spec.{field}: pods that this ends may fail the Job; safe if they exit with 143 on SIGTERM"
    ]
    assert validate(stored, old=changed).warnings == []
    assert validate({**changed, "metadata": {**stored["metadata"], "labels": {"a": "b"}}}, old=changed).warnings == []


def test_suspending_a_job_that_tolerates_exit_code_137_gives_no_warning() -> None:
    rules = [exit_codes("FailJob", "NotIn", 137, 143, container="main")]
    stored = defaulted(job(job_spec(rules=rules)))
    assert validate({**stored, "spec": {**stored["spec"], "suspend": True}}, old=stored).warnings == []


def test_a_retry_request_gives_one_warning_if_requested_retries_are_not_enabled() -> None:
    stored = defaulted(job())
    requesting = {**stored, "metadata": {**stored["metadata"], "annotations": {names.RETRY_REQUESTED_AT: "x"}}}
    not_enabled = Facts(profile_name="default", requested_retries=False)
    assert validate(requesting, not_enabled, old=stored).warnings == [
        f"metadata.annotations[{names.RETRY_REQUESTED_AT}]: ignored: not enabled here; run: retry-policy retry"
    ]
    assert validate(requesting, not_enabled, old=requesting).warnings == []
    assert validate(requesting, old=stored).warnings == []


def test_an_object_that_is_being_deleted_is_neither_changed_nor_denied() -> None:
    going = job(job_spec(backoffLimit=99), deletionTimestamp="2026-01-01T00:00:00Z", annotations={names.SKIP: "x"})
    stored = job(deletionTimestamp="2026-01-01T00:00:00Z")
    assert mutate(going, old=stored).patch == []
    assert validate(going, old=stored).allowed


@pytest.mark.parametrize("old", [None, job()])
def test_a_deletion_timestamp_that_the_author_wrote_does_not_exempt_a_job(old: Json | None) -> None:
    claims = job(job_spec(backoffLimit=99), deletionTimestamp="2026-01-01T00:00:00Z")
    assert mutate(claims, old=old).patch or old is not None
    assert validate(claims, old=old).message.startswith("spec.backoffLimit: 99 retries exceed the limit")


def test_a_deletion_timestamp_that_the_author_wrote_does_not_exempt_a_pod() -> None:
    assert mutate(pod(deletionTimestamp="2026-01-01T00:00:00Z")).patch


@pytest.mark.parametrize("request_", [{"subResource": "status"}, {"operation": "DELETE"}, {"operation": "CONNECT"}])
def test_other_operations_and_subresources_are_allowed_unchanged(request_: dict[str, Any]) -> None:
    root = job(job_spec(backoffLimit=99))
    assert (mutate(root, **request_).patch, validate(root, **request_).allowed) == ([], True)


def test_an_unknown_kind_is_allowed_unchanged() -> None:
    root = {"apiVersion": "v1", "kind": "Secret", "metadata": {"annotations": {names.SKIP: "x"}}}
    assert (mutate(root).patch, validate(root).allowed) == ([], True)


def test_an_object_in_a_namespace_without_opt_in_is_allowed_unchanged() -> None:
    root = job(job_spec(backoffLimit=99))
    out = Facts(profile_name=None)
    assert (mutate(root, out).patch, validate(root, out).allowed) == ([], True)


def test_under_an_unknown_profile_an_object_is_unchanged_and_a_warning_suggests_the_nearest() -> None:
    unknown = Facts(profile_name="defautl")
    answer = mutate(job(job_spec(backoffLimit=99)), unknown)
    assert answer.patch == []
    assert answer.warnings == [
        "Namespace.metadata.labels[retry-policy.dev/profile]: no profile 'defautl': object left alone; label it default"
    ]
    assert validate(job(job_spec(backoffLimit=99)), unknown).allowed


def test_twenty_five_retries_are_denied_and_the_message_says_how_many_are_allowed() -> None:
    answer = validate(job(job_spec(backoffLimit=25)))
    assert (answer.allowed, answer.message) == (
        False,
        "spec.backoffLimit: 25 retries exceed the limit of 10 in profile 'default'; set 10 or less",
    )


def test_one_denial_lists_all_problems_of_an_object() -> None:
    root = job(
        job_spec(backoffLimit=25, rules=[{"action": "FailJobs"}], pod_annotations={names.MAX_RETRIES: "x"}),
        annotations={names.ATTEMPT: "first"},
    )
    paths = [line.partition(":")[0] for line in validate(root).message.splitlines()]
    assert "spec.backoffLimit" in paths
    assert "spec.podFailurePolicy.rules[0].action" in paths
    assert "metadata.annotations[retry-policy.dev/attempt]" in paths
    assert "spec.template.metadata.annotations[retry-policy.dev/max-retries]" in paths


def test_the_job_template_of_a_cron_job_is_mutated_and_validated() -> None:
    of_a_job = [operation["path"] for operation in mutate(job()).patch]
    in_spec = [f"/spec/jobTemplate{path}" for path in of_a_job if path.startswith("/spec/")]
    assert len(in_spec) >= 2
    assert [operation["path"] for operation in mutate(cron_job()).patch] == [*in_spec, "/metadata/annotations"]
    assert validate(cron_job(job_spec(backoffLimit=25))).message.startswith("spec.jobTemplate.spec.backoffLimit: 25")


def test_a_cron_job_is_mutated_on_update_too() -> None:
    assert mutate(cron_job(), old=cron_job()).patch != []


def test_a_cron_job_from_before_opt_in_can_be_suspended_in_spite_of_its_retries() -> None:
    old = cron_job(job_spec(backoffLimit=25))
    suspended = deepcopy(old)
    suspended["spec"]["suspend"] = True
    assert validate(mutate(suspended, old=old).object, old=old).allowed


def test_annotations_of_a_cron_job_are_copied_to_its_job_and_pod_templates() -> None:
    answer = mutate(cron_job(annotations={names.MAX_RETRIES: "2", names.MAX_DISRUPTIONS: "0"}))
    template = answer.object["spec"]["jobTemplate"]
    assert template["metadata"]["annotations"] == {names.MAX_RETRIES: "2", names.MAX_DISRUPTIONS: "0"}
    assert of_ours(template["spec"]["template"]["metadata"]["annotations"]) == {names.MAX_RETRIES: "2"}
    assert template["spec"]["backoffLimit"] == 2


def test_an_annotation_of_the_job_template_beats_that_of_the_cron_job() -> None:
    root = cron_job(template_metadata={"annotations": {names.MAX_RETRIES: "1"}}, annotations={names.MAX_RETRIES: "4"})
    assert mutate(root).object["spec"]["jobTemplate"]["spec"]["backoffLimit"] == 1


def test_a_skipped_job_is_not_changed_but_the_retry_limit_still_applies() -> None:
    skipped = job(job_spec(backoffLimit=25), annotations={names.SKIP: "true"})
    assert mutate(skipped).patch == []
    assert not validate(skipped).allowed


def test_skip_on_a_cron_job_is_copied_to_its_job_template() -> None:
    answer = mutate(cron_job(annotations={names.SKIP: "true"}))
    assert answer.object["spec"]["jobTemplate"]["metadata"] == {"annotations": {names.SKIP: "true"}}
    assert answer.object["spec"]["jobTemplate"]["spec"] == job_spec()


def test_skip_is_denied_if_the_profile_does_not_allow_it() -> None:
    strict = policy(default=Profile(allow_skip=False))
    skipped = job(annotations={names.SKIP: "true"})
    assert mutate(skipped, under=strict).patch != []
    assert not validate(skipped, under=strict).allowed


def test_a_job_clamped_to_the_apis_default_of_six_retries_is_not_lowered_again() -> None:
    clamping = policy(default=Profile(retries=Retries(limit=6, on_exceed="Clamp")))
    once = mutate(defaulted(job(job_spec(backoffLimit=7))), under=clamping).object
    assert once["spec"]["backoffLimit"] == 6
    assert mutate(once, under=clamping).patch == []


def test_a_clamped_job_gets_a_warning_and_can_be_applied_again() -> None:
    clamping = policy(default=Profile(retries=Retries(on_exceed="Clamp")))
    answer = mutate(defaulted(job(job_spec(rules=[], backoffLimit=25))), under=clamping)
    assert answer.object["spec"]["backoffLimit"] == 10
    assert answer.warnings == ["spec.backoffLimit: 25 lowered to 10; profile 'default' allows no more"]
    applied = deepcopy(answer.object)
    applied["spec"]["backoffLimit"] = 25
    assert mutate(applied, old=answer.object, under=clamping).object == answer.object


@pytest.mark.parametrize(
    ("metadata", "budget"),
    [
        ({}, 3),
        ({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": '{"spec":{}}'}}, 3),
        ({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": '{"spec":{"backoffLimit":6}}'}}, 6),
        ({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "nonsense"}}, 3),
        ({"managedFields": [{"operation": "Update", "fieldsV1": {"f:spec": {"f:backoffLimit": {}}}}]}, 3),
        ({"managedFields": [{"operation": "Apply", "fieldsV1": {"f:spec": {"f:backoffLimit": {}}}}]}, 6),
        ({"managedFields": [{"operation": "Apply", "fieldsV1": {"f:spec": {}}}]}, 3),
        ({"managedFields": "nonsense"}, 3),
        ({"ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "n", "controller": True}]}, 6),
    ],
    ids=[
        "nothing shows the author",
        "last applied without",
        "last applied with",
        "last applied is nonsense",
        "defaulted fields look like the author's",
        "applied with",
        "applied without",
        "managed fields are nonsense",
        "made by a controller from its template",
    ],
)
def test_a_backoff_limit_of_six_is_lowered_unless_the_author_wrote_it(metadata: Json, budget: int) -> None:
    assert mutate(defaulted(job(**metadata))).object["spec"]["backoffLimit"] == budget


def test_the_pod_of_the_last_attempt_is_placed_on_demand_and_its_annotations_say_why() -> None:
    answer = mutate(pod(), GKE_FACTS, policy(eks=EKS))
    assert answer.object["metadata"]["annotations"] == {
        names.PLACEMENT: "OnDemand",
        names.ATTEMPT: "3",
        names.MAX_RETRIES: "3",
        names.ATTEMPT_SOURCE: "JobStatus",
        **PROTECTION,
    }
    assert answer.object["metadata"]["labels"] == {names.PROFILE: "eks"}
    assert mutate(answer.object, GKE_FACTS, policy(eks=EKS)).patch == []


def test_a_pod_of_a_job_that_was_skipped_when_it_was_created_is_not_changed() -> None:
    owner = mutate(job(annotations={names.SKIP: "true"})).object
    assert names.PROFILE not in owner["metadata"].get("labels", {})
    assert mutate(pod(), Facts(profile_name="eks", owner=owner), policy(eks=EKS)).patch == []


def test_a_pod_of_a_job_that_is_skipped_later_is_counted_all_the_same() -> None:
    facts = Facts(profile_name="eks", owner=stored_job(annotations={names.SKIP: "true"}))
    assert mutate(pod(), facts, policy(eks=EKS)).object == pod(labels={names.PROFILE: "eks"})


def facts_without_policy(**annotations: str) -> Facts:
    """Return the facts about a pod of a Job that was created without the policy."""
    return Facts(profile_name="eks", owner={**job(uid="job-uid", annotations=annotations), "status": {"failed": 1}})


def test_a_pod_of_a_job_that_was_created_without_the_policy_is_not_changed() -> None:
    assert mutate(pod(), facts_without_policy(), policy(eks=EKS)).patch == []
    assert mutate(pod(), facts_without_policy(**{names.MAX_RETRIES: "2"}), policy(eks=EKS)).patch == []


@pytest.mark.parametrize(
    ("annotation", "placement"),
    [
        ((names.INTERRUPTIBLE, "true"), "Spot"),
        ((names.INTERRUPTIBLE, "false"), "OnDemand"),
        ((names.ATTEMPT, "0"), "Spot"),
    ],
)
def test_an_annotation_makes_placement_apply_to_a_pod_of_a_job_without_the_policy(
    annotation: tuple[str, str], placement: str
) -> None:
    of_job, of_pod = facts_without_policy(**dict([annotation])), pod(annotations=dict([annotation]))
    for placed in (mutate(pod(), of_job, policy(eks=EKS)), mutate(of_pod, facts_without_policy(), policy(eks=EKS))):
        assert placed.object["metadata"]["annotations"][names.PLACEMENT] == placement


@pytest.mark.parametrize("mode", ["Warn", "Audit"])
def test_warn_and_audit_report_the_placement_of_pods_although_no_job_is_labelled(mode: str) -> None:
    root = pod()
    subject = subject_of(review.decode(review_of(root)), root)
    assert subject is not None
    assert "placement" in engine.mutate(subject, policy(eks=EKS), replace(facts_without_policy(), mode=mode)).edited


def test_a_pod_of_a_workload_that_is_not_interruptible_starts_on_demand() -> None:
    facts = Facts(profile_name="eks", owner=stored_job(annotations={names.INTERRUPTIBLE: "false"}))
    answer = mutate(pod(), facts, policy(eks=EKS))
    assert answer.object["metadata"]["annotations"][names.PLACEMENT] == "OnDemand"


def test_a_pod_without_placement_gets_the_placement_annotation_none() -> None:
    answer = mutate(pod(), Facts(profile_name="default", owner=stored_job()))
    assert answer.object["metadata"]["annotations"][names.PLACEMENT] == "None"
    assert "affinity" not in answer.object["spec"]


def test_a_malformed_annotation_of_a_pod_without_a_controller_is_denied() -> None:
    answer = validate(pod(owner=None, annotations={names.ATTEMPT: "first"}))
    assert answer.message == (
        "metadata.annotations[retry-policy.dev/attempt]: is 'first'; must be a whole number, 0 or more"
    )


def test_a_malformed_annotation_of_a_controllers_pod_is_not_denied() -> None:
    assert validate(pod(annotations={names.ATTEMPT: "first"})).allowed


WRONG_TYPES: list[tuple[str, Any]] = [
    ("Job", None),
    ("Job", []),
    ("Job", "text"),
    ("Job", {"spec": 5}),
    ("Job", {"spec": {"backoffLimit": "3"}}),
    ("Job", {"spec": {"backoffLimit": 3.5}}),
    ("Job", {"spec": {"backoffLimit": True}}),
    ("Job", {"spec": {"suspend": "no"}}),
    ("Job", {"spec": {"podFailurePolicy": []}}),
    ("Job", {"spec": {"podFailurePolicy": {"rules": {}}}}),
    ("Job", {"spec": {"podFailurePolicy": {"rules": [None]}}}),
    ("Job", {"spec": {"podFailurePolicy": {"rules": [{"onExitCodes": {"values": ["1"]}}]}}}),
    ("Job", {"spec": {"template": {"spec": {"containers": {"name": "main"}}}}}),
    ("Job", {"spec": {"template": {"spec": {"containers": [{"name": 5}]}}}}),
    ("Job", {"spec": {"template": {"metadata": {"annotations": {"a": 1}}}}}),
    ("Job", {"metadata": {"annotations": {names.MAX_RETRIES: 3}}}),
    ("Job", {"metadata": {"labels": ["a"]}}),
    ("Job", {"metadata": {"ownerReferences": [{"controller": "yes"}]}}),
    ("CronJob", {"spec": {"jobTemplate": {"spec": []}}}),
    ("Pod", {"spec": {"tolerations": "all"}}),
    ("Pod", {"spec": {"nodeSelector": {"a": 1}}}),
    ("Pod", {"spec": {"affinity": {"nodeAffinity": []}}}),
]


@pytest.mark.parametrize(("kind", "root"), WRONG_TYPES)
def test_mutate_warns_about_wrong_types_and_validate_denies_them(kind: str, root: Any) -> None:
    request: dict[str, Any] = {"kind": {"group": "" if kind == "Pod" else "batch", "version": "v1", "kind": kind}}
    mutated = mutate(root, **request)
    assert (mutated.allowed, mutated.patch, len(mutated.warnings)) == (True, [], 1)
    assert not validate(root, **request).allowed


def test_a_policy_that_would_inject_an_invalid_failure_policy_is_a_problem() -> None:
    assert validate_policy(policy()) == []
    codes = tuple(range(1, 260))
    found = validate_policy(policy(gpu=Profile(failure_policy=FailurePolicy(retriable_exit_codes=codes))))
    assert {problem.path for problem in found} == {("profiles", "gpu", "failurePolicy")}


def test_a_changed_policy_applies_to_a_cron_job_at_its_next_update() -> None:
    stored = mutate(cron_job()).object
    changed = policy(
        default=Profile(failure_policy=FailurePolicy(retriable_exit_codes=(77,)), retries=Retries(default=1))
    )
    updated = mutate(deepcopy(stored), old=stored, under=changed).object["spec"]["jobTemplate"]["spec"]
    assert updated["podFailurePolicy"]["rules"] == [DISRUPTION, bug(values=(77,))]
    assert updated["backoffLimit"] == 1


def test_a_changed_annotation_of_a_cron_job_is_changed_in_its_templates_too() -> None:
    stored = mutate(cron_job(annotations={names.SKIP: "true", names.MAX_RETRIES: "2"})).object
    changed = deepcopy(stored)
    changed["metadata"]["annotations"] |= {names.SKIP: "false", names.MAX_RETRIES: "4"}
    template = mutate(changed, old=stored).object["spec"]["jobTemplate"]
    assert template["metadata"]["annotations"] == {names.SKIP: "false", names.MAX_RETRIES: "4"}
    assert template["spec"]["backoffLimit"] == 4
    assert of_ours(template["spec"]["template"]["metadata"]["annotations"]) == {names.MAX_RETRIES: "4"}


def test_annotations_that_others_added_to_a_template_are_kept() -> None:
    stored = mutate(cron_job(annotations={names.MAX_RETRIES: "2"})).object
    changed = deepcopy(stored)
    changed["metadata"]["annotations"][names.MAX_RETRIES] = "4"
    changed["spec"]["jobTemplate"]["metadata"]["annotations"]["example.test/own"] = "kept"
    annotations = mutate(changed, old=stored).object["spec"]["jobTemplate"]["metadata"]["annotations"]
    assert annotations == {names.MAX_RETRIES: "4", "example.test/own": "kept"}


def test_an_injected_rule_that_somebody_edited_is_kept() -> None:
    stored = mutate(cron_job(job_spec(rules=[bug("log", values=(3,))], containers=("main", "log")))).object
    changed = deepcopy(stored)
    rules = changed["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]["rules"]
    rules[0]["example.test/own"] = "kept"
    edited = deepcopy(rules[0])
    after = mutate(changed, old=stored).object["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]["rules"]
    assert after[0] == edited


def test_a_job_suspended_by_another_webhook_gets_137_as_a_retriable_exit_code() -> None:
    once = mutate(defaulted(job())).object
    once["spec"]["suspend"] = True
    assert mutate(once).object["spec"]["podFailurePolicy"]["rules"] == [DISRUPTION, bug(values=(137, 143))]


def test_a_policy_annotation_copied_from_another_job_removes_no_rule_of_the_author() -> None:
    other = mutate(defaulted(job(job_spec(rules=[bug("log", values=(3,))], containers=("main", "log"))))).object
    own = defaulted(job(job_spec(rules=[bug(values=(5,))])))
    own["metadata"]["annotations"] = dict(other["metadata"]["annotations"])
    stored = mutate(own).object
    assert stored["spec"]["podFailurePolicy"]["rules"] == [DISRUPTION, bug(values=(5,))]
    applied = deepcopy(stored)
    applied["spec"] |= defaulted(job(job_spec(rules=[bug(values=(5,))])))["spec"]
    assert mutate(applied, old=stored).object["spec"] == stored["spec"]


@pytest.mark.parametrize(
    ("path", "value"),
    [("/spec/suspend", True), ("/spec/parallelism", 5), ("/spec/template/spec/containers/0/image", "x")],
)
def test_a_policy_annotation_cannot_undo_changes_to_fields_that_the_webhook_never_writes(path: str, value: Any) -> None:
    record = {"profile": "default", "injected": [{"op": "replace", "path": path, "now": False, "was": value}]}
    old = job(job_spec(suspend=False, parallelism=False), annotations={names.POLICY: json.dumps(record)})
    new = deepcopy(old)
    new["spec"]["suspend"] = True
    assert mutate(new, old=deepcopy(old)).object["spec"] == new["spec"]


def test_a_policy_annotation_with_an_index_of_thousands_of_digits_changes_nothing() -> None:
    record = {"profile": "default", "injected": [{"op": "add", "path": "/spec/podFailurePolicy/rules/" + "9" * 5000}]}
    old = job(job_spec(rules=[bug()]), annotations={names.POLICY: json.dumps(record)})
    assert mutate(deepcopy(old), old=old).patch == []


@pytest.mark.parametrize(
    "facts",
    [
        Facts(profile_name="default", mode="Warn"),
        Facts(profile_name="default", mode="Audit"),
        Facts(profile_name="gone"),
    ],
)
def test_a_manifest_can_be_applied_again_after_the_mode_or_the_profile_changed(facts: Facts) -> None:
    author = job_spec(rules=[bug(values=(5,))])
    stored = mutate(defaulted(job(deepcopy(author)))).object
    applied = {**deepcopy(stored), "spec": defaulted(job(deepcopy(author)))["spec"]}
    decoded = review.decode(review_of(applied, old=stored))
    subject = subject_of(decoded)
    assert subject is not None
    answer = answer_of(review.encode(decoded.uid, engine.mutate(subject, policy(), facts)), applied)
    assert answer.object["spec"] == stored["spec"]


def test_a_job_of_a_cron_job_from_before_opt_in_is_not_denied_for_the_apis_default() -> None:
    controller = [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "controller": True}]
    strict = policy(default=Profile(retries=Retries(limit=5)))
    made = mutate(defaulted(job(ownerReferences=controller)), under=strict).object
    assert validate(made, under=strict).allowed


def test_a_clamping_profile_lowers_max_retries_in_the_pod_template_and_warns() -> None:
    clamping = policy(default=Profile(retries=Retries(limit=4, on_exceed="Clamp")))
    answer = mutate(job(annotations={names.MAX_RETRIES: "50"}), under=clamping)
    assert answer.object["spec"]["template"]["metadata"]["annotations"][names.MAX_RETRIES] == "4"
    assert "metadata.annotations[retry-policy.dev/max-retries]: 50 lowered to 4" in answer.warnings[0]


def test_retries_that_only_the_pod_template_of_a_job_names_give_a_warning() -> None:
    root = defaulted(job())
    root["spec"]["template"]["metadata"] = {"annotations": {names.MAX_RETRIES: "2"}}
    (warning,) = validate(root).warnings
    where = "spec.template.metadata.annotations[retry-policy.dev/max-retries]"
    assert warning == f"{where}: ignored: not the annotation of a Job; write it in metadata.annotations"
    root["metadata"]["annotations"] = {names.MAX_RETRIES: "2"}
    assert validate(root).warnings == []


@pytest.mark.parametrize(
    "annotations",
    [{names.ATTEMPT: "two"}, {names.SKIP: "maybe"}, {names.MAX_RETRIES: "x"}, {names.INTERRUPTIBLE: "no"}],
)
def test_mutate_keeps_a_malformed_annotation_of_a_pod_without_a_controller_and_validate_denies_it(
    annotations: Json,
) -> None:
    bare = pod(owner=None, annotations=annotations)
    mutated = mutate(bare)
    assert mutated.patch == []
    assert not validate(mutated.object).allowed


def test_an_attempt_annotation_is_kept_as_its_author_wrote_it() -> None:
    bare = pod(owner=None, annotations={names.ATTEMPT: "007"})
    assert mutate(bare).object["metadata"]["annotations"][names.ATTEMPT] == "007"


def test_a_pod_that_is_controlled_by_a_pod_is_not_changed() -> None:
    assert mutate(pod(owner="Pod")).patch == []


def test_a_denial_lists_a_hundred_problems_and_counts_the_rest() -> None:
    rules = [exit_codes("FailJob", "In", *[7] * 151)]
    lines = validate(job(job_spec(rules=rules))).message.splitlines()
    assert len(lines) == 101
    assert lines[-1].startswith("and ")


@pytest.mark.parametrize(
    ("wanted", "owner", "said", "placed"),
    [
        ("OnDemand", {names.RETRY_HISTORY: "[]"}, {}, "OnDemand"),
        ("OnDemand", {}, {names.RETRY_HISTORY: "[]"}, "OnDemand"),  # as Tekton hands down a PipelineRun's
        ("OnDemand", {}, {}, "Spot"),
        ("Policy", {names.RETRY_HISTORY: "[]"}, {}, "Spot"),
    ],
)
def test_a_requested_retry_runs_on_demand_if_the_profile_says_so(
    wanted: Any, owner: Json, said: Json, placed: str
) -> None:
    profile = Profile(placement=Placement(provider="gke"), requested_retry=RequestedRetry(placement=wanted))
    facts = Facts(profile_name="default", owner=stored_job(job_spec(), {}, annotations=owner))
    found = mutate(pod(annotations=said), facts, policy(default=profile)).object
    assert found["metadata"]["annotations"][names.PLACEMENT] == placed


def test_a_profile_can_make_jobs_retryable_unless_their_annotation_says_otherwise() -> None:
    under = policy(default=Profile(requested_retry=RequestedRetry(retryable=True)))
    annotations = mutate(job(), under=under).object["metadata"]["annotations"]
    assert annotations[names.RETRYABLE] == "true"
    silent = mutate(job(annotations={names.RETRYABLE: "false"}), under=under).object["metadata"]["annotations"]
    assert silent[names.RETRYABLE] == "false"
    assert names.RETRYABLE not in mutate(job()).object["metadata"]["annotations"]


FORGED = {
    names.COUNTED: "true",
    names.AFTER_FAILURE: '{"uid":"x"}',
    names.DISRUPTIONS: "9",
    names.MEMORY: "{}",
}


CROWDED = {"tolerations": [{"key": str(index)} for index in range(20_000)]}


@pytest.mark.parametrize("kind", ["Job", "CronJob"])
def test_a_template_whose_pods_would_be_too_large_for_the_rules_is_refused(kind: str) -> None:
    root = job(job_spec())
    root["spec"]["template"]["spec"] |= CROWDED
    path = "spec.template"
    if kind == "CronJob":
        root = {**root, "kind": kind, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": root["spec"]}}}
        path = "spec.jobTemplate.spec.template"
    assert validate(root).message.startswith(f"{path}.spec.tolerations: has 20000 entries, too many")


@pytest.mark.parametrize("said", [{}, {names.SKIP: "true"}], ids=["taking part", "skipped"])
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"nodeName": "spot-1"}, id="it has a node already"),
        pytest.param(CROWDED, id="it is too large for the rules"),
        pytest.param({}, id="it is skipped"),
    ],
)
def test_a_pod_that_is_not_placed_is_counted_and_nothing_is_believed_that_it_says_in_our_name(
    spec: Json, said: Json
) -> None:
    said = said if spec else {names.SKIP: "true"}
    answer = mutate(pod(spec, annotations={**FORGED, **said, "team": "ml"}))
    assert answer.object["metadata"]["annotations"] == {"team": "ml", **said}
    assert answer.object["metadata"]["labels"] == {names.PROFILE: "default"}
    assert answer.object["spec"] == pod(spec)["spec"]
