"""A counting pass, and its results."""

from typing import Any, Literal

import msgspec
import pytest

from tests.objects import DISRUPTION, exit_codes
from tests.unit.accounts.pods import RULES, disrupted, failed, job, job_set, running_pod
from tests.unit.controller.alone import Alone
from webhook.accounts import words
from webhook.accounts.account import Account, Left
from webhook.accounts.cached import JOB_SET_READ, CachedJob, trimmed_job_set
from webhook.accounts.counting import CountingPass, LimitEnd
from webhook.accounts.stored import decode, encode
from webhook.accounts.tracker import Key
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.objects.shape import type_of
from webhook.objects.times import seconds
from webhook.pods.pods import Exit, Pod
from webhook.policy.model import (
    Diagnostics,
    Disruptions,
    Duration,
    FailurePolicy,
    FailureRule,
    Match,
    Next,
    Profile,
    Retries,
)
from webhook.policy.settings import resolve
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET

NOW = "2026-01-01T01:00:00Z"
ALONE = Key("ml", batch.JOB, "train")
INDEXED = {"completionMode": "Indexed", "completions": 8, "parallelism": 8}


def counting(
    *pods: Pod,
    root: CachedJob | None = None,
    account: Account | None = None,
    limit: int = 1,
    free_limit: int = 1,
    last_words: bool = False,
    rules: tuple[FailureRule, ...] = (),
    many_pods: Literal["Job", "Auto"] = "Job",
    said: Json | None = None,
    **disruptions: Any,
) -> CountingPass:
    root = root or job()
    tracker = Alone()
    tracker.see_job(root, steady=True, alone=True)
    for pod in pods:
        tracker.see(pod, 0.0)
    profile = Profile(
        retries=Retries(limit=free_limit),
        disruptions=Disruptions(limit=limit, **disruptions),
        diagnostics=Diagnostics(last_words=last_words),
        on_failure=rules,
        failure_policy=FailurePolicy(many_pods=many_pods),
    )
    settings = resolve("default", profile, said or {})
    found = CountingPass(ALONE, root, None, tracker, account or Account(), lambda _root: settings)
    found.count(tracker.uncounted(found.account))
    return found


def exceeded(found: CountingPass) -> list[str]:
    return [detail.pod for detail, _, _ in found.exceeded(found.details)]


def test_pods_are_counted_in_the_order_in_which_they_ended() -> None:
    found = counting(failed(3), disrupted(1), failed(2))
    assert [detail.pod for detail in found.details] == ["train-1", "train-2", "train-3"]
    assert found.changed
    assert found.sentence() == (
        "pod train-3, attempt 1 (max-retries 3), ended: container main exit code 143; cost 1 retry; "
        "left: 1 retry, 0 disruptions; 2 more pods counted with it"
    )


def test_each_attempt_beyond_the_limit_has_its_own_sentence() -> None:
    found = counting(*(disrupted(number) for number in range(4)))
    sentences = [words.sentence(detail, 3) for detail in found.details]
    assert len(set(sentences)) == 4
    assert [detail.left for detail in found.details] == [Left(retries=3, disruptions=0)] * 4


def test_a_pod_that_succeeded_although_it_was_disrupted_costs_nothing_and_no_rule_decides() -> None:
    anything = FailureRule(match=Match(), next=Next(cost="Free"))
    succeeded = msgspec.structs.replace(disrupted(1), phase="Succeeded", exits=())
    found = counting(succeeded, disrupted(2), rules=(anything,), limit=3)
    first, second = found.details
    assert (first.cause, first.cost, first.on_failure) == ("Succeeded", "none", None)
    assert words.how(first) == "disruption EvictionByEvictionAPI; it succeeded"
    assert second.left == Left(retries=3, disruptions=2)


def test_a_failure_with_no_retry_left_ends_the_job() -> None:
    found = counting(*(failed(number) for number in range(4)))
    assert found.account.cost == {"retry": 3, "fatal": 1}
    assert found.sentence().startswith(
        "pod train-3, attempt 3 (max-retries 3), ended: container main exit code 143; no retry was left, which "
        "ends the Job; left: 0 retries"
    )
    assert found.saved == 0


