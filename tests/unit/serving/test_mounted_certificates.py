"""Mounted certificates that another program renews, such as cert-manager, while the server runs."""

import http.client
import ssl
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs.issue import KeyPair, issue, new_authority
from tests.admission import review_of
from tests.awaiting import LONGEST, until
from tests.objects import job
from tests.served import Served, request, serving

HOUR = timedelta(hours=1)


def authority() -> KeyPair:
    return new_authority("mounted", now=datetime.now(UTC), lifetime=HOUR)


def leaf_of(signer: KeyPair, *, client: bool = False) -> KeyPair:
    return issue(signer, "webhook", now=datetime.now(UTC), lifetime=HOUR, hosts=["127.0.0.1"], client=client)


class Mount:
    """A folder that changes as the kubelet changes a mounted Secret: a symlink moves to a folder with new files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.versions = 0

    def write(self, **files: bytes) -> None:
        self.versions += 1
        version = self.folder / f"..version-{self.versions}"
        version.mkdir()
        for name, content in files.items():
            (version / name).write_bytes(content)
        (self.folder / "..new").symlink_to(version.name)
        (self.folder / "..new").replace(self.folder / "..data")
        for name in files:
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(Path("..data", name))

    def arguments(self, *names: str) -> list[str]:
        return [argument for name in names for argument in (f"--{name}", str(self.folder / name.replace("-", "_")))]


@pytest.fixture
def mount(tmp_path: Path) -> Mount:
    folder = tmp_path / "mounted"
    folder.mkdir()
    return Mount(folder)


def write(mount: Mount, chain: KeyPair, key: bytes | None = None, **others: bytes) -> None:
    mount.write(tls_cert=chain.certificate, tls_key=chain.key if key is None else key, **others)


def connected(running: Served, trusted: KeyPair, client: KeyPair | None = None) -> http.client.HTTPSConnection:
    context = ssl.create_default_context(cadata=trusted.certificate.decode())
    if client is not None:
        file = running.log.with_name("client.pem")
        file.write_bytes(client.certificate + client.key)
        context.load_cert_chain(file)
    return http.client.HTTPSConnection("127.0.0.1", running.https_port, context=context, timeout=LONGEST)


def status(running: Served, trusted: KeyPair, client: KeyPair | None = None) -> int:
    """Return the status of an answer over a new connection; 0 if there is none."""
    with closing(connected(running, trusted, client)) as connection:
        try:
            return request(connection, "POST", "/mutate", review_of(job())).status
        except OSError:  # ssl.SSLError is a subclass
            return 0


def test_a_server_is_not_ready_until_an_expired_certificate_is_renewed_and_a_renewal_drops_no_connection(
    tmp_path: Path, mount: Mount
) -> None:
    old, new = authority(), authority()
    write(mount, issue(old, "webhook", now=datetime.now(UTC) - HOUR, lifetime=HOUR / 2, hosts=["127.0.0.1"]))
    with (
        serving(tmp_path, *mount.arguments("tls-cert", "tls-key")) as running,
        closing(connected(running, old)) as kept,
    ):
        assert running.addresses["ca"] is None
        reply = running.get("/readyz")
        assert reply.status == 503
        assert b"the certificate is valid from" in reply.body
        write(mount, leaf_of(old))
        until(lambda: running.get("/readyz").status == 200)
        assert request(kept, "POST", "/mutate", review_of(job())).status == 200
        socket = kept.sock
        write(mount, leaf_of(new))
        until(lambda: status(running, new) == 200)
        assert status(running, old) == 0
        assert request(kept, "POST", "/mutate", review_of(job())).status == 200
        assert kept.sock is socket


def test_a_mismatched_pair_is_logged_once_and_counted_and_the_former_certificate_is_served(
    tmp_path: Path, mount: Mount
) -> None:
    good = authority()
    write(mount, leaf_of(good))
    with serving(tmp_path, *mount.arguments("tls-cert", "tls-key")) as running:
        write(mount, leaf_of(good), key=leaf_of(good).key)
        until(lambda: "certificate not renewed" in running.log_text())
        assert status(running, good) == 200
        assert running.get("/readyz").status == 200
        assert 'retry_policy_certificate_renewals_total{result="bad"} 1.0' in running.get("/metrics").body.decode()
        (mount.folder / "tls_key").unlink()
        until(lambda: "No such file" in running.log_text())
        assert status(running, good) == 200
        (mount.folder / "tls_key").symlink_to(Path("..data", "tls_key"))
        newer = authority()
        write(mount, leaf_of(newer))
        until(lambda: status(running, newer) == 200)
        assert running.log_text().count("certificate not renewed") == 2
        assert "PRIVATE KEY" not in running.log_text()


def test_with_a_client_ca_only_its_clients_are_served_and_a_changed_one_takes_effect(
    tmp_path: Path, mount: Mount
) -> None:
    signer, clients, others = authority(), authority(), authority()
    chain = leaf_of(signer)
    write(mount, chain, client_ca=clients.certificate)
    with serving(tmp_path, *mount.arguments("tls-cert", "tls-key", "client-ca")) as running:
        assert status(running, signer) == 0
        assert status(running, signer, leaf_of(others, client=True)) == 0
        assert status(running, signer, leaf_of(clients, client=True)) == 200
        write(mount, chain, client_ca=others.certificate)
        until(lambda: status(running, signer, leaf_of(others, client=True)) == 200)
        assert status(running, signer, leaf_of(clients, client=True)) == 0


def test_with_its_own_certificate_the_server_can_require_client_certificates_too(tmp_path: Path, mount: Mount) -> None:
    clients = authority()
    mount.write(client_ca=clients.certificate)
    with serving(tmp_path, *mount.arguments("client-ca")) as running:
        own = KeyPair(Path(running.addresses["ca"]).read_bytes(), b"")
        assert status(running, own) == 0
        assert status(running, own, leaf_of(clients, client=True)) == 200
