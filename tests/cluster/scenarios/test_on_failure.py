"""Each criterion of onFailure with each of its answers, on the real controllers: the first match decides."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from tests.cluster.kubelet import end
from tests.cluster.objects import account, condition, is_running
from tests.cluster.on_failure_matrix import Criterion, Following, each_once, name_of, pairs
from webhook.kube import names

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace
    from tests.cluster.scenarios.conftest import NewScene

JOB = "simulate"
ZONE = "topology.kubernetes.io/zone"


def note(pod: Object, key: str) -> str:
    return str(pod["metadata"]["annotations"].get(key, ""))


def costs(retries: int) -> Callable[[Object, Object], bool]:
    """Return a check of how many retries are spent when the next pod is created."""
    return lambda _, now: note(now, names.ATTEMPT) == str(retries)


def preferences(pod: Object) -> list[Object]:
    """Return the preferences of a pod for nodes."""
    wanted = pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    return [one["preference"] for one in wanted]


def avoids_node(before: Object, now: Object) -> bool:
    away = {"key": "metadata.name", "operator": "NotIn", "values": [before["spec"]["nodeName"]]}
    return any(away in one.get("matchFields", ()) for one in preferences(now))


def avoids_zone(_: Object, now: Object) -> bool:
    away = {"key": ZONE, "operator": "NotIn", "values": ["europe-west1-b"]}
    return any(away in one.get("matchExpressions", ()) for one in preferences(now))


def waited(before: Object, now: Object) -> bool:
    """Return True if a pod has started at least three seconds after the end of the one before."""
    ended = note_of_state(now)["notBefore"]
    started = datetime.fromisoformat(now["status"]["startTime"])
    return bool(before) and started >= datetime.fromisoformat(ended)


def note_of_state(pod: Object) -> Object:
    """Return what the annotation after-failure of a pod says."""
    found: Object = json.loads(note(pod, names.AFTER_FAILURE) or "{}")
    return found


def rule_after(team: Namespace, pod: Object) -> object:
    """Return the rule that decided after a pod, as the account says; the Job may have had another pod since."""

    def of_pod(found: Object) -> list[Object]:
        return [one for one in account(found).get("last", ()) if one["pod"] == pod["metadata"]["name"]]

    return of_pod(team.wait_for("jobs", JOB, of_pod))[0]["onFailure"]


DIFFERS: dict[str, Callable[[Object, Object], bool]] = {
    "memory": lambda _, now: now["spec"]["containers"][0]["resources"]["limits"]["memory"] == "2Gi",
    "delay": waited,
    "node": avoids_node,
    "zone": avoids_zone,
    "on-demand": lambda _, now: "-on-demand-" in now["spec"]["nodeName"],
}


FEW = each_once()
PAIRS = [
    pytest.param(
        criterion,
        following,
        id=name_of(criterion, following),
        marks=[
            *([] if name_of(criterion, following) in FEW else [pytest.mark.long]),
            *([pytest.mark.first] if criterion.ending.times > 1 else []),
        ],
    )
    for criterion, following in pairs()
]


@pytest.mark.parametrize(("criterion", "following"), PAIRS)
def test_the_first_rule_that_matches_decides_about_the_next_pod(
    scene: NewScene, criterion: Criterion, following: Following
) -> None:
    ending = criterion.ending
    # One spot node, if an attempt must fail on the node of the one before it; else the next pod can go to another one.
    here = scene(name_of(criterion, following), spot=2 if ending.times == 1 else 1, on_demand=1)
    here.create("with-proxy-and-memory.yaml")
    (pod,) = here.team.running(JOB, 1)
    for _ in range(ending.times - 1):
        end(here.team, pod, ending)
        before = pod
        (pod,) = here.team.running(JOB, 1, but=before)
        assert pod["spec"]["nodeName"] == before["spec"]["nodeName"]
    end(here.team, pod, ending)
    if following.name == "fatal":
        here.team.wait_for("jobs", JOB, lambda found: condition(found, "Failed"))
        assert rule_after(here.team, pod) == 0
        assert not [one for one in here.team.get("pods")["items"] if is_running(one)]
        return
    (now,) = here.team.running(JOB, 1, but=pod)
    state = note_of_state(now)
    assert state.get("rule") == 0, state
    spent = ending.times - 1
    differs = DIFFERS.get(following.name) or costs(spent + (following.name == "retry"))
    assert differs(pod, now), now["spec"]
    if following.name == "node" and ending.times == 1:
        assert now["spec"]["nodeName"] != pod["spec"]["nodeName"]
    assert rule_after(here.team, pod) == 0
