"""What a program knows of its attempt, and what stays of its last words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster import command_line
from tests.cluster.kubelet import end
from tests.cluster.objects import account, ended
from tests.cluster.on_failure_matrix import Ending

if TYPE_CHECKING:
    from tests.cluster.kubectl import Object
    from tests.cluster.scenarios.conftest import NewScene

DECIDED = "rule 0 of onFailure decided"
NCCL = "rank 3: NCCL error\nunhandled system error"


def variables(pod: Object) -> dict[str, str]:
    (container,) = pod["spec"]["containers"]
    return {one["name"].removeprefix("RETRY_"): one.get("value", "") for one in container["env"]}


@pytest.mark.first
def test_each_attempt_knows_its_number_its_nodes_and_why_the_last_one_ended(scene: NewScene) -> None:
    here = scene("telling")
    here.create("one-pod.yaml")
    (first,) = here.team.running("train", 1)
    assert variables(first) == {"ATTEMPT": "0", "MAX": "2", "PLACEMENT": "Spot", "LAST_CAUSE": ""}
    here.team.evict(first["metadata"]["name"])
    (second,) = here.team.running("train", 1, but=first)
    assert variables(second) == {"ATTEMPT": "0", "MAX": "2", "PLACEMENT": "OnDemand", "LAST_CAUSE": "Disruption"}
    end(here.team, second, Ending(143, message=NCCL))
    (third,) = here.team.running("train", 1, but=second)
    assert variables(third) == {"ATTEMPT": "1", "MAX": "2", "PLACEMENT": "OnDemand", "LAST_CAUSE": "ExitCode"}


def test_the_last_words_outlive_the_pod_and_name_the_rule_that_read_them(scene: NewScene) -> None:
    here = scene("telling")
    here.create("one-pod.yaml")
    (first,) = here.team.running("train", 1)
    assert first["spec"]["containers"][0]["terminationMessagePolicy"] == "FallbackToLogsOnError"
    end(here.team, first, Ending(143, message=NCCL))
    found = here.team.wait_for("jobs", "train", lambda found: ended(found, 1))
    here.team.delete(f"pod/{first['metadata']['name']}")
    here.team.pods_of("train", lambda pods: first["metadata"]["uid"] not in [pod["metadata"]["uid"] for pod in pods])
    (last,) = account(found)["last"]
    assert (last["message"], last["onFailure"]) == ("rank 3: NCCL error unhandled system error", 0)
    shown = command_line.run("explain", f"{here.team.name}/job/train", f"--kubeconfig={here.team.kubeconfig}").stdout
    assert f"\nLast words:\n  {first['metadata']['name']}: rank 3: NCCL error unhandled system error\n" in shown
    assert "onFailure 0" in shown
    here.team.wait_for_all(
        "events", lambda events: any("rule 0 of onFailure decided" in one["message"] for one in events)
    )
    assert not [one for one in here.team.event_messages("train") if "NCCL" in one]
