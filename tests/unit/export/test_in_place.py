"""The CEL about containers that restart in place; tests/cluster/test_export.py compares what it finds with the rule."""

from tests.admission import policy
from webhook.export import in_place, limits
from webhook.export.cel import Variables
from webhook.policy.model import FailurePolicy, Profile
from webhook.rules.in_place import AFTER, UNBOUNDED
from webhook.systems import core
from webhook.systems.job import spec as batch
from webhook.systems.kinds import KINDS

VOLCANO_JOB = KINDS["batch.volcano.sh", "Job"]


def test_jobs_are_judged_by_the_codes_of_their_rules_and_other_kinds_by_having_any() -> None:
    of_jobs = in_place.problems(Variables(batch.JOB.shape, "{}"), batch.JOB)
    assert [UNBOUNDED in one for one in of_jobs] == [True, False]
    assert [AFTER in one for one in of_jobs] == [False, True]
    (of_others,) = in_place.problems(Variables(VOLCANO_JOB.shape, "{}"), VOLCANO_JOB)
    assert UNBOUNDED in of_others
    assert in_place.problems(Variables(core.POD.shape, "{}"), core.POD) == []


def test_each_profile_has_its_own_exit_codes() -> None:
    other = policy(other=Profile(failure_policy=FailurePolicy(retriable_exit_codes=(75, 42))))
    variables = {one["name"]: one["expression"] for one in limits.spec(batch.JOB, other)["variables"]}
    assert variables["retriable"] == "{'default': [143], 'other': [42, 75]}[variables.profile]"
