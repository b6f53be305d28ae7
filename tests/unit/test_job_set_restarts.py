"""Apart from disruptions, no rendered JobSet restarts more often than its original, in a model of the controllers."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.admission import mutate, policy, validate
from tests.job_sets import EVICTED, Course, Failure, failed_pod, failures, job_sets, spec_of, unlimited_to
from tests.strategies import examples
from webhook.objects.problem import Json
from webhook.pods.outcomes import outcome_of
from webhook.policy.model import Disruptions, FailurePolicy, JobSet, Profile, Retries

PROFILES = {
    "default": Profile(),
    "FailJob": Profile(failure_policy=FailurePolicy(coupled="FailJob")),
    "OnFailure becomes Never": Profile(
        failure_policy=FailurePolicy(coupled="FailJob", on_failure_restart_policy="Never")
    ),
    "IfAbsent": Profile(failure_policy=FailurePolicy(coupled="FailJob", inject="IfAbsent")),
    "RestartJob": Profile(failure_policy=FailurePolicy(coupled="FailJob"), job_set=JobSet(on_disruption="RestartJob")),
    "RestartPod": Profile(failure_policy=FailurePolicy(coupled="FailJob"), job_set=JobSet(on_disruption="RestartPod")),
    "Count": Profile(failure_policy=FailurePolicy(coupled="FailJob"), disruptions=Disruptions(action="Count")),
    "Clamp": Profile(failure_policy=FailurePolicy(coupled="FailJob"), retries=Retries(on_exceed="Clamp")),
}
JOB_SETS = job_sets((None, 0, 1, 2), ("Never", "Never", "Never", "OnFailure", None))


@pytest.mark.parametrize("name", PROFILES)
@given(data=st.data())
@examples(300)
def test_no_failure_restarts_a_rendered_set_more_often_than_its_original(name: str, data: st.DataObject) -> None:
    original = data.draw(JOB_SETS)
    under = policy(default=PROFILES[name])
    rendered = mutate(original, under=under).object
    assume(validate(rendered, under=under).allowed)
    original = unlimited_to(rendered, original)
    course = Course(rendered)
    for failure in data.draw(failures(original, most=12)):
        before = course.under(original)
        restarted, started = restarts(course), course.started
        before.fail(*failure)
        course.fail(*failure)
        if failure[1] != EVICTED:
            assert course.ended or restarts(course) <= restarts(before)
            assert course.ended or course.started <= before.started
            assert not before.ended or course.ended
        elif restarts(course) > restarted and not course.ended:
            assert cost_of(failure, rendered) in {"disruption", "retry"}
        assert course.started - started <= before.started - started or failure[1] == EVICTED or course.ended


def restarts(course: Course) -> int:
    """Return the restarts of a set and of its Jobs."""
    return course.restarts + course.alone.total()


def cost_of(failure: Failure, root: Json) -> str:
    """Return the budget that a failure uses, as the ledger counts it."""
    job, code = failure
    child = {"metadata": {"name": f"set-{job}"}, "spec": spec_of(root, job)}
    return outcome_of(failed_pod(job, code), child, root).cost
