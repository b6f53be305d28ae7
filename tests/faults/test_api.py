"""Faults of the API server and of etcd."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.awaiting import until
from tests.faults.installed import SECRET
from tests.faults.program import Program
from tests.faults.stage import ANNOUNCEMENT, BURST, ETCD, Stage

PULSES = 5
STOPPED = 1.5  # seconds, again and again, for which etcd does not answer
GOING = 0.5
CUT_OFF = 1000  # admissions


def test_replicas_that_start_without_an_api_server_wait_for_it(stage: Stage) -> None:
    for replica in stage.two_replicas():
        stage.kill(replica)
    stage.kill_api_server()
    replicas = stage.start_together(2)
    with stage.under_load("API server down at start", from_the_start=True) as watched:
        watched.note = "the API server is back before a replica could read its certificate: no replica can answer yet"
        stage.start_api_server()
        stage.until_endpoints(*replicas)
        stage.until_effective()
        watched.lap()
        watched.until_sent()
    assert watched.tally.wrong == 0, watched.tally
    assert watched.laps[-1].lost == 0, watched.tally


@pytest.mark.hardest
def test_no_admission_is_lost_when_the_api_server_is_killed_and_starts_again(stage: Stage) -> None:
    stage.two_replicas()
    with stage.under_load("API server restarted under load") as watched:
        watched.tries = 3
        for _ in range(watched.tries):
            stage.kill_api_server()
            stage.start_api_server()
            watched.until_sent()
    assert watched.tally.lost == 0, watched.tally


def test_no_admission_is_lost_while_etcd_is_slow(stage: Stage) -> None:
    stage.two_replicas("--leaf=6")
    begin = stage.good().leaf
    etcd = stage.processes.running[ETCD].pid
    with stage.under_load("etcd slow, leaves renewed", burst=BURST) as watched:
        watched.tries = PULSES
        for _ in range(watched.tries):
            os.kill(etcd, signal.SIGSTOP)
            try:
                time.sleep(STOPPED)
            finally:
                os.kill(etcd, signal.SIGCONT)
            time.sleep(GOING)
        until(lambda: stage.good().leaf != begin)
    assert watched.tally.lost == 0, watched.tally


def test_no_admission_is_lost_when_the_watches_are_cut(stage: Stage) -> None:
    with relayed(stage) as (relay, kubeconfig):
        stage.until_endpoints(*stage.start_together(2, kubeconfig=kubeconfig))
        stage.until_effective()
        with stage.under_load("watches cut, the API can be reached again at once") as watched:
            watched.tries = PULSES
            for _ in range(watched.tries):
                relay.ask("cut")
                relay.ask("mend")
                watched.until_sent()
    assert watched.tally.lost == 0, watched.tally


def test_a_replica_that_was_cut_off_from_the_api_gets_the_changes_that_it_missed(stage: Stage) -> None:
    with relayed(stage) as (relay, kubeconfig):
        cut_off = stage.start(ANNOUNCEMENT, kubeconfig=kubeconfig)
        other = stage.start(ANNOUNCEMENT)
        stage.until_endpoints(cut_off, other)
        stage.until_effective()
        before = stage.good()
        with stage.under_load("one of two replicas cut off from the API, meanwhile the Secret is deleted") as watched:
            watched.note = "while the replica cannot read a namespace's profile, it responds 503 and does not guess"
            relay.ask("cut")
            stage.api.delete(SECRET)
            until(lambda: stage.shared() is not None)
            stage.until_settled(other)
            watched.until_sent(CUT_OFF)
            assert stage.good().authority != before.authority
            relay.ask("mend")
            stage.until_settled(cut_off, other)
            stage.until_effective()
            watched.lap()
            watched.until_sent()
    assert watched.tally.wrong == 0, watched.tally
    assert watched.laps[-1].lost == 0, watched.tally


@contextlib.contextmanager
def relayed(stage: Stage) -> Iterator[tuple[Program, Path]]:
    """Return a relay to the API, and a replica's kubeconfig for it."""
    own = stage.api.address.port
    relay = Program.start(stage.processes, "relay", own)
    kubeconfig = stage.folder / "relayed.kubeconfig"
    kubeconfig.write_text(stage.kubeconfig.read_text().replace(f":{own}", f":{relay.ask('port')}"))
    try:
        yield relay, kubeconfig
    finally:
        relay.close()
