"""Which ends of pods the ledger decides about by the rules of onFailure, and which of them fail the Job."""

from copy import deepcopy
from typing import Any

import pytest
from msgspec.structs import replace

from tests.objects import DISRUPTION, exit_codes, job, job_spec
from tests.unit.accounts.pods import disrupted, failed, job_set
from webhook.accounts import settling
from webhook.accounts.counted import PodsOfJob
from webhook.objects.patch import Editor
from webhook.objects.problem import Json
from webhook.pods import on_failure, outcomes
from webhook.pods.pods import Exit, Pod
from webhook.policy.model import FailurePolicy, FailureRule, Match, Next, Profile
from webhook.policy.settings import NamedProfile, Settings
from webhook.rules import undo
from webhook.systems.job import spec as batch
from webhook.systems.job.rules import failure_policy

MEMORY = FailureRule(match=Match(cause="OOMKilled"), next=Next(avoid="Node"))
CORRUPT = FailureRule(match=Match(message="*corrupt*"), next=Next(cost="Fatal"))
NCCL = FailureRule(match=Match(message="*NCCL*"), next=Next(avoid="Node"))
FATAL = FailureRule(match=Match(exit_codes=(42,)), next=Next(cost="Fatal"))
EVICTED = FailureRule(match=Match(cause="Disruption", reasons=("EvictionByEvictionAPI",)), next=Next(cost="Fatal"))
COUPLED: dict[str, Any] = {"completionMode": "Indexed", "completions": 4, "parallelism": 4}


def under(*rules: FailureRule, **fields: Any) -> Settings:
    return Settings(profile_name="default", profile=Profile(on_failure=rules, failure_policy=FailurePolicy(**fields)))


def stored(settings: Settings, author: list[Json] | None = None, **spec: Any) -> Json:
    """Return a Job as admission stores it, with its record."""
    root = job(job_spec(rules=deepcopy(author), backoffLimit=6, **spec))
    editor = Editor(root)
    (embedded,) = batch.JOB.jobs(root)
    failure_policy.edit(embedded, settings, editor, failure_policy.Wanted(settings.disruption_action, counted=True))
    undo.write(editor, batch.JOB, NamedProfile("default", settings.profile), list(editor.edits))
    return root


def verdict(settings: Settings, pod: Pod, author: list[Json] | None = None, **spec: Any) -> str | None:
    root = stored(settings, author, **spec)
    counted = PodsOfJob(root, None, settings)
    if not settling.is_suspect(counted, pod):
        return None
    return settling.bug_in(counted, pod, settling.window(root, settings))


def saying(message: str, code: int = 1) -> Pod:
    return replace(failed(), exits=(Exit("main", code, "Error", "2026-01-01T00:01:00Z", message),))


def test_a_kill_for_memory_is_retried_and_another_kill_is_a_bug() -> None:
    assert verdict(under(MEMORY), failed(1, 137, exit_reason="OOMKilled")) is None
    assert verdict(under(MEMORY), failed(1, 137)) == (
        "Container main for pod ml/train-1 failed with exit code 137, and no rule of onFailure retries it"
    )


def test_a_child_that_was_killed_for_memory_is_retried_whatever_the_program_ended_with() -> None:
    assert verdict(under(MEMORY), failed(1, 1, exit_reason="OOMKilled")) is None
    assert (verdict(under(MEMORY), failed(1, 1)) or "").endswith("exit code 1, and no rule of onFailure retries it")


def test_the_message_about_a_pod_that_exceeded_its_deadline_names_the_deadline() -> None:
    assert verdict(under(MEMORY), failed(1, 137, reason="DeadlineExceeded")) == (
        "Container main for pod ml/train-1 failed with exit code 137 as the pod exceeded its deadline, "
        "and no rule of onFailure retries it"
    )


def test_an_exit_code_that_only_an_uncertain_rule_keeps_is_a_bug_if_the_rule_does_not_match() -> None:
    assert verdict(under(NCCL), saying("NCCL WARN")) is None
    assert (verdict(under(NCCL), saying("ValueError")) or "").endswith("and no rule of onFailure retries it")
    assert verdict(under(NCCL), saying("", 143)) is None


def test_a_fatal_rule_about_a_message_fails_the_job_and_names_the_rule() -> None:
    message = verdict(under(NCCL, CORRUPT), saying("checkpoint is corrupt"))
    assert message == "Pod ml/train-1 failed in container main with exit code 1, which rule 1 of onFailure makes fatal"


def test_the_first_rule_that_matches_decides_about_an_end_that_two_match() -> None:
    both = saying("NCCL state is corrupt")
    assert verdict(under(NCCL, CORRUPT), both) is None
    assert "rule 0 of onFailure" in (verdict(under(CORRUPT, NCCL), both) or "")


def test_a_fatal_disruption_fails_the_job_after_the_reason_that_the_rule_names() -> None:
    assert "was disrupted (EvictionByEvictionAPI)" in (verdict(under(EVICTED), disrupted()) or "")
    assert verdict(under(EVICTED), disrupted(reason="PreemptionByScheduler")) is None


def test_the_message_says_how_the_pod_ended() -> None:
    fatal = FailureRule(match=Match(reasons=("DeadlineExceeded", "OutOfcpu", "StartError")), next=Next(cost="Fatal"))
    late = failed(1, 143, reason="DeadlineExceeded")
    refused = failed(1, exits=(), reason="OutOfcpu")
    unstarted = failed(1, 128, exit_reason="StartError")
    assert [(verdict(under(fatal), pod) or "").split(", which")[0] for pod in (late, refused, unstarted)] == [
        "Pod ml/train-1 exceeded its deadline",
        "Pod ml/train-1 failed (OutOfcpu)",
        "Pod ml/train-1 failed in container main with exit code 128 (StartError)",
    ]


