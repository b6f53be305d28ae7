"""Proves what the two programs have written on pods: an author may write the same keys, and admission may see no pod.

A proof is a keyed BLAKE2b (RFC 7693) of a pod's namespace and controller, and of the values. Only the two programs can
read the key, so a value whose proof does not hold counts as absent. A pod of the same controller may carry a copied
proof; what it proves was true of that controller's pods.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

import msgspec

from webhook.kube.names import PROOF, PROVEN

SIZE: Final = 32  # bytes of a key
PROOF_SIZE: Final = 16  # bytes of a proof, which is written as hexadecimal digits

encode: Final = msgspec.json.Encoder().encode


class StateKey:
    """The key of an installation; `key` has SIZE bytes."""

    def __init__(self, key: bytes) -> None:
        self.key = key

    def proof_of_state(self, namespace: str, controller_uid: str, annotations: Mapping[str, str]) -> str:
        """Return the proof of those of a pod's annotations that PROVEN names; the uid is empty without a controller."""
        return self.proof_of([namespace, controller_uid, *map(annotations.get, PROVEN)])

    def proves_state(self, namespace: str, controller_uid: str, annotations: Mapping[str, str]) -> bool:
        """Return True if a pod's annotations have the proof of their own state."""
        proof = annotations.get(PROOF)
        return proof is not None and proof == self.proof_of_state(namespace, controller_uid, annotations)

    def mark(self, pod_uid: str, counted: str) -> str:
        """Return the annotation `counted` of one pod, with its proof; `counted`: what is counted of it."""
        return f"{counted} {self.proof_of([pod_uid, counted])}"

    def counted(self, pod_uid: str, mark: str) -> str:
        """Return what is counted of a pod by its annotation `counted`; empty if the annotation has no valid proof."""
        counted, _, _ = mark.rpartition(" ")
        return counted if mark == self.mark(pod_uid, counted) else ""

    def proof_of(self, values: list[str | None]) -> str:
        """Return the proof of values, as hexadecimal digits."""
        return blake2b(encode(values), key=self.key, digest_size=PROOF_SIZE).hexdigest()
