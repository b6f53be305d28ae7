"""One Job of 100,000 indexes: what its account says about each index, and what the next pod and `explain` cost."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.big_job.replay import BigJob
from tests.costs import lines_of
from tests.objects import DISRUPTION
from tests.strategies import examples
from tests.unit.accounts.pods import disrupted, job, running_pod
from tests.unit.controller.leader import see_account
from tests.unit.tracking.test_trackers import counted, trackers
from tests.virtual_time import run
from webhook.accounts import limits
from webhook.accounts.account import Account
from webhook.accounts.counted import PodsOfJob
from webhook.accounts.counting import count
from webhook.accounts.scopes import Scopes, read
from webhook.accounts.stored import LARGEST, decode, encode
from webhook.objects.problem import Json
from webhook.pods.pods import INDEX, Pod
from webhook.policy.model import Disruptions, Profile, Retries
from webhook.policy.settings import resolve
from webhook.systems.job import spec as batch

INDEXES = 100_000
SPEC = {
    "completionMode": "Indexed",
    "completions": INDEXES,
    "parallelism": 5000,
    "backoffLimitPerIndex": 3,
    "backoffLimit": batch.UNLIMITED,
    "podFailurePolicy": {"rules": [DISRUPTION]},
}
SETTINGS = resolve("default", Profile(disruptions=Disruptions(limit=2), retries=Retries(limit=3)), {})
BUDGETS = limits.budgets_of({"spec": SPEC}, None, SETTINGS)


def pod_of(index: int, disruptions: int, number: int = 1) -> Pod:
    """Return a disrupted pod of an index that had so many disruptions before it."""
    said: Json = {"index_failures": 0, "index_ignored": 0 if disruptions else None, "disruptions": disruptions}
    return disrupted(number, index=str(index), **said)


def account_of(disruptions: Counter[int], chance: random.Random) -> Account:
    """Return the account after these disruptions, in a random order, written and read after every few of them."""
    account, root, so_far = Account(), job(SPEC), Counter[int]()
    order = list(disruptions.elements())
    chance.shuffle(order)
    for number, index in enumerate(order):
        count(account, pod_of(index, so_far[index], number), PodsOfJob(root, None, SETTINGS))
        so_far[index] += 1
        if number % 30 == 0:
            account.recent.clear()
            text = encode(account)
            assert len(text.encode()) <= LARGEST
            account = decode(text)
    return decode(encode(account))


@given(st.integers(), st.integers(1, 3000))
@examples(100)
def test_every_number_that_an_account_stores_of_100000_indexes_is_exact(seed: int, number: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    truth = Counter(chance.choices(range(INDEXES // chance.choice([1, 10, 100])), k=number))
    account = account_of(truth, chance)
    assert account.spent("disruption") == number
    root = job(SPEC)
    for index in chance.sample(range(INDEXES), 200) + list(truth)[:500]:
        scope = str(index)
        if not account.scopes.is_dropped(scope):
            assert account.scopes.of(scope) == account.scopes.at_least(scope) == truth[index]
        next_pod = running_pod(index=scope, index_failures=0, index_ignored=0, disruptions=truth[index])
        assert limits.disruptions_at(limits.scope_of(next_pod), account, next_pod, root["spec"], None) == truth[index]


@given(st.integers(), st.integers(1, 3000), st.floats(0, 1))
@examples(100)
def test_without_the_pods_a_number_is_never_too_low_and_its_lower_bound_never_too_high(
    seed: int, number: int, known: float
) -> None:
    chance, truth, scopes = random.Random(seed), Counter[int](), Scopes()  # noqa: S311 - no secret
    for _ in range(number):
        index = chance.randrange(1000)
        scopes.add(str(index), truth[index] if chance.random() < known else None)
        truth[index] += 1
        if chance.random() < 0.05:
            exact = scopes.exact
            scopes = read(scopes.written(), scopes.others)
            scopes.exact = exact
    for index in range(1000):
        assert scopes.at_least(str(index)) <= truth[index] <= scopes.of(str(index))


def test_an_account_that_is_not_exact_counts_every_index_that_it_has_dropped_with_the_highest_number() -> None:
    account = Account(scopes=Scopes({"7": 3}, others=2), cost={"disruption": 500})
    account = decode(encode(account))
    assert (account.scopes.of("7"), account.scopes.at_least("7")) == (3, 1)
    assert (account.scopes.of("57321"), account.scopes.at_least("57321")) == (2, 0)
    assert not account.scopes.exact


def full(**fields: object) -> Account:
    """Return an account that has dropped indexes with up to two disruptions."""
    account = Account(scopes=Scopes({"7": 3}, others=2), cost={"disruption": 500}, **fields)  # type: ignore[arg-type]
    account.scopes.exact = True
    return account


def test_the_limit_holds_for_an_index_that_the_account_has_dropped() -> None:
    account, root = full(), job(SPEC)
    count(account, pod_of(57321, 1), PodsOfJob(root, None, SETTINGS))
    assert not limits.is_exceeded(account, BUDGETS, "57321")
    account = decode(encode(account))
    assert account.scopes.exact
    assert account.last[-1].left is not None
    assert account.last[-1].left.disruptions == 0
    count(account, pod_of(57321, 2, 2), PodsOfJob(root, None, SETTINGS))
    assert limits.is_exceeded(account, BUDGETS, "57321")


@pytest.mark.parametrize(
    ("account", "spec"),
    [
        pytest.param(full(grants=1), SPEC, id="resumed"),
        pytest.param(full(), {**SPEC, "backoffLimitPerIndex": None}, id="pods are not kept"),
        pytest.param(
            full(),
            {**SPEC, "podFailurePolicy": {"rules": [DISRUPTION, {**DISRUPTION, "onPodConditions": [{"type": "x"}]}]}},
            id="others are ignored too",
        ),
    ],
)
def test_where_pods_do_not_know_it_a_dropped_index_had_at_most_the_highest_number(account: Account, spec: Json) -> None:
    next_pod = running_pod(index="57321", index_failures=0, index_ignored=0, disruptions=0)
    assert limits.disruptions_at(limits.scope_of(next_pod), account, next_pod, job(spec)["spec"], None) == 2
    count(account, pod_of(57321, 2), PodsOfJob(job(spec), None, SETTINGS))
    assert not limits.is_exceeded(account, BUDGETS, "57321")


def admitted(index: int, ignored: str | None, *ended: Pod) -> int | None:
    """Return the disruptions with which the next pod of an index is admitted, if the account has dropped that index."""
    stored = job(SPEC, resourceVersion="1")
    said = {INDEX: str(index), batch.INDEX_FAILURES: "0"}
    if ignored is not None:
        said[batch.INDEX_IGNORED_FAILURES] = ignored
    known = trackers(stored, None, *ended)
    see_account(known, batch.JOB, stored, encode(full()))
    found = counted(known, stored, {"annotations": said})
    return None if found is None else found.disruptions


def test_the_first_pod_of_an_index_has_no_disruptions_whatever_the_account_has_dropped() -> None:
    assert admitted(57321, None) == 0


def test_the_next_pod_of_an_index_has_one_disruption_more_than_the_one_before_it() -> None:
    assert admitted(57321, "1", pod_of(57321, 1)) == 2
    assert admitted(57321, "1", pod_of(57321, 0), pod_of(57322, 2, 2)) == 1


def test_a_pod_after_one_that_does_not_say_its_number_counts_with_the_highest_one() -> None:
    before = disrupted(1, index="57321", index_failures=0, index_ignored=0)
    assert admitted(57321, "1", before) == 3


def test_the_admission_of_a_pod_costs_the_same_however_many_pods_of_other_indexes_are_not_counted() -> None:
    stored = job(SPEC, resourceVersion="1")
    said = {"annotations": {INDEX: "0", batch.INDEX_FAILURES: "0", batch.INDEX_IGNORED_FAILURES: "1"}}
    few, many = (
        trackers(stored, None, *(pod_of(index, 0, index + 1) for index in range(number))) for number in (100, 900)
    )
    assert lines_of(lambda: counted(many, stored, said)) <= lines_of(lambda: counted(few, stored, said)) + 10


def test_of_an_index_that_has_succeeded_no_ended_pod_is_remembered() -> None:
    found = trackers(job(SPEC, resourceVersion="1"), None, pod_of(3, 0), pod_of(4, 0, 2))
    found.see_pod(running_pod(9, index="3", phase="Succeeded"))
    (state,) = found.states.values()
    assert list(state.tracker.last_ends) == ["4"]


def test_each_pod_of_a_big_job_is_placed_as_a_naive_count_says() -> None:
    figures = run(BigJob(1500, 300, disrupted=0.5).play(150))
    assert (figures.wrong, figures.spot_instead) == (0, 0)
    assert figures.admitted == 1500 + figures.replaced
    assert figures.replaced > 1000
    assert figures.exact_counts
    assert figures.account <= LARGEST
    assert figures.ends_kept <= figures.indexes // 10
