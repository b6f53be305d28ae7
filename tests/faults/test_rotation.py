"""Rotations of certificates in which a replica dies between two writes, or the clock jumps."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs.issue import issue, new_authority
from certs.rotate import hosts_of
from certs.store import Shared
from tests.awaiting import until
from tests.faults.installed import certificates
from tests.faults.stage import ANNOUNCEMENT, BURST, Stage

NAME = "retry-policy-webhook"
LONG_AGO = timedelta(days=25)
LIFETIME = timedelta(days=30)
MOMENTS = ("before", "after")


def leaf_due(shared: Shared) -> Shared:
    """Return certificates with a leaf that is due for renewal."""
    begin = datetime.now(UTC) - LONG_AGO
    hosts = hosts_of(shared.leaf)
    return replace(shared, leaf=issue(shared.authority, NAME, now=begin, lifetime=LIFETIME, hosts=hosts))


def authority_due(shared: Shared) -> Shared:
    """Return certificates with an authority that is due for renewal; the former one stays trusted."""
    now = datetime.now(UTC)
    old = new_authority(NAME, now=now - LONG_AGO, lifetime=LIFETIME)
    leaf = issue(old, NAME, now=now, lifetime=LIFETIME, hosts=hosts_of(shared.leaf))
    trusted = shared.retired + shared.authority.certificate
    return Shared(authority=old, leaf=leaf, retired=trusted, retired_until=now + LIFETIME)


def retired_due(shared: Shared) -> Shared:
    """Return certificates with a retired authority that is due for removal, and is in every caBundle."""
    return replace(shared, retired_until=datetime.now(UTC) - timedelta(minutes=1))


# The step that becomes due, and the number of its writes: a leaf in the Secret; the next authority in the Secret and in
# both configurations, its first leaf in the Secret; the Secret and both configurations without the retired authority.
CHANGES: tuple[tuple[Callable[[Shared], Shared], int], ...] = ((leaf_due, 1), (authority_due, 4), (retired_due, 3))


class Victim:
    """A replica that dies at a write. It starts early, because Python takes seconds for that under load."""

    def __init__(self, stage: Stage, death: str) -> None:
        self.stage = stage
        self.begin = stage.folder / "begin"
        self.begin.unlink(missing_ok=True)
        self.name = stage.launch(ANNOUNCEMENT, f"--die={death}", f"--begin={self.begin}")

    def dies(self) -> None:
        """Let the replica begin, and wait until it has killed itself."""
        self.begin.touch()
        self.stage.until_dead(self.name)


@pytest.mark.hardest
def test_a_rotation_step_that_a_killed_replica_began_is_completed_by_the_others(stage: Stage) -> None:
    hold = stage.folder / "hold"
    survivors = stage.two_replicas(ANNOUNCEMENT, f"--hold={hold}")
    deaths = [
        (make_due, f"{moment}:{number}")
        for make_due, writes in CHANGES
        for number in range(1, writes + 1)
        for moment in MOMENTS
    ]
    victim = Victim(stage, deaths[0][1])
    with stage.under_load("killed before and after every write of a change", burst=BURST) as watched:
        watched.note = "the killed replica is a third one, which gets no admissions"
        watched.tries = len(deaths)
        for number, (make_due, death) in enumerate(deaths):
            if make_due is retired_due:
                trust_another(stage)
            stage.until_settled(*survivors)
            hold.touch()  # only the replica that will die writes
            before = stage.good()
            stage.put(make_due(before))
            victim.dies()
            hold.unlink()
            if number + 1 < len(deaths):
                victim = Victim(stage, deaths[number + 1][1])
            stage.until_settled(*survivors)
            assert changed(make_due, before, stage.good()), (make_due.__name__, death)
            assert watched.lap().lost == 0, (make_due.__name__, death, watched.tally)
    assert watched.tally.lost == 0, watched.tally


def trust_another(stage: Stage) -> None:
    """Put an authority that signs nothing into every caBundle."""
    now = datetime.now(UTC)
    other = new_authority(NAME, now=now, lifetime=LIFETIME)
    shared = stage.good()
    stage.put(replace(shared, retired=shared.retired + other.certificate, retired_until=now + LIFETIME))


def changed(made_due: Callable[[Shared], Shared], before: Shared, after: Shared) -> bool:
    """Return True if the step that was due is complete."""
    if made_due is leaf_due:
        return after.authority == before.authority and after.leaf != before.leaf
    if made_due is authority_due:
        return certificates(before.authority.certificate) < certificates(after.retired)
    return after.leaf == before.leaf and not after.retired


def test_a_leaf_that_expired_while_the_clock_was_behind_is_renewed_when_the_clock_is_set(
    stage: Stage, tmp_path: Path
) -> None:
    clock = tmp_path / "behind"
    clock.write_text("20")
    replicas = stage.two_replicas("--leaf=30", f"--clock={clock}")
    before = stage.good().leaf
    (expired,) = certificates(before.certificate)
    with stage.under_load("clock was behind and jumps over expiry", burst=BURST) as watched:
        watched.note = "the API server's open connections survive the leaf; new ones would fail until the clock is set"
        until(lambda: expired.not_valid_after_utc < datetime.now(UTC))
        clock.with_suffix(".new").write_text("0")
        clock.with_suffix(".new").replace(clock)
        until(lambda: stage.good().leaf != before)
        stage.until_settled(*replicas)
        stage.until_endpoints(*replicas)
        stage.until_effective()
        watched.lap()
        watched.until_sent()
    assert watched.tally.wrong == 0, watched.tally
    assert watched.laps[-1].lost == 0, watched.tally


def test_no_admission_is_lost_when_the_clock_jumps_ahead_over_expiry(stage: Stage, tmp_path: Path) -> None:
    clock = tmp_path / "behind"
    clock.write_text("0")
    replicas = stage.two_replicas("--leaf=240", f"--clock={clock}")
    before = stage.good().leaf
    with stage.under_load("clock jumps four minutes ahead, over expiry", burst=BURST) as watched:
        clock.with_suffix(".new").write_text("-250")
        clock.with_suffix(".new").replace(clock)
        until(lambda: stage.good().leaf != before)
        stage.until_settled(*replicas)
        stage.until_endpoints(*replicas)
    assert watched.tally.lost == 0, watched.tally