def test_without_ended_pods_the_account_does_not_change() -> None:
    assert not counting().changed


def test_one_disruption_more_than_the_limit_exceeds_it() -> None:
    assert exceeded(counting(disrupted(1))) == []
    assert exceeded(counting(disrupted(1), disrupted(2))) == ["train-2", "train-1"]


def late(number: int, **fields: Any) -> Pod:
    return disrupted(number, worked=3600, ended=f"2026-01-01T0{number + 1}:00:00Z", placement="Spot", **fields)


def test_with_a_deadline_the_account_keeps_the_work_that_attempts_have_saved() -> None:
    said = {names.WORK: "3h", names.DEADLINE: "2x", names.CHECKPOINT: "30m"}
    counted = counting(late(1), late(2), said=said)
    assert decode(encode(counted.account)).work.of("") == 3600  # of two half hours


def test_with_a_deadline_disruptions_have_no_limit_unless_the_author_names_one() -> None:
    said = {names.WORK: "3h", names.DEADLINE: "2x"}
    pods = [late(number) for number in range(5)]
    assert exceeded(counting(*pods, said=said)) == []
    assert exceeded(counting(*pods, limit=3, said={**said, names.MAX_DISRUPTIONS: "3"})) != []


def test_the_attempt_after_which_the_deadline_allows_no_more_disruption_is_told() -> None:
    """Six hours and a half less the work, as much again, two starts, and fifty seconds until a pod follows."""
    created = seconds("2026-01-01T00:00:00Z") or 0.0
    root = job(creationTimestamp="2026-01-01T00:00:00Z")
    counted = counting(late(0), root=root, said={names.WORK: "3h", names.DEADLINE: "6h30m"})
    assert [list(counted.turns(created + after)) != [] for after in (550, 551)] == [False, True]


def at_minute(number: int) -> Pod:
    return disrupted(number, ended=f"2026-01-01T00:{number:02}:00Z")


def test_with_a_time_disruptions_count_from_the_first_one_of_it_on() -> None:
    counted = counting(at_minute(0), at_minute(9), per=Duration(600))
    assert (exceeded(counted), counted.account.window_start) == (["train-9", "train-0"], "2026-01-01T00:00:00Z")
    later = counting(at_minute(10), account=decode(encode(counted.account)), per=Duration(600))
    assert (exceeded(later), later.account.window_start) == ([], "2026-01-01T00:10:00Z")
    assert later.account.cost == {"disruption": 3}
    for_life = counting(at_minute(10), account=decode(encode(counted.account)))
    assert exceeded(for_life) == ["train-10"]


def end_of_set(**status: Any) -> LimitEnd | None:
    """Return why one disruption too many ends a JobSet whose Job has failed by it; `status`: that of the JobSet."""
    by = {"type": "FailureTarget", "status": "True", "reason": "PodFailurePolicy"}
    root = job(name="set-a-0", status={"conditions": [by]})
    root["spec"]["podFailurePolicy"] = {"rules": [{**DISRUPTION, "action": "FailJob"}]}
    stored = job_set({"action": "RestartJobSetAndIgnoreMaxRestarts"}, status=status)
    above: Any = trimmed_job_set(
        msgspec.convert({**stored, "metadata": {**stored["metadata"], "resourceVersion": "7"}}, type_of(JOB_SET_READ))
    )
    tracker = Alone()
    tracker.see_job(root, steady=True, alone=False)
    tracker.see(disrupted(1, job="set-a-0", job_set="set", replicated_job="a", restart=0), 0.0)
    settings = resolve("default", Profile(disruptions=Disruptions(limit=0, on_exceed="Fail")), {})
    found = CountingPass(Key("ml", JOB_SET, "set"), above, above, tracker, Account(), lambda _root: settings)
    found.count(tracker.uncounted(found.account))
    return found.end(found.details)


