"""What `explain` foretells of a JobSet is what the real controllers, the ledger and placement then do.

Histories are drawn as in test_forecast.py: half as many.
"""

from __future__ import annotations

import logging
import random
import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.cluster.conftest import opted_in, with_operators
from tests.cluster.failing_sets import SET, FailingSet, restarts_alone
from tests.cluster.manifests import job_set, replicated_job
from tests.cluster.objects import account_in, condition, noted, restarts
from tests.cluster.test_forecast import AT_ONCE, DEFAULT, EXAMPLES, HISTORIES, MOST_ENDINGS, counted
from tests.histories import AUTHORS_RULES, DISRUPTION, ENDINGS, foretold, index_of
from tests.job_sets import pods_of_jobs
from webhook.explain.build import explain
from webhook.systems.job_set.spec import FREE, JOB_SET, RESTART_JOB, RESTART_SET

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace
    from webhook.accounts.forecast import Forecast

PROFILES = ("on-demand", "early", "fail", "count", "together")
RULES_OF_SETS: tuple[list[Object], ...] = (
    [],
    [],
    [{"name": "alone", "action": "RestartJob", "targetReplicatedJobs": ["b"]}],
    [{"name": "again", "action": "RestartJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}],
    [{"name": "limit", "action": "FailJobSet", "onJobFailureReasons": ["BackoffLimitExceeded"]}],
)

pytestmark = [with_operators, pytest.mark.generated, pytest.mark.first]


@dataclass
class SetHistory:
    """One JobSet whose pods end in a random order, in random ways."""

    team: Namespace
    name: str
    chance: random.Random
    compared: int = 0
    restarted: bool = False

    def manifest(self) -> Object:
        parts = []
        for name, pods in (("a", 2), ("b", 1)):
            rules = self.chance.choice(AUTHORS_RULES)
            own = {"podFailurePolicy": {"rules": rules}} if rules else {}
            indexed = {"completionMode": "Indexed", "completions": pods, "parallelism": pods}
            parts.append(replicated_job(name, backoffLimit=self.chance.randrange(3), **indexed, **own))
            parts[-1]["replicas"] = 3 - pods
        policy = {"maxRestarts": self.chance.randrange(3), "rules": self.chance.choice(RULES_OF_SETS)}
        return job_set(self.name, *parts, failurePolicy=policy)

    def suffer(self) -> int:
        """Let pods end one after the other; return how many forecasts were compared."""
        self.team.create(self.manifest())
        for _ in range(MOST_ENDINGS):
            running = self.all_run().running
            name = self.chance.choice(sorted(running))
            pod = self.chance.choice(running[name])
            if not self.ends_as_foretold(name, pod, self.chance.choice(ENDINGS)):
                break
        return self.compared

    def root(self) -> Object:
        return self.team.get("jobset", self.name)

    def jobs(self) -> list[Object]:
        return self.team.wait_for_all("jobs", bool, selector=f"{SET}jobset-name={self.name}")

    def observed(self, pods: list[Object]) -> FailingSet:
        root = self.root()
        by_uid = {pod["metadata"]["uid"]: pod for pod in pods}
        return FailingSet(self.team, self.name, pods_of_jobs(root), [], found=root, pods=by_uid)

    def all_run(self, *, but: str = "") -> FailingSet:
        """Return the set once all of its pods run, and the one that has ended is replaced."""

        def of_this_start(pods: list[Object]) -> FailingSet:
            return self.observed([pod for pod in pods if pod["metadata"]["uid"] != but])

        selector = f"{SET}jobset-name={self.name}"
        pods = self.team.wait_for_all("pods", lambda pods: of_this_start(pods).runs, selector=selector)
        return of_this_start(pods)

    def pods(self) -> list[Object]:
        return self.team.wait_for_all("pods", lambda _: True, selector=f"{SET}jobset-name={self.name}")

    def ends_as_foretold(self, name: str, pod: Object, ending: int) -> bool:
        """End a pod, and compare what was foretold with what becomes of it; return True if the set goes on."""
        before, jobs = self.root(), self.jobs()
        told = explain(JOB_SET, before, jobs, [*self.pods(), *account_in(before)]).forecasts
        (job,) = [one for one in jobs if one["metadata"]["name"] == f"{self.name}-{name}"]
        pod_name = pod["metadata"]["name"]
        if ending == DISRUPTION:
            self.team.evict(pod_name)
        else:
            self.team.ends(pod, ending)
        forecast = foretold(told, job, pod, ending, name)
        after = self.team.wait_for("jobsets", self.name, lambda found: counted(found, pod_name))
        detail = counted(after, pod_name)
        where = f"{self.team.name}/{self.name}: {pod_name} ended by {ending or 'a disruption'}, foretold {forecast}"
        if forecast.settled_within is None:
            assert detail["cost"] == forecast.cost, (where, detail)
        assert (detail.get("rule"), detail.get("action", "")) == (forecast.rule, forecast.action), (where, detail)
        assert detail["left"]["disruptions"] == forecast.left.disruptions, (where, detail)
        assert detail["left"]["retries"] == forecast.left.retries or not forecast.action, (where, detail)
        self.compared += 1
        if forecast.settled_within is not None and self.restarted:
            return False  # whether a pod that the restart deleted explains it depends on how long that took
        if forecast.ends == "JobSet" or forecast.settled_within is not None:
            return self.fails(after, pod_name, forecast, where)
        return self.goes_on(forecast, name, pod, before, where)

    def fails(self, after: Object, pod_name: str, forecast: Forecast, where: str) -> bool:
        """Wait until the set has failed; return True if a crash was not one that the ledger decides after all."""
        if forecast.ends != "JobSet":
            pending = explain(JOB_SET, after, self.jobs(), [*self.pods(), *account_in(after)]).verdicts
            if not any(one.pod == pod_name for one in pending):
                return True  # an eviction before it explains it
        found = self.team.wait_for("jobsets", self.name, lambda found: condition(found, "Failed"))
        reason = condition(found, "Failed")["reason"]
        assert not forecast.reason or reason == forecast.reason, (where, reason)
        return False

    def goes_on(self, forecast: Forecast, name: str, pod: Object, before: Object, where: str) -> bool:
        """Compare what restarts, and where the next pod runs; return True."""
        now = self.all_run(but=pod["metadata"]["uid"])
        action = forecast.set_action.removesuffix(FREE)
        in_all, costly = (after - was for after, was in zip(counts(now.found), counts(before), strict=True))
        assert in_all == (action in {RESTART_SET, RESTART_JOB}), (where, now.found["status"])
        assert costly == (bool(action) and action == forecast.set_action), (where, now.found["status"])
        alone = restarts_alone(now.found).get(name, 0) - restarts_alone(before).get(name, 0)
        assert alone == (action == RESTART_JOB), (where, now.found["status"])
        if costly:
            most = now.found["spec"]["failurePolicy"]["maxRestarts"]
            assert forecast.left.retries == most - counts(now.found)[1], (where, now.found["status"])
        self.restarted = self.restarted or bool(action)
        (next_pod,) = [one for one in now.running[name] if index_of(one) == index_of(pod)]
        assert noted(next_pod)["placement"] == ("OnDemand" if forecast.off_spot else "Spot"), (where, noted(next_pod))
        return True


def counts(found: Object) -> tuple[int, int]:
    """Return the restarts of a set and of its Jobs: all of them, and those that count towards maxRestarts."""
    in_all, costly = restarts(found)
    of_jobs = found.get("status", {}).get("replicatedJobsStatus", [])
    costly_alone = sum(sum(one.get("jobRestartsCountTowardsMax") or ()) for one in of_jobs)
    return in_all + sum(restarts_alone(found).values()), costly + costly_alone


def test_what_is_foretold_of_each_failure_is_what_it_does(namespace: NewNamespace) -> None:
    first = 0 if EXAMPLES == DEFAULT else secrets.randbelow(2**32)
    teams = {profile: opted_in(namespace, f"foretold-{profile}") for profile in PROFILES}

    def suffer(number: int) -> int | str:
        chance = random.Random(first + number)  # noqa: S311 - no secret
        history = SetHistory(teams[chance.choice(PROFILES)], f"set-{number}", chance)
        try:
            return history.suffer()
        except AssertionError as error:
            return f"history {first + number}: {error}"

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(suffer, range(HISTORIES // 2)))
    wrong = [one for one in found if isinstance(one, str)]
    right = sum(one for one in found if isinstance(one, int))
    logging.getLogger(__name__).info("%d histories, %d forecasts, %d wrong", len(found), right, len(wrong))
    assert not wrong, "\n\n".join(wrong)
