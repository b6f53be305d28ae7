"""The key of what pods carry, in a Secret: the controller makes it, both programs read it."""

import base64
import binascii
import secrets
from http import HTTPStatus
from typing import Final

from webhook.kube.bulkhead import repeat
from webhook.kube.client import Api, ApiError
from webhook.kube.informer import Informer
from webhook.kube.names import COMPONENT, OF_INSTALLATION, PREFIX
from webhook.kube.paths import path_of
from webhook.kube.state_key import SIZE, StateKey
from webhook.objects.problem import Json

SECRET: Final = f"{COMPONENT}-state-key"
TYPE: Final = f"{PREFIX}state-key"
FIELD: Final = "key"  # of the Secret's data
EVERY: Final = 1.0  # seconds between two looks


class SharedStateKey(StateKey):
    """The key of an installation; until the Secret was read, one that proves nothing to other processes.

    A Secret that is deleted stays in use until there is another one.
    """

    def __init__(self, api: Api, namespace: str) -> None:
        super().__init__(secrets.token_bytes(SIZE))
        self.api = api
        self.namespace = namespace
        self.list_path = path_of("v1", "secrets", namespace)
        query = {"fieldSelector": f"metadata.name={SECRET}"}
        self.secrets = Informer(api, self.list_path, key_in, query=query, name="state-key-secrets")
        self.secrets.on_change(self.take)

    @property
    def stored(self) -> bytes | None:
        """The key in the Secret; empty if that has none, None if there is no Secret."""
        return self.secrets.get(self.namespace, SECRET)

    @property
    def trouble(self) -> str | None:
        """Why no proof holds between the programs; None if they share a key."""
        if self.stored:
            return None
        name = f"the Secret {self.namespace}/{SECRET}"
        return f"{name} does not exist yet" if self.stored is None else f"{name} has no key of {SIZE} bytes; delete it"

    def take(self) -> None:
        """Use the key in the Secret, if it has one."""
        self.key = self.stored or self.key

    async def keep(self) -> None:
        """Create the Secret whenever there is none, until cancelled."""
        await repeat("store the state key", EVERY, self.store)

    async def store(self) -> None:
        """Create the Secret if there is none; do nothing if another replica was faster. Raise what `Api` raises."""
        if not self.secrets.synced.is_set() or self.stored is not None:
            return
        try:
            await self.api.create(self.list_path, secret_of(secrets.token_bytes(SIZE)))
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise


def secret_of(key: bytes) -> Json:
    """Return the Secret with a key of SIZE bytes."""
    data = {FIELD: base64.b64encode(key).decode()}
    metadata = {"name": SECRET, "labels": OF_INSTALLATION}
    return {"apiVersion": "v1", "kind": "Secret", "type": TYPE, "immutable": True, "metadata": metadata, "data": data}


def key_in(secret: Json) -> bytes:
    """Return the key in a Secret; empty if there is none of SIZE bytes."""
    try:
        key = base64.b64decode((secret.get("data") or {}).get(FIELD) or "", validate=True)
    except binascii.Error:
        return b""
    return key if len(key) == SIZE else b""