def test_a_disruption_too_many_ends_a_set_whose_job_has_failed_by_it_already() -> None:
    end = end_of_set()
    assert end is not None
    assert end.reason == "DisruptionLimitExceeded"


@pytest.mark.parametrize("state", ["Failed", "Completed"])
def test_a_set_that_has_ended_is_not_ended_again(state: str) -> None:
    assert end_of_set(terminalState=state) is None


def test_each_index_has_its_own_limit_and_pods_without_an_index_share_one() -> None:
    pods = [disrupted(number, index=str(number % 4)) for number in range(4)]
    assert exceeded(counting(*pods, root=job(INDEXED))) == []
    one_twice = counting(*pods, disrupted(9, index="2"), root=job(INDEXED))
    assert exceeded(one_twice)[0] == "train-9"
    many = [disrupted(number) for number in range(8)]
    assert exceeded(counting(*many, root=job({"parallelism": 8}))) == []
    assert exceeded(counting(*many, disrupted(9), root=job({"parallelism": 8})))


def test_with_action_count_disruptions_have_no_limit_of_their_own() -> None:
    assert exceeded(counting(disrupted(1), disrupted(2), action="Count")) == []


def test_unseen_disruptions_do_not_end_a_job() -> None:
    found = counting(disrupted(1, "Unseen"), disrupted(2, "Unseen"), disrupted(3, "Unseen"))
    assert found.account.spent("disruption") == 3
    assert exceeded(found) == []


def suspends(*pods: Pod, **fields: Any) -> bool:
    found = counting(*pods, on_exceed="Suspend", **fields)
    return found.suspends(found.details)


def test_a_job_is_suspended_only_if_no_controller_resumes_it_and_no_pod_runs() -> None:
    two = disrupted(1), disrupted(2)
    assert suspends(*two)
    assert not suspends(disrupted(1))
    assert not suspends(*two, running_pod(3))
    queued = job(labels={"kueue.x-k8s.io/queue-name": "gpu"})
    assert not suspends(*two, root=queued)
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "u", "controller": True}
    assert not suspends(*two, root=job(ownerReferences=[owner]))
    ended = job(status={"conditions": [{"type": "Complete", "status": "True"}]})
    assert not suspends(*two, root=ended)
    stays = counting(*two, on_exceed="OnDemand")
    assert not stays.suspends(stays.details)


def test_after_a_limit_reset_as_many_disruptions_are_allowed_again() -> None:
    account = counting(disrupted(1), disrupted(2)).account
    account.suspended = True
    account.reset_limits()
    account = decode(encode(account))
    assert exceeded(counting(disrupted(3), account=account)) == []
    assert exceeded(counting(disrupted(4), disrupted(5), account=account))


INDEX_BUG = exit_codes("FailIndex", "NotIn", 143, container="main")


def job_wide(failures: int, *others: Pod, many_pods: Literal["Job", "Auto"] = "Auto", **status: Any) -> LimitEnd | None:
    """Return why a Job ends of which so many indexes have failed, the last one after as many minutes."""
    own = {"podFailurePolicy": {"rules": [DISRUPTION, INDEX_BUG]}, "backoffLimitPerIndex": 3}
    root = job({**INDEXED, "completions": 100, **own}, status=status)
    bugs = [failed(number, 1, index=str(number)) for number in range(1, failures + 1)]
    found = counting(*bugs, *others, root=root, many_pods=many_pods)
    return found.end(found.details)


def test_a_job_ends_once_many_indexes_have_failed_and_none_has_finished() -> None:
    assert job_wide(4) is None
    end = job_wide(5)
    assert end is not None
    ran = "none has finished, or run 1.5 times the 300 s that they ran at most"
    assert (end.reason, end.message("ml")) == ("JobWideFailure", f"pod ml/train-5: 5 indexes have failed, and {ran}")


