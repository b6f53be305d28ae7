"""Jobs with a deadline: on spot nodes, or waiting for them, as long as they cannot be late; on-demand from then on."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.awaiting import until
from tests.cluster import disruptions
from tests.cluster.objects import account, ended, last, noted
from tests.cluster.scenarios.conftest import program
from tests.cluster.scenarios.test_jobs import is_complete, pool
from tests.cluster.test_ledger import explained
from webhook.kube.names import WORK

if TYPE_CHECKING:
    from tests.cluster.kubectl import Object
    from tests.cluster.scenarios.conftest import NewScene

STAYS = program(at_sigterm=143)


def requires_spot(pod: Object) -> bool:
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    return "requiredDuringSchedulingIgnoredDuringExecution" in affinity and noted(pod)["placement"] == "Spot"


@pytest.mark.first
def test_a_job_with_time_goes_back_to_spot_nodes_after_more_disruptions_than_the_limit(scene: NewScene) -> None:
    here = scene("deadline", spot=1, on_demand=1)
    here.create("deadline.yaml", STAYS)
    (pod,) = here.team.running("train", 1)
    for number in range(1, 4):
        assert requires_spot(pod)
        here.evict(pod)
        (pod,) = here.team.running("train", 1, but=pod)
        found = here.team.wait_for("jobs", "train", partial(ended, number=number))
    assert requires_spot(pod)
    assert account(found)["cost"] == {"disruption": 3}
    assert "of work left; on-demand nodes would be done with" in str(explained(here.team, "train")["budgets"])
    assert here.team.event_messages("train", "DeadlineTurn") == []


@pytest.mark.first
def test_a_job_that_no_spot_node_takes_runs_on_demand_from_its_last_safe_moment_on(scene: NewScene) -> None:
    """A minute after its creation: two, less half a minute of work, ten seconds of a disruption, and two starts."""
    here = scene("deadline", spot=1, on_demand=1)
    (spot,) = (node for node in here.nodes.nodes if "-spot-" in node)
    disruptions.cordon(here.kubectl, spot)
    here.create("late.yaml", program(0))
    here.team.wait_for("jobs", "train", is_complete)
    found = here.team.wait_for("jobs", "train", lambda found: ended(found, 1))
    assert last(found) == [("Disruption", "SpotUnavailable", "disruption")]
    first, second = here.team.pods_of("train", lambda pods: len(pods) == 2)
    assert requires_spot(first)
    assert (pool(second), noted(second)["placement"]) == ("on-demand", "OnDemand")
    (message,) = here.team.told("train", "DeadlineTurn")
    assert message.startswith(f"after pod {first['metadata']['name']} the deadline allows no more disruption (30s of")


def test_a_job_without_a_word_of_its_work_takes_as_long_as_the_three_before_it(scene: NewScene) -> None:
    here = scene("deadline", spot=1, on_demand=1)
    runs = {**program(0), "retry-policy-test/seconds": "3"}
    for number in range(1, 4):
        job = here.create("nightly.yaml", runs, name=f"nightly-{number}")
        assert WORK not in job["metadata"]["annotations"]
        here.team.wait_for("jobs", job["metadata"]["name"], is_complete)
    created: list[Object] = []

    def has_work() -> bool:
        created.append(here.create("nightly.yaml", STAYS, name=f"nightly-{len(created) + 4}"))
        return WORK in created[-1]["metadata"]["annotations"]

    until(has_work)  # the webhook's watch of pods may lag
    job = created[-1]
    work = job["metadata"]["annotations"][WORK]
    assert int(work.removesuffix("s")) >= 2
    (pod,) = here.team.running(job["metadata"]["name"], 1)
    assert requires_spot(pod)
    lines = str(explained(here.team, job["metadata"]["name"])["budgets"])
    assert "of work left; on-demand nodes would be done with" in lines
    assert f"work: {work}, as 95 % of the last 3 Jobs named nightly" in lines
