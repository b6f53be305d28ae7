"""A container that was killed for its memory gets more in the next pod of its scope, and its pod says how much."""

from typing import Any, Final

import pytest
from msgspec.structs import replace

from tests.admission import Answer, mutate, policy, review_of
from tests.metrics import counted
from tests.objects import pod, stored_job
from tests.unit.accounts.pods import disrupted, failed
from webhook.admission import engine
from webhook.admission.subject import read, subject_of
from webhook.capacity import Pool
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.pods import on_failure
from webhook.pods.on_failure import State
from webhook.pods.pods import Pod
from webhook.policy.model import FailureRule, Match, MemoryGrowth, Next, Profile
from webhook.rules.facts import Facts
from webhook.rules.pods import memory
from webhook.rules.pods.memory_bounds import Restrictions
from webhook.serving.endpoints import count
from webhook.systems import kueue

GI: Final = 1024**3


def rule(*containers: str, factor: float = 2.0, limit: str = "64Gi") -> FailureRule:
    growth = MemoryGrowth(factor=factor, limit=limit)
    return FailureRule(match=Match(cause="OOMKilled", containers=containers), next=Next(memory=growth))


def killed(container: str = "main", *, kills: int = 1) -> Pod:
    """Return a pod of which a container was killed, the last of so many times."""
    before = State(kills={container: kills - 1}) if kills > 1 else on_failure.NONE
    after = on_failure.written(before) if kills > 1 else ""
    return failed(1, 137, container=container, exit_reason="OOMKilled", after=after)


def container(name: str = "main", **resources: str | None) -> Json:
    """Return a container with a memory limit and request, `limits` and `requests`."""
    amounts = {field: {"memory": size, "cpu": "1"} for field, size in resources.items() if size}
    return {"name": name, "image": "x", **({"resources": amounts} if amounts else {})}


def grown(
    *containers: Json,
    ended: Pod | None = None,
    rules: tuple[FailureRule, ...] = (rule(),),
    owner: Json | None = None,
    metadata: Json | None = None,
    spec: Json | None = None,
    **facts: Any,
) -> Answer:
    """Admit a pod after another one has ended; check that a second round of the admission changes nothing."""
    root = pod({"containers": list(containers), **(spec or {})}, **(metadata or {}))
    found = Facts(profile_name="default", owner=owner or stored_job(), ended=(ended or killed(),), ledger=True, **facts)
    under = policy(default=Profile(on_failure=rules))
    answer = mutate(root, found, under)
    assert mutate(answer.object, found, under).object == answer.object
    return answer


def sizes(answer: Answer, field: str = "containers") -> list[tuple[str | None, str | None]]:
    """Return limit and request of each container."""
    found = [one.get("resources") or {} for one in answer.object["spec"][field]]
    return [((one.get("limits") or {}).get("memory"), (one.get("requests") or {}).get("memory")) for one in found]


def note(answer: Answer) -> str | None:
    found: str | None = answer.object["metadata"]["annotations"].get(names.MEMORY)
    return found


@pytest.mark.parametrize(("kills", "limit"), [(1, "2Gi"), (2, "4Gi"), (3, "8Gi")])
def test_a_container_gets_the_factor_once_for_each_kill(kills: int, limit: str) -> None:
    answer = grown(container(limits="1Gi", requests="512Mi"), ended=killed(kills=kills))
    assert sizes(answer)[0][0] == limit


def test_the_request_grows_in_proportion_to_the_limit() -> None:
    assert sizes(grown(container(limits="4Gi", requests="1Gi"))) == [("8Gi", "2Gi")]


def test_nothing_else_of_the_container_changes() -> None:
    answer = grown(container(limits="1Gi", requests="1Gi"))
    assert answer.object["spec"]["containers"] == [container(limits="2Gi", requests="2Gi")]


def test_a_container_with_a_request_alone_gets_no_limit() -> None:
    assert sizes(grown(container(requests="1Gi"))) == [(None, "2Gi")]