def test_a_job_goes_on_if_one_index_has_finished_or_runs_much_longer_than_those_that_failed() -> None:
    assert job_wide(5, succeeded=1) is None
    assert job_wide(5, running_pod(50, index="50", started="2025-12-31T23:57:00Z")) is None
    assert job_wide(5, running_pod(50, index="50", started="2025-12-31T23:58:00Z")) is not None


def test_an_author_who_gave_each_index_its_own_retries_is_not_second_guessed_without_many_pods() -> None:
    assert job_wide(5, many_pods="Job") is None


def test_failures_of_which_no_pod_was_seen_are_counted_from_the_job_status() -> None:
    found = counting(failed(1), root=job(status={"failed": 2, "uncountedTerminatedPods": {"failed": ["x"]}}))
    assert found.unseen()[0] == 2
    found.count_unseen(2, NOW)
    assert found.account.spent("retry") == 3
    assert found.unseen()[0] == 0


def test_pods_that_vanished_without_success_or_failure_are_counted_as_disrupted() -> None:
    found = counting(running_pod(1), running_pod(2), running_pod(3), root=job({"parallelism": 3}))
    for number in (1, 2):
        found.tracker.see_vanished(running_pod(number), 0.0, 0)
    found.root["status"]["failed"] = 1
    short, vanished = found.unseen()
    assert (short, len(vanished)) == (1, 2)
    found.count_unseen(short, NOW)
    assert found.account.cost == {"retry": 1, "disruption": 1}
    assert found.account.causes["Disruption"] == {"Unseen": 1}


def test_the_retries_left_when_a_bug_ends_the_job_are_saved() -> None:
    assert counting(failed(1, code=1)).saved == 3
    assert counting(failed(1)).saved == 0
    settled = counting(failed(1))
    settled.settle("train-1")
    assert settled.saved == 3


FREE_75 = job({"podFailurePolicy": {"rules": [exit_codes("Ignore", "In", 75), *RULES]}})


def free_too_often(found: CountingPass) -> list[str]:
    return [detail.pod for detail, _, _ in found.free_too_often(found.details)]


def test_a_free_restart_is_counted_separately_from_the_disruptions() -> None:
    found = counting(failed(1, 75), disrupted(2), root=FREE_75)
    assert found.account.cost == {"free": 1, "disruption": 1}
    assert (free_too_often(found), exceeded(found)) == ([], [])
    assert counting(failed(1, 75), root=FREE_75).sentence() == (
        "pod train-1, attempt 0 (max-retries 3), ended: container main exit code 75; cost 1 free restart; "
        "left: 3 retries, 1 disruption"
    )


def test_one_free_restart_more_than_the_limit_is_too_many() -> None:
    assert free_too_often(counting(failed(1, 75), failed(2, 75), root=FREE_75)) == ["train-2", "train-1"]
    assert free_too_often(counting(failed(1, 75), failed(2, 75), root=FREE_75, free_limit=2)) == []


def test_the_limit_of_free_restarts_holds_whatever_disruptions_cost() -> None:
    two = failed(1, 75), failed(2, 75)
    assert free_too_often(counting(*two, root=FREE_75, action="Count"))
    assert free_too_often(counting(*two, root=FREE_75, on_exceed="Suspend"))


def test_each_index_has_its_own_limit_of_free_restarts() -> None:
    root = job({**INDEXED, **FREE_75["spec"], "completionMode": "Indexed"})
    assert free_too_often(counting(failed(1, 75, index="1"), failed(2, 75, index="2"), root=root)) == []
    assert free_too_often(counting(failed(1, 75, index="1"), failed(2, 75, index="1"), root=root))


def test_the_number_of_free_restarts_is_stored_and_begins_again_with_a_requested_retry() -> None:
    account = decode(encode(counting(failed(1, 75), root=FREE_75).account))
    assert free_too_often(counting(failed(2, 75), root=FREE_75, account=account))
    account.begin_anew("2026-01-01T00:00:00Z")
    assert free_too_often(counting(failed(3, 75), root=FREE_75, account=decode(encode(account)))) == []


