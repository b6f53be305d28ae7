"""The name of a request's object, as its author knows it."""

from typing import Final, NamedTuple

import msgspec

from webhook.admission.review import Request
from webhook.kube.paths import is_name
from webhook.objects.problem import cut
from webhook.systems import core

MOST: Final = 63  # characters that are shown of an invalid name
MOST_REFERENCES: Final = 16 * 1024  # bytes of ownerReferences that are read


class Reference(msgspec.Struct, frozen=True):
    """An entry of metadata.ownerReferences."""

    kind: str = ""
    name: str = ""
    controller: bool = False


class MetadataWithName(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of an object's metadata that name it."""

    name: str = ""
    generate_name: str = ""
    owner_references: msgspec.Raw = msgspec.Raw(b"null")


class Object(msgspec.Struct, frozen=True):
    """An object, of which only the name is read."""

    metadata: MetadataWithName | None = None


class Content(msgspec.Struct, frozen=True):
    """The request of an AdmissionReview, of which only the object's name is read."""

    object: Object | None = None


class ReviewWithName(msgspec.Struct, frozen=True):
    """An AdmissionReview, of which only the object's name is read."""

    request: Content


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


def metadata_in(body: bytes) -> MetadataWithName:
    """Return the metadata that name the object in an AdmissionReview; empty if a field has a wrong type."""
    try:
        found = decoder.decode(body).request.object
    except msgspec.DecodeError:
        return MetadataWithName()
    return MetadataWithName() if found is None or found.metadata is None else found.metadata


def controller_in(metadata: MetadataWithName) -> str:
    """Return kind and name of the controller that made an object, `Job/train`; empty if there is none."""
    if len(memoryview(metadata.owner_references)) > MOST_REFERENCES:
        return ""
    try:
        references = references_decoder.decode(metadata.owner_references) or ()
    except msgspec.DecodeError:
        return ""
    for one in references:
        if one.controller and one.kind.isalnum() and is_name(one.name):
            return f"{cut(one.kind, MOST)}/{one.name}"
    return ""


def given_name(request: Request, metadata: MetadataWithName) -> str:
    """Return the name of an object; `train-*` if it is new and the API server generates the end of its name."""
    name, prefix = request.name or metadata.name, metadata.generate_name
    is_made_up = request.operation == "CREATE" and prefix and name.startswith(prefix)
    return f"{prefix}*" if is_made_up or (prefix and not name) else name


def shown(name: str) -> str:
    """Return a name; an invalid one is quoted and cut, because the API server refuses it only after admission."""
    return name if not name or is_name(name.replace("*", "x")) else ascii(cut(name, MOST))


decoder = msgspec.json.Decoder(ReviewWithName)
references_decoder = msgspec.json.Decoder(tuple[Reference, ...] | None)
