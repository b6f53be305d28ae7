"""The objects in the cluster: the shipped manifests, the Secret with the certificates, the caBundles."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from cryptography import x509

from certs import store
from tests.cluster.installation import BASE, CONFIG_MAP, SYSTEM, built
from tests.faults.direct import Address, Direct, RefusedError
from webhook.policy.parse import KEY

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from tests.cluster.kubectl import Kubectl, Object

SECRETS = f"/api/v1/namespaces/{SYSTEM}/secrets"
SECRET = f"{SECRETS}/retry-policy-webhook-certificates"
STATE_KEY = f"{SECRETS}/retry-policy-webhook-state-key"
POLICIES = f"/api/v1/namespaces/{SYSTEM}/configmaps"
POLICY = f"{POLICIES}/{CONFIG_MAP.partition('/')[2]}"
EVENTS = f"/api/v1/namespaces/{SYSTEM}/events"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"


class Installed:
    """The shipped manifests of the base, or of another folder, except that the webhooks are called at a URL."""

    def __init__(self, kubectl: Kubectl, url: str, folder: Path = BASE) -> None:
        self.kubectl = kubectl
        self.url = url
        self.api = Direct(Address.of(kubectl.kubeconfig))
        manifests = built(kubectl, folder)
        others = [manifest for manifest in manifests if "webhooks" not in manifest]
        kubectl.apply({"apiVersion": "v1", "kind": "List", "items": others})
        (self.policy,) = (manifest for manifest in others if manifest["kind"] == "ConfigMap")
        self.configurations = {
            f"{ADMISSION}/{manifest['kind'].lower()}s": called_at(url, manifest)
            for manifest in manifests
            if "webhooks" in manifest
        }

    def answers(self) -> bool:
        """Return True if the API server answers."""
        try:
            self.api.get("/api")
        except (RefusedError, OSError):
            return False
        return True

    def install_anew(self) -> None:
        """Delete the certificates, and create the shipped webhook configurations and policy."""
        self.delete_configurations()
        self.api.delete(SECRET)
        self.api.delete(POLICY)
        self.create_policy()
        self.configure()

    def create_policy(self) -> None:
        """Create the policy's ConfigMap."""
        self.api.create(POLICIES, self.policy)

    def spoil_policy(self) -> None:
        """Store an invalid policy; the webhooks would deny it, so delete them before, and create them again."""
        self.delete_configurations()
        bad = {KEY: self.policy["data"][KEY].replace("limit: 10", "limit: 99")}
        self.api.edit(POLICY, [{"op": "replace", "path": "/data", "value": bad}])
        self.configure()

    def events(self, reason: str, name: str) -> list[str]:
        """Return the messages of the Events with a reason about an object in the server's namespace."""
        found = [one for one in self.api.get(EVENTS)["items"] if one["involvedObject"]["name"] == name]
        return [one["message"] for one in found if one["reason"] == reason]

    @property
    def configuration_paths(self) -> list[str]:
        return [f"{path}/{root['metadata']['name']}" for path, root in self.configurations.items()]

    def configure(self) -> None:
        """Create the webhook configurations, without a caBundle."""
        for path, root in self.configurations.items():
            self.api.create(path, root)

    def delete_configurations(self) -> None:
        """Delete the webhook configurations."""
        for path in self.configuration_paths:
            self.api.delete(path)

    def shared(self) -> store.Shared | None:
        """Return the certificates in the Secret; None if they are missing or cannot be used."""
        secret = self.api.find(SECRET)
        try:
            return None if secret is None else store.from_data(secret["data"])
        except store.UnusableError:
            return None

    def good(self) -> store.Shared:
        """Return the certificates in the Secret; fail if they cannot be used."""
        shared = self.shared()
        assert shared is not None
        return shared

    def put(self, shared: store.Shared) -> None:
        """Store certificates in the existing Secret."""
        self.set_data(store.to_data(shared))

    def set_data(self, data: Mapping[str, str]) -> None:
        """Replace the data of the Secret."""
        self.api.edit(SECRET, [{"op": "replace", "path": "/data", "value": dict(data)}])

    def settled(self, shown: Collection[x509.Certificate] = ()) -> bool:
        """Return True if no rotation is in progress, and caBundles and served certificates are those of the Secret."""
        shared = self.shared()
        if shared is None or shared.next_authority is not None:
            return False
        trusted = certificates(shared.trusted)
        leaf = certificates(shared.leaf.certificate)
        return all(certificates(bundle) == trusted for bundle in self.bundles()) and all({one} == leaf for one in shown)

    def bundles(self) -> list[bytes]:
        """Return the caBundle of every entry of both configurations, as PEM."""
        return [
            base64.b64decode(webhook["clientConfig"].get("caBundle", ""))
            for path in self.configuration_paths
            for webhook in self.api.get(path)["webhooks"]
        ]

    def empty_bundles(self) -> None:
        """Remove every caBundle."""
        for path, root in zip(self.configuration_paths, self.configurations.values(), strict=True):
            places = (f"/webhooks/{index}/clientConfig/caBundle" for index in range(len(root["webhooks"])))
            self.api.edit(path, [{"op": "remove", "path": place} for place in places])


def called_at(url: str, configuration: Object) -> Object:
    """Return a shipped webhook configuration, except that it calls an address on this machine."""
    webhooks = [
        {**webhook, "clientConfig": {"url": url + webhook["clientConfig"]["service"]["path"]}}
        for webhook in configuration["webhooks"]
    ]
    return {**configuration, "webhooks": webhooks}


def certificates(pem: bytes) -> set[x509.Certificate]:
    """Return the certificates of a PEM text."""
    return set(x509.load_pem_x509_certificates(pem)) if pem else set()