FREE = FailureRule(match=Match(exit_codes=(75,)), next=Next(cost="Free"))
AVOID = FailureRule(match=Match(exit_codes=(143,)), next=Next(avoid="Node"))


def by_rules(*pods: Pod, limit: int) -> CountingPass:
    """Count pods of a Job that ignores exit code 75, in a profile with rules of onFailure."""
    tracker = Alone()
    tracker.see_job(FREE_75, steady=True, alone=True)
    for pod in pods:
        tracker.see(pod, 0.0)
    profile = Profile(retries=Retries(limit=limit), on_failure=(AVOID, FREE))
    settings = resolve("default", profile, {})
    found = CountingPass(ALONE, FREE_75, None, tracker, Account(), lambda _root: settings)
    found.count(tracker.uncounted(found.account))
    return found


def test_the_account_says_which_rule_of_the_profile_decided() -> None:
    found = by_rules(failed(1, 75), failed(2, 143), failed(3, 1), limit=5)
    assert [detail.on_failure for detail in found.details] == [1, 0, None]
    assert [detail.on_failure for detail in decode(encode(found.account)).last] == [1, 0, None]


def test_restarts_that_a_rule_of_the_profile_makes_free_are_bounded_by_the_limit_of_retries() -> None:
    assert free_too_often(by_rules(failed(1, 75), failed(2, 75), limit=2)) == []
    over = by_rules(failed(1, 75), failed(2, 75), limit=1)
    end = over.end(over.details)
    assert end is not None
    assert (end.reason, end.pod, end.limit) == ("FreeRestartLimitExceeded", "train-2", 1)


def test_the_end_of_a_pod_that_its_suspended_job_deleted_is_decided_by_no_rule() -> None:
    stopped = failed(1, 143, deleting=True, deleted="2026-01-01T00:02:00Z", tracked=False)
    assert by_rules(stopped, limit=1).details[0].on_failure is None


def saying(number: int, message: str) -> Pod:
    return failed(number, exits=(Exit("main", 143, "Error", f"2026-01-01T00:{number:02}:00Z", message),))


def messages(found: CountingPass) -> list[str]:
    return [detail.message for detail in found.account.last]


def test_last_words_are_kept_if_the_profile_says_so_and_forgotten_once_it_no_longer_does() -> None:
    kept = counting(*(saying(number, f"step {number}") for number in range(4)), last_words=True)
    assert messages(kept) == ["", "step 1", "step 2", "step 3"]
    assert messages(counting(saying(1, "step 1"))) == [""]
    assert messages(counting(saying(5, "step 5"), account=kept.account)) == [""] * 5


def test_last_words_are_in_no_event() -> None:
    """An Event may be read by others than may read the Job."""
    assert "secret" not in counting(saying(1, "secret"), last_words=True).sentence()


AVOIDING = (
    FailureRule(match=Match(exit_codes=(75,)), next=Next(avoid="Node")),
    FailureRule(match=Match(cause="ExitCode"), next=Next(avoid="Zone")),
)


def test_the_account_and_the_event_say_which_rule_of_on_failure_decided() -> None:
    found = counting(failed(1), rules=AVOIDING)
    assert [detail.on_failure for detail in decode(encode(found.account)).last] == [1]
    assert found.sentence().endswith("; rule 1 of onFailure decided: the next pod gets another zone if there is one")


def test_the_event_about_the_last_attempt_promises_nothing_for_a_next_one() -> None:
    found = counting(*(failed(number) for number in range(4)), rules=AVOIDING)
    assert "no retry was left, which ends the Job" in found.sentence()
    assert "the next pod gets" not in found.sentence()


def test_the_first_rule_that_matches_decides() -> None:
    assert counting(failed(1, 75), rules=AVOIDING).details[0].on_failure == 0


def test_if_no_rule_matches_neither_the_account_nor_the_event_names_one() -> None:
    found = counting(disrupted(1), rules=AVOIDING)
    assert "onFailure" not in encode(found.account) + found.sentence()
