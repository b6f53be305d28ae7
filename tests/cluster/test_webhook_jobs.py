"""Jobs and pods through the webhook: what is stored, what users see, and on which nodes pods run."""

import json

import pytest

from tests.admission import mutate
from tests.awaiting import until
from tests.cluster.conftest import NewNamespace, opted_in
from tests.cluster.installation import policy_of_tests
from tests.cluster.kubectl import Kubectl, Object
from tests.cluster.manifests import exits, job, pod
from tests.cluster.namespace import DRY_RUN
from tests.cluster.nodes import PLACEMENT
from tests.cluster.objects import condition, noted, required
from tests.documents import document_of
from tests.merge_cases import CASES, bug
from tests.objects import DISRUPTION
from webhook.kube import names
from webhook.policy.parse import load_default
from webhook.rules.facts import Facts

ON_SPOT = {"key": "cloud.google.com/gke-spot", "operator": "In", "values": ["true"]}
OFF_SPOT = {"key": "cloud.google.com/gke-spot", "operator": "NotIn", "values": ["true"]}


def job_with_spec(spec: Object) -> Object:
    """Return a Job with this spec, whose pods run on the tests' nodes."""
    found = job("train")
    template = {**spec["template"], "spec": {**PLACEMENT, **spec["template"]["spec"]}}
    return {**found, "spec": {**spec, "template": template}}


def without_times(stored: Object) -> Object:
    """Return the part of a Job that is equal if it is created twice."""
    metadata = stored["metadata"]
    # Only our label: a Job without labels gets those of its template, and with ours it does not.
    shared = {"label": metadata["labels"][names.PROFILE], "spec": stored["spec"]}
    text = json.dumps(shared).replace(metadata["uid"], "UID")
    found: Object = json.loads(text)
    return found


def test_a_stored_job_has_the_disruption_rule_first_and_an_exit_code_rule_for_its_container(
    namespace: NewNamespace,
) -> None:
    stored = opted_in(namespace).create(job("train", backoffLimit=3))
    assert stored["spec"]["podFailurePolicy"]["rules"] == [DISRUPTION, bug()]
    assert stored["spec"]["podReplacementPolicy"] == "Failed"
    assert stored["spec"]["backoffLimit"] == 3
    assert stored["metadata"]["labels"][names.PROFILE] == "default"


def test_a_bug_fails_the_job_at_once(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(job("train", exits(1), backoffLimit=3))
    failed = team.wait_for("jobs", "train", lambda found: condition(found, "Failed"))
    assert condition(failed, "Failed")["reason"] == "PodFailurePolicy"
    assert failed["status"]["failed"] == 1


def test_the_last_attempt_runs_on_an_on_demand_node(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "require")
    team.create(job("train", exits(143, 0), backoffLimit=1))
    team.wait_for("jobs", "train", lambda found: condition(found, "Complete"))
    first, last = team.pods_of("train", lambda pods: len(pods) == 2)
    assert required(first) == [{"matchExpressions": [ON_SPOT]}]
    assert required(last) == [{"matchExpressions": [OFF_SPOT]}]
    assert (first["spec"]["nodeName"][:4], last["spec"]["nodeName"][:4]) == ("spot", "on-d")
    assert noted(first) == {
        "placement": "Spot",
        "attempt": "0",
        "max-retries": "1",
        "attempt-source": "JobStatus",
    }
    assert noted(last) == {
        "placement": "OnDemand",
        "attempt": "1",
        "max-retries": "1",
        "attempt-source": "JobStatus",
    }


def test_with_spot_prefer_a_pod_gets_a_preference_for_spot_nodes(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(job("train"))
    (first,) = team.pods_of("train", lambda pods: pods and pods[0]["spec"].get("nodeName"))
    affinity = first["spec"]["affinity"]["nodeAffinity"]
    assert affinity == {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "preference": {"matchExpressions": [ON_SPOT]}}
        ]
    }
    assert first["spec"]["nodeName"].startswith("spot")


def test_with_backoff_limit_per_index_only_the_failed_index_leaves_spot(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "require")
    team.create(job("train", completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=1))
    running = team.pods_of("train", lambda pods: len([one for one in pods if one["spec"].get("nodeName")]) == 2)
    index = "batch.kubernetes.io/job-completion-index"
    failing = next(one for one in running if one["metadata"]["annotations"][index] == "1")
    team.ends(failing, 143)
    pods = team.pods_of("train", lambda pods: len(pods) == 3)
    assert [(one["metadata"]["annotations"][index], noted(one)["placement"]) for one in pods][2] == ("1", "OnDemand")
    assert {noted(one)["attempt-source"] for one in pods} == {"JobIndex"}


