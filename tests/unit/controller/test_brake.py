"""What holds the leader back, and for how long."""

from typing import Any

import pytest
from msgspec import structs

from tests.admission import policy
from tests.metrics import counted
from tests.unit.controller.leader import FakeApi, api_of
from webhook.controller import brake
from webhook.controller.brake import Brake, BrakeSubject
from webhook.kube.events import Events, Notice
from webhook.policy.model import Emergency, Profile, RateLimit
from webhook.tracking.policy_source import PolicySource

ACT, REPORT = Profile(), Profile(actions="Report")
JOB = BrakeSubject("Job", "ml", "train", "uid-1", "batch/v1")
WOULD = "suspend the Job: a reason"


class Leader:
    """A brake, with a clock that the test moves."""

    def __init__(self, **fields: Any) -> None:
        self.time = 0.0
        self.source = PolicySource(policy(default=ACT))
        self.events = Events(api_of(FakeApi()))
        self.brake = Brake(self.source, self.events, lambda: self.time)
        self.set(**fields)

    def set(self, **fields: Any) -> None:
        """Change fields of the policy in force."""
        assert self.source.current is not None
        self.source.current = structs.replace(self.source.current, **fields)

    def acts(self, about: BrakeSubject = JOB, profile: Profile = ACT) -> bool:
        return self.brake.allows("suspend", profile, about, WOULD)

    def taken(self, times: int, namespace: str = "ml") -> int:
        """Return how many of so many actions in a namespace are allowed."""
        return sum(self.acts(JOB._replace(namespace=namespace, uid=f"{namespace}-{one}")) for one in range(times))

    def told(self) -> list[Notice]:
        return [self.events.waiting.get_nowait() for _ in range(self.events.waiting.qsize())]


def test_an_action_is_allowed_and_needs_no_event() -> None:
    leader = Leader()
    before = counted("retry_policy_leader_actions_total", action="suspend", result="taken")
    assert leader.acts()
    assert not leader.told()
    assert counted("retry_policy_leader_actions_total", action="suspend", result="taken") == before + 1


@pytest.mark.parametrize(
    ("emergency", "profile", "why"),
    [
        (Emergency(actions="Stop"), ACT, brake.STOPPED),
        (Emergency(actions="Stop"), REPORT, brake.STOPPED),
        (Emergency(), REPORT, brake.REPORTED),
    ],
)
def test_an_action_that_is_not_taken_is_told_once_on_its_object(
    emergency: Emergency, profile: Profile, why: str
) -> None:
    leader = Leader(emergency=emergency)
    assert not leader.acts(profile=profile)
    assert not leader.acts(profile=profile)
    (notice,) = leader.told()
    assert (notice.kind, notice.api_version, notice.namespace, notice.name, notice.uid) == (
        *("Job", "batch/v1", "ml", "train", "uid-1"),
    )
    assert (notice.reason, notice.type) == ("ActionNotTaken", "Warning")
    assert notice.message == f"would suspend the Job: a reason; {why}"


def test_each_object_and_each_action_has_an_event_of_its_own() -> None:
    leader = Leader(emergency=Emergency(actions="Stop"))
    leader.acts()
    leader.acts(JOB._replace(uid="uid-2"))
    leader.brake.allows("fail", ACT, JOB, "fail the Job: a reason")
    assert len(leader.told()) == 3


def test_the_emergency_ends_with_the_policy_that_ends_it() -> None:
    leader = Leader(emergency=Emergency(actions="Stop"))
    assert not leader.acts()
    leader.set(emergency=Emergency())
    assert leader.acts()


def test_stopping_only_retries_leaves_the_leader_its_actions() -> None:
    assert Leader(emergency=Emergency(retries="Stop")).acts()


def test_nothing_is_done_before_a_policy_was_read() -> None:
    leader = Leader()
    leader.source.current = None
    assert not leader.acts()
    assert not leader.told()


def test_a_namespace_has_its_actions_in_a_minute_and_leaves_the_others_theirs() -> None:
    leader = Leader(rate_limit=RateLimit(cluster=100, namespace=3))
    assert leader.taken(5) == 3
    assert leader.taken(5, "other") == 3


def test_the_cluster_has_its_actions_in_a_minute_whatever_the_namespaces() -> None:
    leader = Leader(rate_limit=RateLimit(cluster=5, namespace=3))
    assert [leader.taken(3, namespace) for namespace in ("one", "two", "three")] == [3, 2, 0]


def test_an_action_has_left_the_limit_a_minute_later_and_no_sooner() -> None:
    leader = Leader(rate_limit=RateLimit(cluster=100, namespace=2))
    assert leader.acts()
    leader.time = 30.0
    assert leader.taken(5) == 1
    leader.time = 59.9
    assert not leader.acts()
    leader.time = 60.0
    assert leader.taken(5) == 1
    assert leader.brake.by_namespace == {"ml": 2}


def test_an_action_that_waits_for_the_limit_is_counted_and_not_told() -> None:
    leader = Leader(rate_limit=RateLimit(cluster=1, namespace=1))
    before = counted("retry_policy_leader_actions_total", action="suspend", result="delayed")
    assert leader.taken(3) == 1
    assert counted("retry_policy_leader_actions_total", action="suspend", result="delayed") == before + 2
    assert not leader.told()


def test_what_is_only_reported_or_stopped_takes_nothing_of_the_limit() -> None:
    leader = Leader(rate_limit=RateLimit(cluster=1, namespace=1))
    assert not leader.acts(profile=REPORT)
    assert leader.acts()


def test_memory_is_bounded_by_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brake, "MOST_TOLD", 3)
    leader = Leader(rate_limit=RateLimit(cluster=2, namespace=1))
    for number in range(10):
        leader.time = number * 40.0
        leader.acts(JOB._replace(namespace=f"n{number}"))
        leader.acts(JOB._replace(uid=f"uid-{number}"), REPORT)
    assert len(leader.brake.recent) <= 2
    assert len(leader.brake.by_namespace) <= 2
    assert list(leader.brake.told) == [("suspend", f"uid-{number}") for number in (7, 8, 9)]
