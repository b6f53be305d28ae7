"""Each criterion of onFailure with each of its answers, on the real controllers: the first match decides."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.kubelet import end
from tests.cluster.objects import account, condition, is_running
from tests.cluster.on_failure_matrix import Criterion, Following, name_of, pairs
from webhook.kube import names

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kubectl import Object
    from tests.cluster.scenarios.conftest import NewScene

JOB = "simulate"
ZONE = "topology.kubernetes.io/zone"


def note(pod: Object, key: str) -> str:
    return str(pod["metadata"]["annotations"].get(key, ""))


def costs(retries: int) -> Callable[[Object, Object], bool]:
    """Return a check of how many retries are spent when the next pod is created."""
    return lambda _, now: note(now, names.ATTEMPT) == str(retries)


def avoided_zone(before: Object, now: Object) -> bool:
    wanted: Any = now["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    zone = {"key": ZONE, "operator": "NotIn", "values": ["europe-west1-b"]}
    return before["spec"]["nodeName"] != "" and any(zone in one["preference"]["matchExpressions"] for one in wanted)


def waited(before: Object, now: Object) -> bool:
    """Return True if a pod has started at least three seconds after the end of the one before."""
    ended = note_of_state(now)["notBefore"]
    started = datetime.fromisoformat(now["status"]["startTime"])
    return bool(before) and started >= datetime.fromisoformat(ended)


def note_of_state(pod: Object) -> Object:
    """Return what the annotation after-failure of a pod says."""
    found: Object = json.loads(note(pod, names.AFTER_FAILURE) or "{}")
    return found


DIFFERS: dict[str, Callable[[Object, Object], bool]] = {
    "memory": lambda _, now: now["spec"]["containers"][0]["resources"]["limits"]["memory"] == "2Gi",
    "delay": waited,
    "node": lambda before, now: bool(before["spec"]["nodeName"] != now["spec"]["nodeName"]),
    "zone": avoided_zone,
    "on-demand": lambda _, now: "-on-demand-" in now["spec"]["nodeName"],
}


@pytest.mark.parametrize(("criterion", "following"), [pytest.param(*one, id=name_of(*one)) for one in pairs()])
def test_the_first_rule_that_matches_decides_about_the_next_pod(
    scene: NewScene, criterion: Criterion, following: Following
) -> None:
    here, ending = scene(name_of(criterion, following), spot=1, on_demand=1), criterion.ending
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
        found = here.team.wait_for("jobs", JOB, lambda found: account(found).get("ended", 0) >= ending.times)
        assert account(found)["last"][-1]["onFailure"] == 0
        assert not [one for one in here.team.get("pods")["items"] if is_running(one)]
        return
    (now,) = here.team.running(JOB, 1, but=pod)
    state = note_of_state(now)
    assert state.get("rule") == 0, state
    spent = ending.times - 1
    differs = DIFFERS.get(following.name) or costs(spent + (following.name == "retry"))
    assert differs(pod, now), now["spec"]
    found = here.team.wait_for("jobs", JOB, lambda found: account(found).get("ended", 0) >= ending.times)
    assert account(found)["last"][-1]["onFailure"] == 0
