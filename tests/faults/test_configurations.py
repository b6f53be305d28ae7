"""Changes of the webhook configurations and of the policy by an admin or an admin's tool."""

import http.client

import pytest

from tests.awaiting import LONGEST, until
from tests.faults.installed import POLICY
from tests.faults.stage import Replica, Stage

TRIES = 5


@pytest.mark.hardest
def test_ca_bundles_that_a_user_empties_are_restored(stage: Stage) -> None:
    replicas = stage.two_replicas()
    with stage.under_load("caBundle emptied by hand") as watched:
        watched.note = "from the time the API server uses the empty caBundle until it uses ours again"
        watched.tries = TRIES
        for _ in range(watched.tries):
            stage.empty_bundles()
            stage.until_settled(*replicas)
            stage.until_effective()
            watched.lap()
            watched.until_sent()
            assert watched.lap().lost == 0
    assert watched.tally.wrong == 0, watched.tally


def test_webhook_configurations_that_are_deleted_and_applied_again_get_their_ca_bundles(stage: Stage) -> None:
    replicas = stage.two_replicas()
    with stage.under_load("webhook configurations deleted, applied again") as watched:
        watched.note = "wrong: without configurations no webhook is called; failed: until they have their caBundle"
        stage.delete_configurations()
        watched.until_sent()
        stage.configure()
        stage.until_settled(*replicas)
        stage.until_effective()
        watched.lap()
        watched.until_sent()
    assert watched.laps[-1].lost == 0, watched.tally


def test_the_policy_stays_in_force_when_its_config_map_is_deleted(stage: Stage) -> None:
    replicas = stage.two_replicas()
    with stage.under_load("policy ConfigMap deleted") as watched:
        stage.api.delete(POLICY)
        watched.until_sent()
        late = stage.start()  # it gets no requests, because it has never seen a policy
        until(lambda: "no policy in force" in readiness(late) and "caches" not in readiness(late))
        assert late.name not in stage.balancer.ask("endpoints")
        stage.create_policy()
        stage.until_endpoints(*replicas, late)
    assert watched.tally.lost == 0, watched.tally


def test_a_replica_that_restarts_under_a_bad_policy_keeps_the_last_good_one_and_a_new_pod_says_why_it_waits(
    stage: Stage,
) -> None:
    victim, other = stage.two_replicas()
    stage.spoil_policy()
    stage.until_settled(victim, other)
    stage.until_effective()
    with stage.under_load("policy bad: one of two replicas killed, its container starts again") as watched:
        watched.note = "as with a valid policy: unanswered requests, and connections until its endpoint is removed"
        restarted = stage.restart(victim)
        new = stage.start()
        stage.until_endpoints(restarted, other)
        until(lambda: reasons_of(stage, new))
        watched.lap()
        watched.until_sent()
        assert new.name not in stage.balancer.ask("endpoints")
    assert watched.tally.wrong == 0, watched.tally
    assert watched.laps[-1].lost == 0, watched.tally
    why = "ConfigMap retry-policy-system/retry-policy: profiles.default.retries.limit: "
    assert any(said.startswith(f"no policy in force: {why}") for said in reasons_of(stage, new))
    assert not [said for said in reasons_of(stage, other) if said.startswith("no policy in force")]
    refused = stage.events("PolicyRefused", "retry-policy")
    assert any(message.startswith(f"the last good policy stays in force; {why}") for message in refused)


def reasons_of(stage: Stage, replica: Replica) -> list[str]:
    """Return why a replica is not ready, as its log says it."""
    return [str(line["why"]) for line in stage.lines([replica], "not ready")]


def readiness(replica: Replica) -> str:
    """Return what /readyz says."""
    connection = http.client.HTTPConnection("127.0.0.1", replica.health_port, timeout=LONGEST)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().read().decode()
    finally:
        connection.close()
