"""What single stories say about programs and their authors."""

from msgspec.structs import replace

from tests.unit.insight.simulate.stories import attempt, crashed, disrupted, ended, killed, policy
from webhook.history.record import Record
from webhook.insight.simulate import learning, past
from webhook.insight.simulate.learning import Learnt, LearntWorkload
from webhook.policy.model import Disruptions, Duration, Policy


def learnt(*records: Record, under: Policy | None = None) -> Learnt:
    return learning.learn(past.read(records), under or policy())


def workload(*records: Record, under: Policy | None = None) -> LearntWorkload:
    (found,) = learnt(*records, under=under).workloads
    return found


def test_the_work_is_that_of_the_attempt_that_succeeded() -> None:
    found = workload(disrupted("a", 1, 10, 70), attempt("a", 2, 100, 60), ended("a", 160))

    (task,) = found.tasks
    assert (task.work, task.floor, task.runs) == (60, 70, [])


def test_an_interrupted_attempt_that_was_longer_hints_at_a_program_that_continues() -> None:
    assert learnt(disrupted("a", 1, 10, 70), attempt("a", 2, 100, 60), ended("a", 160)).continued == 1


def test_as_many_retries_as_the_default_are_taken_for_none() -> None:
    assert workload(attempt("a", 1, 10, 60), ended("a", 70, retries=3)).shape.retries is None
    assert workload(attempt("a", 1, 10, 60), ended("a", 70, retries=5)).shape.retries == 5


def test_a_code_that_cost_a_retry_although_the_policy_says_it_is_a_bug_is_in_the_authors_own_rules() -> None:
    found = workload(crashed("a", 1, 10, 60, 42, "retry"), attempt("a", 2, 100, 60), ended("a", 160))

    assert found.shape.codes == (("Count", 42),)


def test_an_authors_limit_of_disruptions_is_seen_in_what_was_left() -> None:
    found = workload(
        disrupted("a", 1, 10, 60, disruptions_left=1),
        attempt("a", 2, 100, 60),
        ended("a", 160),
        under=policy(disruptions=Disruptions(limit=5)),
    )

    assert found.shape.max_disruptions == 2


def test_memory_that_was_enough_is_known_after_a_kill() -> None:
    found = learnt(
        killed("a", 1, 10, 60, "retry"),
        attempt("a", 2, 100, 60, resources={"memory": 3 * 2.0**30}),
        ended("a", 160),
    )

    assert found.growths == [3.0]


def test_a_deadline_that_is_not_the_policys_is_the_authors() -> None:
    late = attempt("a", 1, 10, 500, "DeadlineExceeded", reason="", cost="retry")
    records = (late, ended("a", 510, "Failed"))

    assert workload(*records).tasks[0].deadline == 500
    assert workload(*records, under=policy(attempt_timeout=Duration(500))).tasks[0].deadline is None


def test_indexes_that_never_ran_are_tasks_too() -> None:
    found = workload(
        crashed("a", 1, 10, 60, 1, "fatal", scope="0"),
        ended("a", 160, "Failed", indexed=True, completions=5, parallelism=1),
    )

    assert [task.scope for task in found.tasks] == ["0", "1", "2", "3", "4"]


def test_pods_of_a_complete_workload_that_did_not_succeed_are_not_waited_for() -> None:
    found = workload(
        attempt("a", 1, 10, 60, scope="0"),
        attempt("a", 1, 10, 60, "Other", reason="Stopped", cost="none", scope="1"),
        ended("a", 160, indexed=True, completions=2, parallelism=2),
    )

    assert [task.needed for task in found.tasks] == [True, False]


def test_a_huge_job_is_bounded() -> None:
    found = learnt(attempt("a", 1, 10, 60, scope="0"), ended("a", 160, indexed=True, completions=2**31 - 1))

    assert len(found.workloads[0].tasks) <= learning.MOST_TASKS


def test_a_pod_that_only_something_else_placed_stays_where_it_was() -> None:
    assert workload(attempt("a", 1, 10, 60, placement="None"), ended("a", 160)).tasks[0].fixed == "Spot"
    assert workload(attempt("a", 1, 10, 60), ended("a", 160)).tasks[0].fixed == ""


def test_a_first_attempt_that_the_policy_would_not_send_on_demand_was_sent_there_by_its_author() -> None:
    sent = attempt("a", 1, 10, 60, placement="OnDemand", capacity="OnDemand")

    assert workload(sent, ended("a", 160)).tasks[0].fixed == "OnDemand"


def test_a_workload_of_a_profile_that_the_policy_lacks_is_left_out() -> None:
    found = learnt(attempt("a", 1, 10, 60), replace(ended("a", 160), profile="gone"))

    assert (found.workloads, found.unknown_profile) == ([], 1)
