"""With the real controllers no rendered JobSet restarts more often than its original, except for disruptions.

RETRY_POLICY_EXAMPLES: beyond the default of 1,000, 200 sets are generated, else 20.
"""

from __future__ import annotations

import random
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.admission import mutate, policy, validate
from tests.cluster.conftest import opted_in, with_operators
from tests.cluster.failing_sets import FailingSet, failing_set, let_fail, restarts_alone
from tests.cluster.manifests import pod_template
from tests.cluster.objects import restarts
from tests.cluster.test_agreement import DEFAULT, EXAMPLES
from tests.job_sets import EVICTED, Course, Failure, course_of, failures, job_sets
from webhook.policy.model import FailurePolicy, Placement, Profile

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object

pytestmark = [with_operators, pytest.mark.generated, pytest.mark.first]
SETS = 200 if EXAMPLES > DEFAULT else 20
MOST_FAILURES = 4
MOST_FREE = 3  # failures without a cost: after more of them the ledger may end the set
PROFILE = Profile(failure_policy=FailurePolicy(coupled="FailJob"), placement=Placement(provider="gke"))


def generated(number: int) -> list[tuple[Object, list[Failure]]]:
    """Return JobSets that are admitted, each with the failures of its pods."""
    found: list[tuple[Object, list[Failure]]] = []

    @settings(
        max_examples=number * 5,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def draw(data: st.DataObject) -> None:
        root = data.draw(job_sets((0, 0, 1), ("Never",)))
        rendered = mutate(deepcopy(root), under=policy(default=PROFILE)).object
        sequence = data.draw(failures(root, MOST_FAILURES))
        free = [code for _, code in sequence if code in {EVICTED, 75}]
        if len(free) <= MOST_FREE and validate(rendered, under=policy(default=PROFILE)).allowed:
            found.append((root, sequence))

    draw()
    random.Random(0).shuffle(found)  # noqa: S311 - hypothesis begins with small ones
    restarting = [one for one in found if has_restarted(course_of(*one))][: number * 2 // 3]
    return [*restarting, *(one for one in found if not has_restarted(course_of(*one)))][:number]


def has_restarted(course: Course) -> bool:
    return bool(course.restarts or course.alone)


def runnable(root: Object, name: str) -> Object:
    """Return a copy of a JobSet with a new name, whose pods run on KWOK nodes."""
    made: Any = deepcopy(root)
    made["metadata"] = {"name": name}
    for one in made["spec"]["replicatedJobs"]:
        one["template"]["spec"]["template"] = pod_template()
    return dict(made)


def counts(one: FailingSet) -> tuple[int, int, dict[str, int], bool]:
    """Return the counts of the controllers, in the form of `Course.counts`."""
    in_all, of_set = restarts(one.found)
    status = one.found.get("status", {}).get("replicatedJobsStatus", [])
    alone = sum(sum(job.get("jobRestartsCountTowardsMax", [])) for job in status)
    return in_all, of_set + alone, restarts_alone(one.found), one.has_failed


@pytest.mark.first
def test_the_controllers_restart_original_and_rendered_job_sets_like_the_model(
    namespace: NewNamespace,
) -> None:
    plain, team = namespace(), opted_in(namespace, "fail-job")
    sets: list[tuple[FailingSet, Course]] = []
    for number, (root, sequence) in enumerate(generated(SETS)):
        for where in (plain, team):
            one = failing_set(where, runnable(root, f"s{number}"), sequence)
            sets.append((one, course_of(deepcopy(one.found), sequence)))
    let_fail([one for one, _ in sets])
    wrong = [
        (one.team.name, one.name, counts(one), course.counts, len(one.seen), course.started)
        for one, course in sets
        if (counts(one), len(one.seen)) != (course.counts, course.started)
    ]
    assert not wrong
    assert sum(has_restarted(course) for _, course in sets) > SETS // 2
