"""The certificates of the test control plane, and the kubeconfig files that contain them."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from certs.issue import KeyPair, issue, new_authority

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LIFETIME = timedelta(days=7)  # `make cluster` may run for days


@dataclass(frozen=True, slots=True)
class Credentials:
    """One authority for all certificates; each is in the folder as NAME.crt and NAME.key."""

    folder: Path
    authority: KeyPair

    @classmethod
    def create(cls, folder: Path) -> Credentials:
        folder.mkdir()
        credentials = cls(folder, new_authority("test-control-plane", now=datetime.now(UTC), lifetime=LIFETIME))
        credentials.authority_file.write_bytes(credentials.authority.certificate)
        return credentials

    @property
    def authority_file(self) -> Path:
        return self.folder / "ca.crt"

    def server(self, name: str, hosts: Iterable[str]) -> tuple[Path, Path]:
        """Issue a server's certificate; return its file and that of its key."""
        return self._save(name, issue(self.authority, name, now=datetime.now(UTC), lifetime=LIFETIME, hosts=hosts))

    def client(self, name: str, groups: Iterable[str] = ()) -> tuple[Path, Path]:
        """Issue a client's certificate; return its file and that of its key."""
        pair = issue(self.authority, name, now=datetime.now(UTC), lifetime=LIFETIME, organizations=groups, client=True)
        return self._save(name, pair)

    def kubeconfig(self, user: str, server: str, groups: Iterable[str] = ()) -> Path:
        """Write a kubeconfig of `user` for the API server at the URL `server`; return its file."""
        pair = issue(self.authority, user, now=datetime.now(UTC), lifetime=LIFETIME, organizations=groups, client=True)
        cluster = {"server": server, "certificate-authority-data": _base64(self.authority.certificate)}
        client = {"client-certificate-data": _base64(pair.certificate), "client-key-data": _base64(pair.key)}
        file = self.folder / f"{user.replace(':', '-')}.kubeconfig"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": client}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        }
        file.write_text(json.dumps(content, indent=2))  # JSON is YAML too
        return file

    def _save(self, name: str, pair: KeyPair) -> tuple[Path, Path]:
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        certificate.write_bytes(pair.certificate)
        key.write_bytes(pair.key)
        return certificate, key


def _base64(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
