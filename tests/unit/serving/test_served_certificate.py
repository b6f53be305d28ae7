"""The certificate of the controller's Secret, as the webhook serves it."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from certs import store
from certs.issue import KeyPair
from certs.reload import ReloadableContext
from certs.rotate import Lifetimes, Rotation
from certs.store import Shared, UnusableError
from tests import virtual_time
from webhook.serving.served_certificate import Served, SharedCertificate
from webhook.tracking.certificates import SECRET, CABundles

NAMESPACE = "ops"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Trusting(CABundles):
    """Two configurations that were read, and that trust some authorities."""

    def __init__(self) -> None:
        no_api: Any = None
        super().__init__(no_api)
        self.trusted = b""
        for one in self.lists:
            one.synced.set()

    def trusts(self, chain: bytes) -> bool:
        return store.issued_by(chain, self.trusted) if self.trusted else False


class Stage:
    def __init__(self, folder: Path) -> None:
        no_api: Any = None
        self.trust = Trusting()
        self.served = Served(ReloadableContext(), None, self.trust, lambda: NOW)
        (folder / "ca.crt").touch()
        self.found = SharedCertificate(no_api, NAMESPACE, self.served, self.trust, folder / "ca.crt")

    def store(self, shared: Shared | None, version: str = "1") -> None:
        data = {"tls.crt": "eA=="} if shared is None else store.to_data(shared)
        self.found.secrets.items[NAMESPACE, SECRET] = {"metadata": {"resourceVersion": version}, "data": data}

    @property
    def leaf(self) -> KeyPair | None:
        return self.served.tls.chain


def begun() -> Shared:
    return Rotation(name="webhook", hosts=["127.0.0.1"], lifetimes=Lifetimes()).begin(NOW)


@pytest.fixture
def on_stage(tmp_path: Path) -> Callable[[Callable[[Stage], Awaitable[None]]], None]:
    async def work(test: Callable[[Stage], Awaitable[None]]) -> None:
        await test(Stage(tmp_path))

    return lambda test: virtual_time.run(work(test))


OnStage = Callable[[Callable[[Stage], Awaitable[None]]], None]


def test_until_the_controller_has_written_the_secret_the_reason_names_it(on_stage: OnStage) -> None:
    async def test(stage: Stage) -> None:
        stage.found.serve()
        assert stage.leaf is None
        (trouble,) = stage.served.troubles()
        assert f"{NAMESPACE}/{SECRET}" in trouble

    on_stage(test)


def test_the_first_certificate_is_served_at_once_and_the_next_one_when_it_is_trusted(on_stage: OnStage) -> None:
    async def test(stage: Stage) -> None:
        first, second = begun(), begun()
        stage.store(first)
        stage.found.serve()
        assert stage.leaf == first.leaf
        assert stage.found.ca_file.read_bytes() == first.trusted
        stage.trust.trusted = first.trusted
        stage.store(second, "2")
        stage.found.serve()
        assert stage.leaf == first.leaf
        stage.trust.trusted = first.trusted + second.trusted
        stage.found.serve()
        assert stage.leaf == second.leaf
        assert stage.served.troubles() == []

    on_stage(test)


def test_a_secret_that_cannot_be_used_leaves_the_certificate_in_use(on_stage: OnStage) -> None:
    async def test(stage: Stage) -> None:
        first = begun()
        stage.store(first)
        stage.found.serve()
        stage.store(None, "2")
        with pytest.raises(UnusableError, match=r"tls\.key"):
            stage.found.serve()
        assert stage.leaf == first.leaf

    on_stage(test)
