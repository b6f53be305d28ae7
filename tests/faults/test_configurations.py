"""What an admin, or a tool of theirs, does to the webhook configurations and to the policy."""

import http.client

import pytest

from tests.awaiting import until
from tests.faults.installed import POLICY
from tests.faults.stage import Replica, Stage

TRIES = 5


@pytest.mark.hardest
def test_ca_bundles_that_somebody_empties_are_put_back(stage: Stage) -> None:
    replicas = stage.two_replicas()
    with stage.under_load("caBundle emptied by hand") as watched:
        watched.note = "from when the API server takes up the empty caBundle to when it takes up ours again"
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
        watched.note = "wrong: while there are none nobody asks the webhook; failed: until it has put in its caBundle"
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
        late = stage.start()  # nobody asks one that has never seen a policy
        until(lambda: "no policy in force" in readiness(late) and "caches" not in readiness(late))
        assert late.name not in stage.balancer.ask("endpoints")
        stage.create_policy()
        stage.until_endpoints(*replicas, late)
    assert watched.tally.lost == 0, watched.tally


def readiness(replica: Replica) -> str:
    """Return what /readyz says."""
    connection = http.client.HTTPConnection("127.0.0.1", replica.health_port, timeout=10)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().read().decode()
    finally:
        connection.close()
