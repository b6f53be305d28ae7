"""What the doctor finds about the stored policy."""

from typing import Any

import pytest
import yaml

from tests.documents import document_of
from tests.unit.doctor.healthy import POLICY_TEXT, deployment, healthy, told, wrong
from webhook.doctor.checks.policy import check
from webhook.objects.problem import Json

EDIT = "kubectl -n retry-policy-system edit configmap retry-policy"


def stored(data: Any, changed: str = "2026-11-23T11:00:00Z") -> list[Json]:
    return [{"metadata": {"managedFields": [{"time": changed}]}, "data": data}]


def refused(time: str) -> Json:
    involved = {"kind": "ConfigMap", "name": "retry-policy"}
    return {"involvedObject": involved, "reason": "PolicyRefused", "message": "unknown field", "lastTimestamp": time}


def test_a_good_policy_is_shown_with_its_profiles() -> None:
    (found,) = check(healthy())
    assert (found.status, found.what) == ("ok", "profiles default, gpu")


@pytest.mark.parametrize(
    ("config_maps", "what", "fix"),
    [
        ([], "does not exist", "kubectl apply -k manifests/base"),
        (stored(None), "data[policy.yaml]: is missing", EDIT),
        (stored({"policy.yaml": "{kind: RetryPolicy, profiles: {a: {x: 1}}}"}), "is refused: profiles.a.x", EDIT),
    ],
)
def test_a_policy_that_no_replica_can_use_is_a_problem(config_maps: list[Json], what: str, fix: str) -> None:
    found = told(check, healthy(config_maps=config_maps))
    assert found[0] == "problem"
    assert what in found[1]
    assert found[2].startswith(fix)


@pytest.mark.parametrize("config_maps", [[], stored(None), stored({"policy.yaml": "[]"})])
@pytest.mark.parametrize(
    ("ready", "what"),
    [
        (2, "the replicas keep the last good policy, and new ones do not become ready"),
        (0, "no replica is ready, so no policy is in force"),
    ],
)
def test_it_says_which_policy_is_in_force_while_none_can_be_read(
    ready: int, what: str, config_maps: list[Json]
) -> None:
    root = deployment()
    root["status"]["readyReplicas"] = ready
    assert what in told(check, healthy(config_maps=config_maps, deployment=root))[1]


def test_without_a_deployment_no_policy_is_in_force() -> None:
    found = told(check, healthy(config_maps=[], deployment={}, deployments=[]))
    assert "so no policy is in force" in found[1]


def test_the_policy_of_a_helm_release_is_changed_by_an_upgrade() -> None:
    root = deployment(annotations={"meta.helm.sh/release-name": "policy"})
    fix = told(check, healthy(config_maps=stored({"policy.yaml": "[]"}), deployment=root))[2]
    upgrade = (
        "helm upgrade policy charts/retry-policy-webhook --namespace retry-policy-system --reset-then-reuse-values"
    )
    assert fix == f"{upgrade} --set-file policy=policy.yaml   # after you have corrected policy.yaml"


@pytest.mark.parametrize(
    ("told_at", "changed", "number"),
    [
        ("2026-11-23T11:58:00Z", "2026-11-23T11:00:00Z", 1),
        ("2026-11-23T11:40:00Z", "2026-11-23T11:00:00Z", 0),  # it would have been repeated
        ("2026-11-23T11:58:00Z", "2026-11-23T11:59:00Z", 0),  # it was about the policy before
    ],
)
def test_a_policy_that_a_replica_of_another_version_refuses_is_a_warning(
    told_at: str, changed: str, number: int
) -> None:
    config_maps = stored({"policy.yaml": POLICY_TEXT}, changed)
    found = wrong(check, healthy(config_maps=config_maps, events=[refused(told_at)]))
    assert len(found) == number
    assert all("a replica refuses it: unknown field" in one.what for one in found)


@pytest.mark.parametrize(
    ("said", "what", "fix"),
    [
        ({"actions": "Stop"}, "emergency.actions is Stop: the leader counts pods, and does", "# actions: Run"),
        ({"retries": "Stop"}, "emergency.retries is Stop: what is created or changed now", "# retries: Run"),
    ],
)
def test_a_policy_that_stops_something_is_a_warning(said: Json, what: str, fix: str) -> None:
    text = yaml.safe_dump({**document_of(POLICY_TEXT), "emergency": said})
    (found,) = wrong(check, healthy(config_maps=stored({"policy.yaml": text})))
    assert (found.status, found.fix) == ("warning", f"{EDIT}   {fix}")
    assert found.what.startswith(what)


def test_profiles_whose_actions_are_only_reported_are_named() -> None:
    text = yaml.safe_dump({**document_of(POLICY_TEXT), "profiles": {"a": {"actions": "Report"}, "b": {}}})
    (found,) = wrong(check, healthy(config_maps=stored({"policy.yaml": text})))
    assert found.what == "profile a: actions is Report, so the leader only says in Events what it would do"


def test_a_policy_that_is_not_in_a_config_map_is_not_looked_at() -> None:
    root = deployment()
    root["spec"]["template"]["spec"]["containers"][0]["args"] = ["serve", "--policy=/etc/policy.yaml"]
    (found,) = check(healthy(deployment=root))
    assert found.status == "ok"
    assert "is not in a ConfigMap" in found.what


def test_a_policy_that_could_not_be_read_is_not_judged() -> None:
    assert wrong(check, healthy(config_maps=None)) == []
