"""The Secret that all replicas share: deleted, corrupted, replaced, and created by two replicas at once."""

import base64
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from certs.issue import KeyPair, issue, new_authority
from certs.rotate import hosts_of
from certs.store import Shared, to_data
from tests.awaiting import until
from tests.faults.installed import SECRET, STATE_KEY, certificates
from tests.faults.replica import HELD
from tests.faults.stage import ANNOUNCEMENT, BURST, Replica, Stage
from tests.faults.watched import Watched

NAME = "retry-policy-webhook"
LIFETIME = timedelta(days=30)
FIRST_STARTS = int(os.environ.get("FAULT_TRIES", "100"))
GARBAGE = base64.b64encode(b"garbage").decode()


def foreign(hosts: list[str]) -> tuple[KeyPair, KeyPair]:
    """Return a new authority, which is in no caBundle, and a leaf that it has issued."""
    now = datetime.now(UTC)
    authority = new_authority(NAME, now=now, lifetime=LIFETIME)
    return authority, issue(authority, NAME, now=now, lifetime=LIFETIME, hosts=hosts)


@pytest.mark.hardest
def test_no_admission_is_lost_when_the_secret_is_deleted_and_a_new_authority_replaces_the_old_one(stage: Stage) -> None:
    # Slow enough for the load to meet every state between two writes.
    replicas = stage.two_replicas(ANNOUNCEMENT, "--slow=0.6")
    with stage.under_load("Secret deleted", burst=BURST) as watched:
        watched.tries = 3
        for _ in range(watched.tries):
            before = stage.good()
            stage.api.delete(SECRET)
            until(lambda: stage.shared() is not None)
            stage.until_settled(*replicas)
            assert stage.good().authority != before.authority
            watched.until_sent()
    assert watched.tally.lost == 0, watched.tally


def test_no_admission_is_lost_when_the_key_of_what_pods_carry_is_deleted_and_made_anew(stage: Stage) -> None:
    stage.two_replicas()
    with stage.under_load("state key deleted", burst=BURST) as watched:
        watched.tries = 3
        for _ in range(watched.tries):
            before = stage.api.get(STATE_KEY)["data"]
            stage.api.delete(STATE_KEY)
            until(lambda: (stage.api.find(STATE_KEY) or {"data": before})["data"] != before)  # noqa: B023 - before the next try
            watched.until_sent()
    assert watched.tally.lost == 0, watched.tally


def test_no_admission_is_lost_when_the_secret_is_corrupted_and_its_former_data_is_restored(stage: Stage) -> None:
    replicas = stage.two_replicas()
    data = to_data(stage.good())
    spoilt = (
        {**data, "tls.crt": GARBAGE},
        {**data, "ca.key": GARBAGE},
        {**data, "tls.crt": "", "tls.key": ""},
        {"tls.crt": GARBAGE, "tls.key": GARBAGE},
    )
    written_again_without_loss(stage, "Secret corrupted", spoilt, *replicas)


def test_no_admission_is_lost_when_a_key_in_the_secret_belongs_to_another_authority(stage: Stage) -> None:
    replicas = stage.two_replicas()
    before = stage.good()
    data = to_data(before)
    authority, leaf = foreign(hosts_of(before.leaf))
    theirs = to_data(Shared(authority=authority, leaf=leaf))
    spoilt = (
        {**data, "tls.key": theirs["tls.key"]},
        {**data, "ca.key": theirs["ca.key"]},
        {**data, "tls.key": theirs["tls.key"], "tls.crt": theirs["tls.crt"]},
    )
    written_again_without_loss(stage, "Secret with a foreign key", spoilt, *replicas)


def written_again_without_loss(
    stage: Stage, fault: str, spoilt: Sequence[Mapping[str, str]], *replicas: Replica
) -> None:
    """Corrupt the Secret in several ways; check each time that its former data is restored and nothing is lost."""
    before = stage.good()
    with stage.under_load(fault, burst=BURST) as watched:
        watched.tries = len(spoilt)
        for one in spoilt:
            stage.set_data(one)
            until(lambda: stage.shared() == before)
            watched.until_sent()
        stage.until_settled(*replicas)
    assert watched.tally.lost == 0, watched.tally


def test_a_valid_secret_from_another_source_is_used(stage: Stage) -> None:
    replicas = stage.two_replicas()
    authority, leaf = foreign(hosts_of(stage.good().leaf))
    theirs = Shared(authority=authority, leaf=leaf)
    with stage.under_load("Secret replaced by another valid one, such as a backup", burst=BURST) as watched:
        stage.put(theirs)
        until(lambda: certificates(authority.certificate) <= certificates(stage.bundles()[0]))
        stage.until_settled(*replicas)
        stage.until_effective()
        watched.lap()
        watched.until_sent()
    assert watched.tally.wrong == 0, watched.tally
    assert watched.laps[-1].lost == 0, watched.tally


def test_replicas_that_start_at_once_on_an_empty_cluster_agree_on_one_authority(stage: Stage) -> None:
    watched = Watched("two replicas start at once on an empty cluster", stage.load, tries=FIRST_STARTS)
    watched.note = "without load: a try ends when both serve a leaf of the only authority in every caBundle"
    stage.table.append(watched)
    hold = stage.folder / "hold"
    for _ in range(FIRST_STARTS):
        hold.touch()  # until both replicas are about to write, so that both write at once
        replicas = stage.start_together(2, f"--hold={hold}", in_balancer=False)
        until(lambda: all(HELD in stage.logs(replica) for replica in replicas))  # noqa: B023 - before the next try
        hold.unlink()
        stage.until_settled(*replicas)
        assert sum(stage.logs(replica).count("certificates stored") for replica in replicas) == 1
        authority = certificates(stage.good().authority.certificate)
        assert all(certificates(bundle) == authority for bundle in stage.bundles())
        stage.reset()
