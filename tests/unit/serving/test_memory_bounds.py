"""What bounds the memory of a pod is looked up only if the pod may get more than its template says."""

import asyncio
from typing import Any

import pytest

from tests.admission import policy
from tests.unit.accounts.pods import failed
from tests.unit.rules.pods.test_memory import killed, rule
from tests.unit.test_cost import pod_of_a_job, warm
from webhook.admission.subject import read, subject_of
from webhook.pods.pods import Pod
from webhook.policy.model import FailureRule, Profile
from webhook.rules.pods.memory_bounds import Restrictions
from webhook.tracking.policy_source import PolicySource

FOUND = Restrictions(are_known=False)


def restrictions(rules: tuple[FailureRule, ...], ended: Pod) -> tuple[Restrictions, list[str]]:
    """Return what the rules get to know for the next pod of a Job, and the namespaces that were looked up."""
    server, looked_up = warm(), list[str]()
    server.policy = PolicySource(policy(default=Profile(on_failure=rules)))
    cluster: Any = server.cluster

    async def bounds_of_memory(namespace: str) -> Restrictions:
        looked_up.append(namespace)
        return FOUND

    cluster.bounds_of_memory = bounds_of_memory
    assert server.trackers is not None
    server.trackers.accounts.synced.set()
    server.trackers.see_pod(ended)
    body = pod_of_a_job()
    subject = subject_of(read(body), body=body)
    assert subject is not None
    return asyncio.run(server.facts(subject)).restrictions, looked_up


def test_after_a_kill_they_are_looked_up() -> None:
    assert restrictions((rule(),), killed()) == (FOUND, ["ml"])


@pytest.mark.parametrize(("rules", "ended"), [((), killed()), ((rule(),), failed(1))], ids=["no rule", "no kill"])
def test_otherwise_they_are_not(rules: tuple[FailureRule, ...], ended: Pod) -> None:
    assert restrictions(rules, ended) == (Restrictions(), [])
