"""The name of a request's object, as its author knows it."""

from typing import Final, NamedTuple

import msgspec

from webhook.admission.review import Request
from webhook.kube.paths import is_name
from webhook.objects.problem import Json, cut
from webhook.objects.shape import Shape, type_of
from webhook.systems import core

MOST: Final = 63  # characters that are shown of an invalid name
MOST_REFERENCES: Final = 16 * 1024  # bytes of ownerReferences that are read


# The fields that are decoded.
METADATA: Final[Shape] = {"name": str, "generateName": str, "ownerReferences": msgspec.Raw}
REFERENCES: Final[Shape] = [{"kind": str, "name": str, "controller": bool}]


class ObjectName(NamedTuple):
    """Kind, namespace and name of an object; as a string `Job team/train`.

    `name` ends with `*` if the API server generates its end. `controller`: for a pod that a controller made, kind and
    name of that controller, such as `Job/train`; else empty. As a string, such a pod is `Pod of Job team/train`.
    """

    kind: str
    namespace: str
    name: str
    controller: str = ""

    def __str__(self) -> str:
        kind, name = self.kind, self.name
        if self.controller:
            owner, _, name = self.controller.partition("/")
            kind = f"{kind} of {owner}"
        return f"{kind} {self.namespace}/{name}" if self.namespace else f"{kind} {name}"

    @property
    def fields(self) -> dict[str, str]:
        """The fields of a log line that name the object."""
        return {field: value for field, value in self._asdict().items() if value}


def object_name(request: Request, body: bytes) -> ObjectName:
    """Return the name of a request's object; `body` are the bytes that the request was read from."""
    kind = request.kind.kind
    metadata = metadata_in(body)
    controller = controller_in(metadata) if kind == core.POD.kind else ""
    # In a request about an existing Namespace, `namespace` is its own name.
    namespace = "" if kind == "Namespace" else shown(request.namespace)
    return ObjectName(kind, namespace, shown(given_name(request, metadata)), controller)


def metadata_in(body: bytes) -> Json:
    """Return the metadata that name the object in an AdmissionReview; empty if a field has a wrong type."""
    try:
        found: Json = decoder.decode(body).get("request") or {}
    except msgspec.DecodeError:
        return {}
    return (found.get("object") or {}).get("metadata") or {}


def controller_in(metadata: Json) -> str:
    """Return kind and name of the controller that made an object, `Job/train`; empty if there is none."""
    references = metadata.get("ownerReferences", b"null")
    if len(memoryview(references)) > MOST_REFERENCES:
        return ""
    try:
        found = references_decoder.decode(references) or ()
    except msgspec.DecodeError:
        return ""
    for one in found:
        kind, name = one.get("kind") or "", one.get("name") or ""
        if one.get("controller") and kind.isalnum() and is_name(name):
            return f"{cut(kind, MOST)}/{name}"
    return ""


def given_name(request: Request, metadata: Json) -> str:
    """Return the name of an object; `train-*` if it is new and the API server generates the end of its name."""
    name, prefix = request.name or metadata.get("name") or "", metadata.get("generateName") or ""
    is_made_up = request.operation == "CREATE" and prefix and name.startswith(prefix)
    return f"{prefix}*" if is_made_up or (prefix and not name) else name


def shown(name: str) -> str:
    """Return a name; an invalid one is quoted and cut, because the API server refuses it only after admission."""
    return name if not name or is_name(name.replace("*", "x")) else ascii(cut(name, MOST))


decoder = msgspec.json.Decoder(type_of({"request": {"object": {"metadata": METADATA}}}))
references_decoder = msgspec.json.Decoder(type_of(REFERENCES) | None)