def test_an_exit_code_rule_says_nothing_about_a_disrupted_pod() -> None:
    fatal = FailureRule(match=Match(exit_codes=(137,)), next=Next(cost="Fatal"))
    assert verdict(under(fatal), disrupted(code=137)) is None


def test_what_the_job_controller_fails_by_itself_is_left_to_it() -> None:
    assert verdict(under(FATAL), failed(1, 42)) is None


def test_a_rule_of_the_author_decides_before_those_of_the_profile() -> None:
    own = [exit_codes("Count", "In", 1, 137, container="main")]
    assert verdict(under(CORRUPT), saying("corrupt"), own) is None
    assert verdict(under(MEMORY), failed(1, 137), own) is None
    assert verdict(under(MEMORY), failed(1, 137), [exit_codes("FailJob", "NotIn", 137, 143, container="main")]) is None


def test_in_jobs_of_dependent_pods_a_fatal_exit_code_is_settled_like_a_bug() -> None:
    root = stored(under(FATAL, MEMORY), **COUPLED)
    assert settling.window(root, under(FATAL)) == 30
    assert "rule 0 of onFailure" in (verdict(under(FATAL, MEMORY), failed(1, 42, index="0"), **COUPLED) or "")
    assert verdict(under(FATAL, MEMORY), failed(1, 137, exit_reason="OOMKilled", index="0"), **COUPLED) is None


@pytest.mark.parametrize(
    "spec",
    [
        {"completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 1},
        {"successPolicy": {"rules": [{"succeededCount": 1}]}, **COUPLED},
    ],
    ids=["indexes with budgets", "success policy"],
)
def test_the_ledger_does_not_fail_a_job_that_may_go_on_without_the_pod(spec: dict[str, Any]) -> None:
    assert verdict(under(CORRUPT), saying("corrupt"), **spec) is None


@pytest.mark.parametrize("inject", ["Never", "IfAbsent"])
def test_without_failure_policies_the_ledger_decides_nothing(inject: str) -> None:
    own = [exit_codes("Count", "In", 9)]
    assert verdict(under(CORRUPT, inject=inject), saying("corrupt"), own) is None


def test_the_job_of_a_set_has_no_record_and_is_judged_all_the_same() -> None:
    settings = under(MEMORY)
    root = stored(settings)
    root["metadata"]["annotations"] = {}
    root["metadata"]["ownerReferences"] = [
        {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "set", "uid": "u", "controller": True}
    ]
    failing = job_set({"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]})
    pod = failed(1, 1, job_set="set")
    assert settling.bug_in(PodsOfJob(root, failing, settings), replace(pod, exits=(Exit("main", 137, "Error", ""),)))
    assert settling.bug_in(PodsOfJob(root, job_set(), settings), pod) is None


def test_the_rules_that_admission_recorded_are_not_the_authors() -> None:
    own = [exit_codes("FailJob", "NotIn", 137, 143, container="main")]
    for author, expected in ((own, own), (None, [])):
        assert PodsOfJob(stored(under(MEMORY), author), None, under(MEMORY)).author_rules == expected


def test_without_rules_nothing_is_suspect_but_what_was_before() -> None:
    root = job(job_spec(rules=[DISRUPTION]))
    assert not settling.is_suspect(PodsOfJob(root, None, under()), failed(1, 1))
    assert settling.is_suspect(PodsOfJob(job(job_spec(**COUPLED)), None, under()), failed(1, 1))


def following(settings: Settings, before: Pod, pod: Pod) -> Pod:
    """Return a pod that was created after another one had ended."""
    state = on_failure.after(before, outcomes.outcome_of(before, stored(settings)), settings.on_failure)
    return replace(pod, after=on_failure.written(state))


def test_with_confirm_an_exit_code_is_a_bug_once_it_has_followed_another_that_nothing_explains() -> None:
    confirm = under(unknown_exit="Confirm")
    first, second = failed(1, 1, node="a"), failed(2, 3, node="b")
    assert verdict(confirm, first) is None
    assert verdict(confirm, following(confirm, first, second)) == (
        "Pod ml/train-2 failed in container main with exit code 3, the second failure that nothing explains; "
        "the one before it: main 1 on a"
    )


@pytest.mark.parametrize("explained", [failed(1, 143), disrupted(1)])
def test_with_confirm_what_has_a_reason_confirms_nothing(explained: Pod) -> None:
    confirm = under(unknown_exit="Confirm")
    assert verdict(confirm, explained) is None
    assert verdict(confirm, following(confirm, explained, failed(2, 1))) is None


def test_with_confirm_no_injected_rule_fails_a_job_and_a_rule_of_the_policy_still_does() -> None:
    codes = [
        rule.get("onExitCodes") for rule in stored(under(unknown_exit="Confirm"))["spec"]["podFailurePolicy"]["rules"]
    ]
    assert codes == [None]  # the rule for disruptions
    fatal = stored(under(FATAL, unknown_exit="Confirm"))["spec"]["podFailurePolicy"]["rules"]
    assert [rule["action"] for rule in fatal] == ["Ignore", "FailJob"]
