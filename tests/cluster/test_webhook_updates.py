"""Existing objects that are applied again, opted in later, or updated, also after a change of the policy."""

import os
from pathlib import Path

import pytest

from tests.awaiting import until
from tests.cluster.conftest import NewNamespace, opted_in
from tests.cluster.kubectl import Object
from tests.cluster.manifests import job
from tests.cluster.namespace import SERVER_SIDE, Namespace
from tests.cluster.test_webhook_jobs import job_with_spec
from tests.merge_cases import CASES, bug
from tests.objects import DISRUPTION
from webhook.kube import names

CREATED = {name: case for name, case in CASES.items() if name != "managed by another controller"}


def denied(team: Namespace) -> bool:
    return "denied the request" in team.refusal(job("probe", backoffLimit=25))


@pytest.mark.parametrize("flags", [(), SERVER_SIDE], ids=["client-side", "server-side"])
def test_unchanged_manifests_can_be_applied_again(namespace: NewNamespace, flags: tuple[str, ...]) -> None:
    team = opted_in(namespace)
    manifests = [job_with_spec(spec) for spec, _ in CREATED.values()]
    for number, manifest in enumerate(manifests):
        manifest["metadata"]["name"] = f"train-{number}"
    stored, again = (team.apply_all(manifests, *flags) for _ in range(2))
    for (name, (_, rules)), before, after in zip(CREATED.items(), stored, again, strict=True):
        assert (before["spec"].get("podFailurePolicy") or {}).get("rules") == rules, name
        assert after["spec"] == before["spec"], name
        for key in ("annotations", "labels"):
            assert after["metadata"].get(key) == before["metadata"].get(key), name


@pytest.mark.parametrize("flags", [(), SERVER_SIDE], ids=["client-side", "server-side"])
def test_a_manifest_with_many_injected_fields_can_be_applied_again(
    namespace: NewNamespace, flags: tuple[str, ...]
) -> None:
    team = opted_in(namespace)
    manifest = job_with_spec(CASES["own exit codes for one of two containers"][0])
    manifest["metadata"]["annotations"] = {names.MAX_RETRIES: "2", names.INTERRUPTIBLE: "false"}
    manifest["spec"]["backoffLimit"] = 9
    manifest["spec"]["podReplacementPolicy"] = "Failed"
    stored = team.apply(manifest, *flags)
    assert stored["spec"]["backoffLimit"] == 2
    assert stored["spec"]["template"]["metadata"]["annotations"][names.INTERRUPTIBLE] == "false"
    assert team.apply(manifest, *flags)["spec"] == stored["spec"]


def test_kubectl_replace_keeps_the_injected_fields(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    stored = team.create(job("train"))
    manifest = {**job("train"), "spec": {**job("train")["spec"], "selector": stored["spec"]["selector"]}}
    manifest["spec"]["template"]["metadata"]["labels"] = stored["spec"]["template"]["metadata"]["labels"]
    # kubectl reads the object and sends it back; the Job controller may write its status in between.
    replaced = team.run("replace", "--filename=-", stdin=manifest)
    while "the object has been modified" in replaced.stderr:
        replaced = team.run("replace", "--filename=-", stdin=manifest)
    assert replaced.returncode == 0, replaced.stderr
    assert team.get("job", "train")["spec"]["podFailurePolicy"] == stored["spec"]["podFailurePolicy"]
    assert team.get("job", "train")["metadata"]["annotations"] == stored["metadata"]["annotations"]


def test_after_a_policy_change_existing_objects_can_be_applied_labelled_and_suspended(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "changing")
    manifests = [job_with_spec(CASES[name][0]) for name in ("no policy of its own", "own list of fatal codes")]
    for number, manifest in enumerate(manifests):
        manifest["metadata"]["name"] = f"train-{number}"
    stored = [team.apply(manifest) for manifest in manifests]
    policy = Path(os.environ["RETRY_POLICY_TEST_POLICY"])
    before = "    failurePolicy: {retriableExitCodes: [143]}\n"
    after = "    failurePolicy: {retriableExitCodes: [77]}\n    attemptTimeout: 1h\n    retries: {limit: 1}\n"
    policy.write_text(policy.read_text().replace(before, after))
    fresh = job("fresh", backoffLimit=1)
    until(
        lambda: (
            team.create(fresh, "--dry-run=server")["spec"]["podFailurePolicy"]["rules"]
            == [DISRUPTION, bug(values=(77,))]
        )
    )
    for manifest, was in zip(manifests, stored, strict=True):
        assert team.apply(manifest)["spec"] == was["spec"]
        assert team.apply(manifest, *SERVER_SIDE, "--force-conflicts")["spec"] == was["spec"]
        name = f"job/{manifest['metadata']['name']}"
        for change in ({"metadata": {"labels": {"team": "a"}}}, {"spec": {"suspend": True}}):
            team.patch(name, change)


def test_a_job_from_before_opt_in_can_still_be_updated_and_deleted(namespace: NewNamespace) -> None:
    team = namespace()
    team.apply(job("old", backoffLimit=25, completions=9, parallelism=1))
    team.label({names.PROFILE: "default"})
    until(lambda: denied(team))
    changes: list[Object] = [
        {"metadata": {"labels": {"team": "a"}}},
        {"metadata": {"annotations": {"note": "b"}}},
        {"spec": {"parallelism": 2}},
        {"spec": {"suspend": True}},
        {"spec": {"suspend": False}},
        {"metadata": {"finalizers": ["example.test/hold"]}},
        {"spec": {"backoffLimit": 20}},
    ]
    for change in changes:
        team.patch("job/old", change)
    team.delete("job/old")
    team.patch("job/old", {"metadata": {"finalizers": []}})
    team.wait_for_all("jobs", lambda jobs: not jobs)


def test_an_update_beyond_the_retry_limit_is_denied_and_one_within_it_is_accepted(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(job("train", backoffLimit=4))
    refused = team.patched("job/train", {"spec": {"backoffLimit": 11}})
    assert "spec.backoffLimit: 11 retries exceed the limit of 10" in refused
    team.patch("job/train", {"spec": {"backoffLimit": 9}})
    assert team.get("job", "train")["spec"]["backoffLimit"] == 9


def test_applying_a_manifest_from_before_opt_in_changes_nothing(namespace: NewNamespace) -> None:
    team = namespace()
    manifest = job_with_spec(CASES["own list of fatal codes"][0])
    stored = team.apply(manifest)
    team.label({names.PROFILE: "default"})
    until(lambda: denied(team))
    assert team.apply(manifest)["spec"] == stored["spec"]
    assert team.apply(manifest, *SERVER_SIDE, "--force-conflicts")["spec"] == stored["spec"]
