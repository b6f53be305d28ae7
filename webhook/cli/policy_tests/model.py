"""The file with the cases as typed values: each field with its type, default, bounds and meaning."""

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from webhook.cli.offline.next_pod import MOST_ENDS, Ended, meaning

MOST_CASES: Final = 1_000

Number = Annotated[int, Meta(ge=1)]
Attempt = Annotated[int, Meta(ge=0, le=2147483647)]


class Message(Struct, frozen=True, kw_only=True, rename="camel"):
    """A problem or a warning that is expected."""

    path: Annotated[str, meaning("The path of its field, as `check` prints it. Left out: any path.")] = ""
    what: Annotated[str, meaning("A part of its text. Left out: any text.")] = ""


class Expectation(Struct, frozen=True, kw_only=True, rename="camel"):
    """What admission is expected to do with the object of a case."""

    denied: Annotated[
        list[Message], meaning("The problems for which the object is denied: exactly these. Left out: it is admitted.")
    ] = []
    warnings: Annotated[
        list[Message] | None, meaning("The warnings: exactly these; `[]` for none. Left out: they are not compared.")
    ] = None
    fields: Annotated[
        dict[str, Any], meaning("Values in the admitted object, by their path; `null` for a field that is absent.")
    ] = {}
    object: Annotated[dict[str, Any] | None, meaning("The whole admitted object.")] = None
    manifest: Annotated[str | None, meaning("A file with the whole admitted object, in place of `object`.")] = None
    placement: Annotated[
        Literal["Spot", "OnDemand", "None"] | None,
        meaning("The nodes on which the attempt runs. Needs a policy that names a provider."),
    ] = None


class Case(Struct, frozen=True, kw_only=True, rename="camel"):
    """One test: an object, and what is expected of it."""

    name: Annotated[str, meaning("What the case shows, as a sentence.")]
    manifest: Annotated[
        str | None, meaning("A file with the object. Its path, as each in the file, begins at the folder of the file.")
    ] = None
    document: Annotated[Number | None, meaning("The number of the document, from 1, in a manifest with several.")] = (
        None
    )
    object: Annotated[dict[str, Any] | None, meaning("The object itself, in place of `manifest`.")] = None
    profile: Annotated[str | None, meaning("The profile of the object's Namespace. Left out: that of the file.")] = None
    attempt: Annotated[
        Attempt | None,
        meaning(
            "The attempt of a Pod; 0 is the first. A Job with it stands for the pod that its controller creates for "
            "this attempt: `fields`, `object` and `placement` are those of the pod."
        ),
    ] = None
    after: Annotated[
        list[Ended],
        Meta(
            max_length=MOST_ENDS,
            extra={
                "meaning": "How the attempts before the pod ended, the oldest first. A Job with it stands for the pod "
                "that its controller creates next, at 2026-01-01T00:00:00Z."
            },
        ),
    ] = []
    expect: Annotated[Expectation, meaning("What is expected. `{}`: the object is admitted.")]


class Cases(Struct, frozen=True, kw_only=True, rename="camel"):
    """The whole file."""

    api_version: Literal["retry-policy.dev/v1alpha1"]
    kind: Literal["RetryPolicyTest"]
    policy: Annotated[
        str | None, meaning("The policy under test, or the ConfigMap with it. Left out: the packaged policy.")
    ] = None
    profile: Annotated[str, meaning("The profile of all cases that name none.")] = "default"
    cases: Annotated[list[Case], Meta(min_length=1, max_length=MOST_CASES, extra={"meaning": "The tests."})]
