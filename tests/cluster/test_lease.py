"""Leader election against the API server."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

import pytest
import uvloop
import yaml

from tests.awaiting import LONGEST
from tests.cluster.conftest import NewNamespace
from tests.documents import document_of
from webhook.kube import lease
from webhook.kube.client import Api
from webhook.kube.lease import Lease

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.cluster.namespace import Namespace

NAME = "leader"


class Candidate:
    """A candidate for the Lease; `leading` is set while it leads."""

    def __init__(self, api: Api, team: Namespace, holder: str) -> None:
        self.watches_since_now = False
        self.lease = Lease(
            api, team.name, NAME, holder, since=lambda: time.monotonic() if self.watches_since_now else float("-inf")
        )
        self.leading = asyncio.Event()
        self.task = asyncio.create_task(self.lease.lead(self.work))

    async def work(self) -> None:
        self.leading.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.leading.clear()

    async def stop(self) -> None:
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task

    async def vanish(self) -> None:
        """Stop without releasing the Lease, like a replica that is killed."""
        self.lease.release = asyncio.Event().wait  # type: ignore[method-assign, assignment]
        await self.stop()


@contextlib.asynccontextmanager
async def candidates(team: Namespace, number: int) -> AsyncIterator[list[Candidate]]:
    async with await Api.connect(str(team.kubeconfig)) as api:
        found = [Candidate(api, team, f"candidate-{number}") for number in range(number)]
        try:
            yield found
        finally:
            for candidate in found:
                await candidate.stop()


async def leader_of(found: list[Candidate]) -> Candidate:
    async with asyncio.timeout(LONGEST):
        while not any(candidate.leading.is_set() for candidate in found):  # noqa: ASYNC110 - several events
            await asyncio.sleep(0.02)
    (leader,) = [candidate for candidate in found if candidate.leading.is_set()]
    return leader


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use Leases with a short duration."""
    monkeypatch.setattr(lease, "DURATION", 3.0)
    monkeypatch.setattr(lease, "DEADLINE", 2.0)
    monkeypatch.setattr(lease, "PAUSE", 0.2)


def test_one_of_several_candidates_leads_and_when_it_stops_another_leads_before_the_lease_expires(
    namespace: NewNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "DURATION", 2 * LONGEST)

    async def run() -> None:
        async with candidates(namespace(), 3) as found:
            first = await leader_of(found)
            await first.stop()
            await leader_of([candidate for candidate in found if candidate is not first])

    uvloop.run(run())


@pytest.mark.usefixtures("short")
def test_when_the_lease_of_a_killed_leader_expires_another_candidate_leads(namespace: NewNamespace) -> None:
    async def run() -> None:
        team = namespace()
        async with candidates(team, 2) as found:
            first = await leader_of(found)
            await first.vanish()
            assert not any(candidate.leading.is_set() for candidate in found)
            second = await leader_of([candidate for candidate in found if candidate is not first])
            held = team.get("lease", NAME)["spec"]
            assert (held["holderIdentity"], held["leaseTransitions"]) == (second.lease.holder, 1)

    uvloop.run(run())


@pytest.mark.usefixtures("short")
def test_the_candidate_that_has_watched_longer_leads_next(namespace: NewNamespace) -> None:
    async def run() -> None:
        async with candidates(namespace(), 3) as found:
            first = await leader_of(found)
            late, early = [candidate for candidate in found if candidate is not first]
            late.watches_since_now = True
            await first.vanish()
            assert await leader_of([late, early]) is early
            await early.vanish()
            assert await leader_of([late]) is late

    uvloop.run(run())


def test_a_leader_that_cannot_renew_stops_before_its_lease_expires(
    namespace: NewNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "DEADLINE", 1.0)
    monkeypatch.setattr(lease, "PAUSE", 0.1)

    async def run() -> None:
        async with candidates(namespace(), 1) as found:
            first = await leader_of(found)
            first.lease.hold = asyncio.Event().wait  # type: ignore[method-assign]
            async with asyncio.timeout(LONGEST):
                while first.leading.is_set():  # noqa: ASYNC110 - an Event cannot wait to be cleared
                    await asyncio.sleep(0.02)

    uvloop.run(run())


def test_a_candidate_without_permission_does_not_lead_and_reports_it(namespace: NewNamespace, tmp_path: Path) -> None:
    team = namespace()
    kubeconfig = document_of(team.kubeconfig.read_text())
    (user,) = kubeconfig["users"]
    user["user"] = {"token": team.run("create", "token", "default").stdout.strip()}
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(kubeconfig))
    calls = []

    async def run() -> bool:
        async with await Api.connect(str(file)) as api:
            wanted = Lease(
                api,
                team.name,
                NAME,
                "nobody",
                on_forbidden=lambda: calls.append("refused"),
                on_permitted=lambda: calls.append("allowed"),
            )
            return await wanted.try_to_hold()

    assert not uvloop.run(run())
    assert calls == ["refused"]
