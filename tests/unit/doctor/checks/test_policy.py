"""What the doctor finds about the stored policy."""

from typing import Any

import pytest
import yaml

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
        (stored({"policy.yaml": "{kind: RetryPolicy, profiles: {a: {x: 1}}}"}), "is refused by the replicas", EDIT),
    ],
)
def test_a_policy_that_no_replica_can_use_is_a_problem(config_maps: list[Json], what: str, fix: str) -> None:
    found = told(check, healthy(config_maps=config_maps))
    assert found[0] == "problem"
    assert what in found[1]
    assert found[2].startswith(fix)


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
    text = yaml.safe_dump({**yaml.safe_load(POLICY_TEXT), "emergency": said})
    (found,) = wrong(check, healthy(config_maps=stored({"policy.yaml": text})))
    assert (found.status, found.fix) == ("warning", f"{EDIT}   {fix}")
    assert found.what.startswith(what)


def test_profiles_whose_actions_are_only_reported_are_named() -> None:
    text = yaml.safe_dump({**yaml.safe_load(POLICY_TEXT), "profiles": {"a": {"actions": "Report"}, "b": {}}})
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