def test_a_container_without_memory_in_its_template_stays_as_it_is() -> None:
    answer = grown(container())
    assert answer.object["spec"]["containers"] == [container()]
    assert note(answer) is None


def test_only_the_container_that_was_killed_gets_more() -> None:
    answer = grown(container(limits="1Gi"), container("side", limits="1Gi"), ended=killed("side"))
    assert sizes(answer) == [("1Gi", None), ("2Gi", None)]


def test_an_init_container_gets_more_too() -> None:
    init = {"initContainers": [container("load", limits="1Gi")]}
    answer = grown(container(limits="1Gi"), spec=init, ended=killed("load"))
    assert (sizes(answer), sizes(answer, "initContainers")) == ([("1Gi", None)], [("2Gi", None)])


def test_after_a_disruption_a_container_keeps_what_it_got() -> None:
    ended = replace(disrupted(2), after=on_failure.written(State(kills={"main": 2})))
    assert sizes(grown(container(limits="1Gi"), ended=ended)) == [("4Gi", None)]


def test_a_factor_may_have_a_fraction_and_memory_is_rounded_down_to_whole_mebibytes() -> None:
    assert sizes(grown(container(limits="1001Mi"), rules=(rule(factor=1.5),))) == [("1501Mi", None)]


def test_the_first_rule_that_names_a_container_says_how_its_memory_grows() -> None:
    rules = (rule("side", factor=10), rule("main", factor=3), rule(factor=5))
    assert sizes(grown(container(limits="1Gi"), rules=rules)) == [("3Gi", None)]


def test_the_pod_says_how_its_memory_has_grown() -> None:
    answer = grown(container(limits="1Gi"), ended=killed(kills=2))
    assert note(answer) == "main: 4Gi instead of 1Gi (killed 2 times)"


@pytest.mark.parametrize(
    ("limit", "annotations", "size", "held"),
    [
        ("3Gi", {}, "3Gi", ", held by the limit 3Gi of the policy"),
        ("512Mi", {}, "1Gi", ", held by the limit 512Mi of the policy"),
        ("3Gi", {names.MEMORY_LIMIT: "2Gi"}, "2Gi", ", held by its author's limit 2Gi"),
        ("3Gi", {names.MEMORY_LIMIT: "8Gi"}, "3Gi", ", held by the limit 3Gi of the policy"),
        ("4Gi", {}, "4Gi", ""),
    ],
)
def test_memory_grows_up_to_the_limit_of_the_policy_and_that_of_the_author(
    limit: str, annotations: Json, size: str, held: str
) -> None:
    owner = stored_job(annotations=annotations)
    answer = grown(container(limits="1Gi"), rules=(rule(limit=limit),), ended=killed(kills=2), owner=owner)
    assert sizes(answer) == [(size, None)]
    assert (note(answer) or "").endswith(f"(killed 2 times{held})")


def test_an_author_who_has_turned_the_rules_off_gets_no_more() -> None:
    answer = grown(container(limits="1Gi"), owner=stored_job(annotations={names.ON_FAILURE: "Off"}))
    assert sizes(answer) == [("1Gi", None)]


def test_memory_grows_up_to_what_the_largest_node_has_left_by_daemons() -> None:
    pools = (Pool({"size": {"small"}}, 8 * GI), Pool({"size": {"large"}}, 100 * GI))
    answer = grown(container(limits="10Gi"), pools=pools, ended=killed(kills=4))
    assert sizes(answer) == [("64Gi", None)]
    chosen = grown(container(limits="4Gi"), spec={"nodeSelector": {"size": "small"}}, pools=pools)
    assert sizes(chosen) == [("7372Mi", None)]
    assert (note(chosen) or "").endswith("held by the largest node)")


QUEUED: Final = {kueue.QUEUE_NAME: "team"}