def test_a_job_with_25_retries_is_denied_with_path_value_limit_and_profile(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    refused = team.run("create", "--filename=-", stdin=job("train", backoffLimit=25))
    assert refused.returncode != 0
    problem = "spec.backoffLimit: 25 retries exceed the limit of 10 in profile 'default'; set 10 or less"
    assert f"denied the request: Job {team.name}/train: {problem}" in refused.stderr


def test_the_denial_of_a_job_with_generate_name_shows_that_prefix(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace)
    manifest = job("train", backoffLimit=25)
    manifest["metadata"] = {"generateName": "train-"}
    refused = team.refusal(manifest)
    assert f"denied the request: Job {team.name}/train-*: spec.backoffLimit: 25 retries" in refused


def test_each_object_of_a_manifest_gets_its_own_warning(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "clamp")
    both: Object = {"apiVersion": "v1", "kind": "List", "items": [job(name, backoffLimit=25) for name in ("a", "b")]}
    printed = team.run("create", "--filename=-", stdin=both).stderr
    for name in ("a", "b"):
        assert f"Warning: Job {team.name}/{name}: spec.backoffLimit: 25 lowered to 10" in printed


def test_a_long_warning_is_not_cut_off(namespace: NewNamespace) -> None:
    team = namespace({names.PROFILE: "default", names.MODE: "Warn"})
    name = "j" * 63
    printed = team.run("create", "--filename=-", stdin=job(name, backoffLimit=25)).stderr
    warning = f"Warning: Job {team.name}/{name}: spec.backoffLimit: would deny: 25 retries exceed the limit of 10"
    assert f"{warning} in profile 'default'; set 10 or less\n" in printed


def test_with_on_exceed_clamp_too_many_retries_are_lowered_with_a_warning(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "clamp")
    created = team.run("create", "--filename=-", stdin=job("train", backoffLimit=25))
    warning = "spec.backoffLimit: 25 lowered to 10; profile 'clamp' allows no more"
    assert f"Warning: Job {team.name}/train: {warning}" in created.stderr
    assert team.get("job", "train")["spec"]["backoffLimit"] == 10


def test_nothing_changes_in_a_namespace_without_the_profile_label(namespace: NewNamespace) -> None:
    team = namespace()
    stored = team.create(job("train", backoffLimit=25))
    assert "podFailurePolicy" not in stored["spec"]
    assert stored["spec"]["backoffLimit"] == 25
    (pod,) = team.pods_of("train", len)
    assert not [key for key in pod["metadata"].get("annotations", {}) if key.startswith(names.PREFIX)]
    assert "affinity" not in pod["spec"]


def test_a_dry_run_shows_the_job_that_would_be_stored_and_creates_nothing(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    shown = team.create(job("train", backoffLimit=3), "--dry-run=server")
    assert team.get("jobs")["items"] == []
    assert without_times(shown) == without_times(team.create(job("train", backoffLimit=3)))


def test_a_namespace_label_with_an_unknown_profile_or_mode_is_denied(namespace: NewNamespace, kubectl: Kubectl) -> None:
    team = namespace()
    refused = kubectl.run("label", "namespace", team.name, f"{names.PROFILE}=defualt", f"{names.MODE}=warn")
    known = ", ".join(sorted(document_of(policy_of_tests())["profiles"])[:3])
    assert f"the policy has no profile 'defualt', it has {known}" in refused.stderr
    assert "label it default" in refused.stderr
    assert "must be Enforce, Warn or Audit (did you mean Warn?)" in refused.stderr


def test_a_misspelt_key_on_a_namespace_a_job_or_a_bare_pod_gets_a_warning(
    namespace: NewNamespace, kubectl: Kubectl
) -> None:
    team = namespace()
    label = ("label", "--dry-run=server", "namespace", team.name)
    lonely = kubectl.run(*label, f"{names.MODE}=enforce")
    assert (lonely.returncode, "did you mean Enforce?" in lonely.stderr) == (0, True)
    assert f"no effect without the label {names.PROFILE}" in lonely.stderr
    assert "use profile" in kubectl.run(*label, f"{names.PREFIX}proflie=default").stderr
    team.label({names.PROFILE: "default"})
    create = ("create", "--dry-run=server", "--filename=-")
    until(lambda: "use max-retries" in team.run(*create, stdin=job("a", {f"{names.PREFIX}max-retrys": "1"})).stderr)
    assert "use interruptible" in team.run(*create, stdin=pod("b", {f"{names.PREFIX}interuptible": "true"})).stderr
    bulky = {f"{number:05d}": "" for number in range(5_000)}  # more than the API server's condition goes through
    misspelt = pod("b", {**bulky, f"{names.PREFIX}interuptible": "true"})
    assert "use interruptible" in team.run(*create, stdin=misspelt).stderr


def test_mode_warn_prints_warnings_and_mode_audit_prints_nothing(namespace: NewNamespace) -> None:
    warned = namespace({names.PROFILE: "default", names.MODE: "Warn"})
    printed = warned.run("create", "--filename=-", stdin=job("train", backoffLimit=25))
    would = "spec.backoffLimit: would deny: 25 retries exceed the limit of 10"
    assert f"Warning: Job {warned.name}/train: {would}" in printed.stderr
    assert "podFailurePolicy" not in warned.get("job", "train")["spec"]
    audited = namespace({names.PROFILE: "default", names.MODE: "Audit"})
    silent = audited.run("create", "--filename=-", stdin=job("train", backoffLimit=25))
    assert (silent.returncode, silent.stderr) == (0, "")
    assert "podFailurePolicy" not in audited.get("job", "train")["spec"]


def test_a_changed_namespace_label_takes_effect(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    assert "denied" in team.refusal(job("train", backoffLimit=25))
    team.label({names.PROFILE: "clamp"})
    until(lambda: not team.refusal(job("train", backoffLimit=25)))
    dry_run = ("create", "--dry-run=server", "--filename=-")
    assert "lowered to 10" in team.run(*dry_run, stdin=job("train", backoffLimit=25)).stderr
    team.label({names.PROFILE: None})
    until(lambda: team.create(job("train", backoffLimit=25), *DRY_RUN)["spec"]["backoffLimit"] == 25)
    assert team.run(*dry_run, stdin=job("train", backoffLimit=25)).stderr == ""


def test_a_job_from_before_opt_in_keeps_its_spec_and_its_new_pods_are_not_placed(
    namespace: NewNamespace,
) -> None:
    team = namespace()
    before = team.create(job("train", backoffLimit=3))
    (first,) = team.running("train", 1)
    team.label({names.PROFILE: "require"})
    until(lambda: "podFailurePolicy" in team.create(job("later"), "--dry-run=server")["spec"])

    team.evict(first["metadata"]["name"])

    (second,) = team.running("train", 1, but=first)
    assert team.get("job", "train")["spec"] == before["spec"]
    assert "affinity" not in first["spec"]
    assert "affinity" not in second["spec"]
    assert names.PLACEMENT not in (second["metadata"].get("annotations") or {})


def test_the_injected_policy_of_a_cron_job_reaches_its_jobs_and_pods(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "require")
    template = {"spec": job("train", backoffLimit=2)["spec"]}
    team.create(
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "nightly"},
            "spec": {"schedule": "0 3 * * *", "jobTemplate": template},
        }
    )
    stored = team.get("cronjob", "nightly")["spec"]["jobTemplate"]["spec"]
    assert stored["podFailurePolicy"]["rules"] == [DISRUPTION, bug()]
    team.run("create", "job", "tonight", "--from=cronjob/nightly")
    (pod,) = team.pods_of("tonight", len)
    assert noted(pod)["max-retries"] == "2"
    assert team.get("job", "tonight")["spec"]["podFailurePolicy"] == stored["podFailurePolicy"]


def test_a_bare_pod_is_placed_only_with_an_attempt_annotation(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "require")
    bare = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bare"},
        "spec": job("x")["spec"]["template"]["spec"],
    }
    assert "affinity" not in team.create(bare)["spec"]
    bare["metadata"] = {"name": "annotated", "annotations": {names.ATTEMPT: "3"}}
    assert required(team.create(bare)) == [{"matchExpressions": [OFF_SPOT]}]
    bare["metadata"] = {"name": "wrong", "annotations": {names.ATTEMPT: "third"}}
    assert "must be a whole number" in team.refusal(bare)


@pytest.mark.parametrize(("spec", "expected"), CASES.values(), ids=CASES)
def test_the_api_server_stores_the_jobs_that_the_rules_produce(
    dry: NewNamespace, spec: Object, expected: list[Object] | None
) -> None:
    stored = opted_in(dry).create(job_with_spec(spec), "--dry-run=server")
    assert (stored["spec"].get("podFailurePolicy") or {}).get("rules") == expected
    as_the_webhook_sees_it = dry().create(job_with_spec(spec), "--dry-run=server")
    answer = mutate(as_the_webhook_sees_it, Facts(profile_name="default"), load_default())
    assert without_times(answer.object) == without_times(stored)
