"""What the API has of the webhook's certificate: the Secret that both programs read, and who trusts it."""

import asyncio
from collections.abc import Callable
from typing import Final

from certs import bundle
from webhook.kube.client import Api
from webhook.kube.informer import Informer
from webhook.kube.paths import path_of
from webhook.objects.problem import Json

SECRET: Final = "retry-policy-webhook-certificates"  # noqa: S105 - a name
CONFIGURATIONS: Final = "retry-policy-webhook"  # the name of both webhook configurations
ADMISSION: Final = "admissionregistration.k8s.io/v1"


class CABundles:
    """The caBundles of the webhook configurations: the authorities that the API server trusts when it calls.

    A configuration that does not exist calls no webhook, so it is left out.
    """

    def __init__(self, api: Api) -> None:
        query = {"fieldSelector": f"metadata.name={CONFIGURATIONS}"}
        self.lists = [
            Informer(api, path_of(ADMISSION, resource), _whole, query=query)
            for resource in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
        ]

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for watched in self.lists:
                group.create_task(watched.run())

    def on_change(self, changed: Callable[[], None]) -> None:
        """Call a function after every change."""
        for watched in self.lists:
            watched.on_change(changed)

    @property
    def synced(self) -> bool:
        """Whether both configurations have been read once."""
        return all(watched.synced.is_set() for watched in self.lists)

    @property
    def live(self) -> bool:
        """Whether both configurations are watched now."""
        return all(watched.live for watched in self.lists)

    @property
    def configurations(self) -> dict[str, Json]:
        """The configurations that exist, by path."""
        return {
            f"{watched.path}/{CONFIGURATIONS}": configuration
            for watched in self.lists
            for configuration in watched.items.values()
        }

    def trusts(self, chain: bytes) -> bool:
        """Return True if every caBundle has an authority that signed `chain` (PEM), which may be an authority itself.

        False until both configurations have been read.
        """
        return self.synced and bundle.trust(self.configurations.values(), chain)


def secrets_of(api: Api, namespace: str) -> Informer[Json]:
    """Return the informer of the Secret with the certificate."""
    query = {"fieldSelector": f"metadata.name={SECRET}"}
    return Informer(api, path_of("v1", "secrets", namespace), _whole, query=query)


def _whole(root: Json) -> Json:
    return root