@pytest.mark.parametrize(
    ("owner", "metadata"),
    [
        (stored_job(labels=QUEUED), {}),
        (stored_job(annotations=QUEUED), {}),
        (stored_job(), {"labels": {"kueue.x-k8s.io/podset": "main"}}),
        (stored_job(), {"annotations": {"kueue.x-k8s.io/workload": "train"}}),
    ],
)
def test_a_pod_in_a_queue_of_kueue_stays_within_what_was_admitted(owner: Json, metadata: Json) -> None:
    answer = grown(container(limits="1Gi"), owner=owner, metadata=metadata)
    assert sizes(answer) == [("1Gi", None)]
    assert note(answer) == "main: stays at 1Gi (killed 1 time, held by the quota of its Kueue queue)"


def test_a_pod_of_a_queued_job_set_stays_within_what_was_admitted() -> None:
    above = {"kind": "JobSet", "metadata": {"labels": QUEUED}, "spec": {}}
    assert sizes(grown(container(limits="1Gi"), above=above)) == [("1Gi", None)]


def test_a_pod_with_resources_of_its_own_stays_as_it_is() -> None:
    answer = grown(container(limits="1Gi"), spec={"resources": {"limits": {"memory": "1Gi"}}})
    assert sizes(answer) == [("1Gi", None)]
    assert (note(answer) or "").endswith("held by the resources of the whole pod)")


def test_if_the_quotas_are_unknown_memory_stays_as_it_is() -> None:
    answer = grown(container(limits="1Gi"), restrictions=Restrictions(are_known=False))
    assert sizes(answer) == [("1Gi", None)]


def test_a_pod_of_very_many_containers_stays_as_it_is() -> None:
    others = [container(f"side-{number}") for number in range(memory.MOST_CONTAINERS)]
    assert sizes(grown(container(limits="1Gi"), *others))[0] == ("1Gi", None)


def test_a_template_with_the_annotations_of_another_pod_grows_all_the_same() -> None:
    copied = {names.MEMORY: "main: 4Gi instead of 1Gi (killed 2 times)", names.AFTER_FAILURE: '{"kills":{"main":2}}'}
    answer = grown(container(limits="1Gi"), metadata={"annotations": copied})
    assert sizes(answer) == [("2Gi", None)]
    assert note(answer) == "main: 2Gi instead of 1Gi (killed 1 time)"


def test_a_note_in_a_template_is_removed_from_a_pod_whose_memory_does_not_grow() -> None:
    answer = grown(container(limits="1Gi"), rules=(), metadata={"annotations": {names.MEMORY: "main: 4Gi"}})
    assert note(answer) is None


@pytest.mark.parametrize(
    ("rules", "ended", "may"),
    [
        ((rule(),), (killed(),), True),
        ((rule(),), (disrupted(after='{"kills":{"main":1}}'),), True),
        ((rule(),), (disrupted(),), False),
        ((rule(),), (), False),
        ((FailureRule(match=Match(cause="OOMKilled"), next=Next(avoid="Node")),), (killed(),), False),
    ],
)
def test_bounds_are_looked_up_only_after_a_kill_with_a_rule_about_memory(
    rules: tuple[FailureRule, ...],
    ended: tuple[Pod, ...],
    may: bool,  # noqa: FBT001
) -> None:
    assert memory.may_grow(rules, ended) is may


def test_a_metric_counts_what_has_held_memory_back() -> None:
    def total(result: str) -> float:
        return counted("retry_policy_memory_growths_total", result=result)

    before = total("Grown"), total("Limit")
    for limit in ("64Gi", "1Gi"):
        count_of(container(limits="1Gi"), rule(limit=limit))
    assert (total("Grown"), total("Limit")) == (before[0] + 1, before[1] + 1)


def count_of(one: Json, growth: FailureRule) -> None:
    """Admit a pod, and count the response as the server does."""
    body = review_of(pod({"containers": [one]}))
    subject = subject_of(read(body), body=body)
    assert subject is not None
    facts = Facts(profile_name="default", owner=stored_job(), ended=(killed(),))
    count(engine.mutate(subject, policy(default=Profile(on_failure=(growth,))), facts), "Enforce")
