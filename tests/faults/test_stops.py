"""Replicas that end under load: terminated, and killed."""

import pytest

from tests.faults.stage import Stage


@pytest.mark.hardest
def test_a_roll_out_loses_no_admission(stage: Stage) -> None:
    old = stage.two_replicas()
    with stage.under_load("SIGTERM: roll-out of two replicas") as watched:
        running = [*old]
        for replica in old:  # like the Deployment: a new replica is ready before an old one ends
            running.append(stage.start())
            stage.until_endpoints(*running)
            stage.terminate(replica)
            running.remove(replica)
        for replica in old:
            stage.until_ended(replica)
    assert [replica.process.returncode for replica in old] == [0, 0]
    assert watched.tally.lost == 0, watched.tally


@pytest.mark.hardest
def test_when_a_replica_is_killed_only_its_own_requests_are_lost(stage: Stage) -> None:
    victim, other = stage.two_replicas()
    with stage.under_load("SIGKILL of one of two replicas") as watched:
        watched.note = "its unanswered requests, and connections to it until its endpoint is removed"
        stage.kill(victim)
        stage.until_endpoints(other)
        stage.until_endpoints(other, stage.start())
        watched.lap()
        watched.until_sent()
    assert watched.tally.wrong == 0, watched.tally
    assert watched.laps[-1].lost == 0, watched.tally


def test_replicas_that_are_killed_one_after_the_other_recover_by_themselves(stage: Stage) -> None:
    replicas = stage.two_replicas()
    with stage.under_load("SIGKILL of both replicas, one after the other") as watched:
        watched.note = "as above; the second replica is killed when the successor of the first one is ready"
        watched.tries = len(replicas)
        for victim in [*replicas]:
            stage.kill(victim)
            replicas = [replica for replica in replicas if replica is not victim] + [stage.start()]
            stage.until_endpoints(*replicas)
        watched.lap()
        watched.until_sent()
    assert watched.tally.wrong == 0, watched.tally
    assert watched.laps[-1].lost == 0, watched.tally
