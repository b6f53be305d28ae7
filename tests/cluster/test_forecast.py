"""What `explain` foretells of a failure is what the real controllers, the ledger and placement then do.

Histories are drawn: a policy, the shape of a Job, and how its pods end. RETRY_POLICY_EXAMPLES: fifty times as many as
are drawn (20 by default, always the same ones).
"""

from __future__ import annotations

import logging
import os
import random
import secrets
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.conftest import opted_in
from tests.cluster.manifests import job
from tests.cluster.objects import account, account_in, condition, is_running, noted
from tests.histories import AUTHORS_RULES, DISRUPTION, ENDINGS, SHAPES, foretold, index_of
from webhook.explain.build import explain
from webhook.kube import names
from webhook.systems.job import spec as batch

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace
    from webhook.accounts.forecast import Forecast

DEFAULT = 1000
EXAMPLES = int(os.environ.get("RETRY_POLICY_EXAMPLES", DEFAULT))
HISTORIES = EXAMPLES // 50
AT_ONCE = 40
MOST_ENDINGS = 3
PROFILES = ("on-demand", "early", "fail", "suspend", "count", "together")

pytestmark = [pytest.mark.generated, pytest.mark.first]


@dataclass
class History:
    """One Job whose pods end in a random order, in random ways."""

    team: Namespace
    name: str
    chance: random.Random
    compared: int = 0

    def manifest(self) -> Object:
        shape = deepcopy(self.chance.choice(SHAPES))
        rules = deepcopy(self.chance.choice(AUTHORS_RULES))
        if "backoffLimitPerIndex" not in shape:
            shape["backoffLimit"] = self.chance.randrange(5)
        if rules:
            shape["podFailurePolicy"] = {"rules": rules}
        found = job(self.name, **shape)
        if not self.chance.randrange(4):
            found["metadata"]["annotations"] = {names.MAX_DISRUPTIONS: str(self.chance.randrange(2))}
        return found

    def suffer(self) -> int:
        """Let pods end one after the other; return how many forecasts were compared."""
        self.team.create(self.manifest())
        pods = self.team.running(self.name, self.job()["spec"]["parallelism"])
        for _ in range(MOST_ENDINGS):
            if not pods or not self.ends_as_foretold(self.chance.choice(pods), self.chance.choice(ENDINGS)):
                break
            pods = [pod for pod in self.pods() if is_running(pod)]
        return self.compared

    def job(self) -> Object:
        return self.team.get("job", self.name)

    def pods(self) -> list[Object]:
        return self.team.pods_of(self.name, lambda _: True)

    def ends_as_foretold(self, pod: Object, ending: int) -> bool:
        """End a pod, and compare what was foretold with what becomes of it; return True if the Job goes on."""
        before, pods = self.job(), self.pods()
        known = {one["metadata"]["uid"] for one in pods}
        told = explain(batch.JOB, before, [before], [*pods, *account_in(before)]).forecasts
        name = pod["metadata"]["name"]
        if ending == DISRUPTION:
            self.team.evict(name)
        else:
            self.team.ends(pod, ending)
        forecast = foretold(told, before, pod, ending)
        after = self.team.wait_for("jobs", self.name, lambda found: counted(found, name))
        detail = counted(after, name)
        where = f"{self.team.name}/{self.name}: {name} ended by {ending or 'a disruption'}, foretold {forecast}"
        if forecast.settled_within is None:
            assert detail["cost"] == forecast.cost, (where, detail)
        assert (detail.get("rule"), detail.get("action", "")) == (forecast.rule, forecast.action), (where, detail)
        assert detail["left"] == {"retries": forecast.left.retries, "disruptions": forecast.left.disruptions}, where
        self.compared += 1
        pending = any(
            one.pod == name for one in explain(batch.JOB, after, [after], [*self.pods(), *account_in(after)]).verdicts
        )
        return self.goes_on(forecast, pod, known, where, pending=pending)

    def goes_on(self, forecast: Forecast, pod: Object, known: set[str], where: str, *, pending: bool) -> bool:
        """Compare what becomes of the Job, and where the next pod runs; return True if the Job goes on."""
        if forecast.ends == "Job" or pending:
            found = self.team.wait_for("jobs", self.name, lambda found: condition(found, "Failed"))
            reason = condition(found, "Failed")["reason"]
            assert not forecast.reason or reason == forecast.reason, (where, reason)
            assert not pending or reason == "PodFailurePolicy", (where, reason)
            return False
        if forecast.suspends:
            self.team.wait_for("jobs", self.name, lambda found: found["spec"]["suspend"])
            return False
        if forecast.ends == "index":
            self.team.wait_for("jobs", self.name, lambda found: lost(found, index_of(pod)))
            return True

        def new(found: list[Object]) -> list[Object]:
            of_index = [one for one in found if is_running(one) and index_of(one) == index_of(pod)]
            return [one for one in of_index if one["metadata"]["uid"] not in known]

        (next_pod,) = new(self.team.pods_of(self.name, lambda found: bool(new(found))))
        assert noted(next_pod)["placement"] == ("OnDemand" if forecast.off_spot else "Spot"), (where, noted(next_pod))
        assert not condition(self.job(), "FailureTarget"), where
        return True


def counted(found: Object, pod: str) -> Any:
    """Return what the account of a Job has of a pod, an empty one where it has nothing."""
    return next((one for one in account(found).get("last", ()) if one["pod"] == pod), {})


def lost(found: Object, index: str) -> bool:
    """Return True if an index of a Job has failed for good, or with it the Job."""
    failed = (found.get("status", {}).get("failedIndexes") or "").split(",")
    runs = [part.split("-") for part in failed if part]
    return bool(condition(found, "Failed")) or any(int(run[0]) <= int(index) <= int(run[-1]) for run in runs)


@pytest.mark.first
def test_each_failure_has_the_effect_that_explain_foretold(namespace: NewNamespace) -> None:
    first = 0 if EXAMPLES == DEFAULT else secrets.randbelow(2**32)
    teams = {profile: opted_in(namespace, f"foretold-{profile}") for profile in PROFILES}

    def suffer(number: int) -> int | str:
        chance = random.Random(first + number)  # noqa: S311 - no secret
        history = History(teams[chance.choice(PROFILES)], f"train-{number}", chance)
        try:
            return history.suffer()
        except AssertionError as error:
            return f"history {first + number}: {error}"

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(suffer, range(HISTORIES)))
    wrong = [one for one in found if isinstance(one, str)]
    right = sum(one for one in found if isinstance(one, int))
    logging.getLogger(__name__).info("%d histories, %d forecasts, %d wrong", len(found), right, len(wrong))
    assert not wrong, "\n\n".join(wrong)
