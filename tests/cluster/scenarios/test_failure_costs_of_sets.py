"""What a failure costs a JobSet by the rules of onFailure, with its real controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.conftest import with_operators
from tests.cluster.objects import account, ended, restarts
from tests.cluster.scenarios.test_failure_costs import dies, failed_for, has_failed

if TYPE_CHECKING:
    from tests.cluster.scenarios.conftest import NewScene

pytestmark = with_operators


def test_a_free_exit_code_replaces_one_pod_of_a_job_set_and_its_peers_may_crash(scene: NewScene) -> None:
    here = scene("costs")
    here.create("training-set.yaml")
    first, second, *_ = here.team.pods_of_set("llm", 0, 4)
    here.team.ends(first, 75)
    here.team.ends(second, 1)
    counted = here.team.wait_for("jobsets", "llm", lambda found: ended(found, 2))
    assert account(counted)["cost"] == {"free": 1, "retry": 1}
    known = {first["metadata"]["uid"], second["metadata"]["uid"]}
    pods = here.team.running("llm-workers-0", 4)
    assert not known & {pod["metadata"]["uid"] for pod in pods}
    now = here.team.get("jobset", "llm")
    assert (restarts(now), failed_for(now)) == ((0, 0), ("", ""))


def test_a_fatal_exit_code_fails_the_job_set_once_no_disruption_explains_it(scene: NewScene) -> None:
    here = scene("costs")
    here.create("training-set.yaml")
    first, *_ = here.team.pods_of_set("llm", 0, 4)
    here.team.ends(first, 42)
    failed = here.team.wait_for("jobsets", "llm", has_failed)
    assert failed_for(failed)[0] == "FailJobSetFailurePolicyAction"
    settled = here.team.wait_for("jobsets", "llm", lambda found: account(found)["cost"].get("fatal"))
    assert (account(settled)["last"][0]["onFailure"], account(settled)["last"][0]["settled"]) == (2, True)


@pytest.mark.first
def test_a_free_exit_code_beyond_the_limit_of_retries_fails_the_job_set(scene: NewScene) -> None:
    here = scene("free")
    here.create("one-pod-set.yaml", {"retry-policy-test/exit-code": "75"})
    failed = here.team.wait_for("jobsets", "single", has_failed)
    assert failed_for(failed)[0] == "FreeRestartLimitExceeded"
    assert restarts(failed) == (0, 0)


def test_a_pod_of_a_job_set_that_was_killed_for_its_memory_is_replaced(scene: NewScene) -> None:
    here = scene("costs")
    here.create("one-pod-set.yaml")
    (first,) = here.team.running("single-workers-0", 1)
    dies(here, first, 137, "OOMKilled")
    (second,) = here.team.running("single-workers-0", 1, but=first)
    dies(here, second, 137)
    failed = here.team.wait_for("jobsets", "single", has_failed)
    assert failed_for(failed)[0] == "FailJobSetFailurePolicyAction"


def test_a_disruption_fails_the_job_set_where_a_rule_makes_it_fatal(scene: NewScene) -> None:
    here = scene("fatal-disruptions")
    here.create("training-set.yaml")
    first, *_ = here.team.pods_of_set("llm", 0, 4)
    here.team.evict(first["metadata"]["name"])
    failed = here.team.wait_for("jobsets", "llm", has_failed)
    assert (failed_for(failed)[0], restarts(failed)) == ("FailJobSetFailurePolicyAction", (0, 0))
