"""AdmissionReview: bytes to Request, Response to bytes."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, Literal

import msgspec

from webhook.objects import bounds
from webhook.objects.problem import Path, Problem, cut

# Characters of one warning, and of all warnings of one answer. Once the warnings of a request have more than 4096, the
# API server cuts each to 256, and passes no others on (endpoints/filters/warning.go in k8s.io/apiserver). An object has
# answers of /mutate and of /validate.
WARNING_LENGTH: Final = 256
WARNINGS_LENGTH: Final = 2048
PROBLEM_LENGTH: Final = 120  # characters of a warning that the name of the object may not use
TOO_DEEP: Final = "the body is nested too deeply; send an AdmissionReview of a Kubernetes object"
SEARCHED: Final = 1024 * 1024  # bytes that are searched for the path of a number
IN_RANGE: Final = "an integer of at most 64 bits, or a float of 64 bits"


class BadReviewError(Exception):
    """The bytes are not an AdmissionReview of admission.k8s.io/v1 with a uid: HTTP 400."""


class UnreadableError(Exception):
    """An object is JSON, but the rules cannot read it; `problem` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class GroupVersionKind(msgspec.Struct, frozen=True):
    """A kind as the API server names it; the core group is the empty string."""

    kind: str
    group: str = ""
    version: str = ""


class Request(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The request of an AdmissionReview.

    `object` (null on DELETE) and `old_object` are encoded JSON. Each call of `decode_value` returns a new value, which
    its caller may edit.
    """

    uid: str
    kind: GroupVersionKind
    operation: Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
    namespace: str = ""
    name: str = ""
    sub_resource: str = ""
    dry_run: bool | None = False
    object: msgspec.Raw = msgspec.Raw(b"null")
    old_object: msgspec.Raw = msgspec.Raw(b"null")


class Review(msgspec.Struct, frozen=True, rename="camel"):
    """The envelope of an admission request."""

    api_version: str
    kind: str
    request: Request


class Response(msgspec.Struct, kw_only=True):
    """The response to one request.

    - `patch`: an encoded JSON Patch document; empty for none.
    - `found`: the problems that deny the request with code 422, each with the name of its rule. `warnings`: shown to
      the user in any case. `audit`: audit annotations.
    - `name`: the object's name in messages and warnings. `message`: the profile's own text, which ends them. Both may
      be empty.
    - In the modes Warn and Audit: `would_deny`, the problems for which Enforce would deny the request; `would_change`,
      the edits that Enforce would make, except those of the metadata. Each has the name of its rule.
    - `warned`: the warnings of rules, each with the name of its rule; `warnings` has them, maybe shortened.
    - For metrics: `edited`, the rule of each edit that was made, or that Enforce would make; `placement` of a pod;
      `growths`, what has held back the memory of each container that should get more, Grown if nothing has;
      `unknown_profile`, whether the policy lacks the namespace's profile.
    """

    patch: bytes = b""
    found: list[tuple[str, Problem]] = msgspec.field(default_factory=list)
    warnings: list[Problem] = msgspec.field(default_factory=list)
    warned: list[tuple[str, Problem]] = msgspec.field(default_factory=list)
    name: str = ""
    message: str = ""
    audit: dict[str, str] = msgspec.field(default_factory=dict)
    edited: list[str] = msgspec.field(default_factory=list)
    would_deny: list[tuple[str, Problem]] = msgspec.field(default_factory=list)
    would_change: list[tuple[str, Problem]] = msgspec.field(default_factory=list)
    placement: str = ""
    growths: tuple[str, ...] = ()
    unknown_profile: bool = False

    @property
    def problems(self) -> list[Problem]:
        """The problems that deny the request, without their rules."""
        return [problem for _, problem in self.found]


def decode(body: bytes, reader: msgspec.json.Decoder[Review] | None = None) -> Request:
    """Return the request in an AdmissionReview; raise BadReviewError, which says what is wrong.

    `reader`: a decoder that also decodes fields of the object; None for one that leaves the object encoded.
    """
    try:
        if not body.isascii():
            body.decode()  # msgspec does not check strings that it skips
        review = (reader or decoder).decode(body)
    except UnicodeDecodeError as error:
        raise BadReviewError(f"the body is not UTF-8 (byte {error.start}); send JSON in UTF-8") from None
    except RecursionError:
        raise BadReviewError(TOO_DEEP) from None
    except msgspec.DecodeError as error:  # its subclass ValidationError names the field
        raise BadReviewError(f"the body is not an AdmissionReview: {error}; send one of admission.k8s.io/v1") from None
    if review.api_version != "admission.k8s.io/v1" or review.kind != "AdmissionReview":
        what = f"{review.api_version} {review.kind}"
        raise BadReviewError(f"the body is {what[:100]!r}; send an AdmissionReview of admission.k8s.io/v1")
    if not review.request.uid:
        raise BadReviewError("request.uid is empty; set it, as the API server does")
    return review.request


def decode_value(value: msgspec.Raw) -> Any:
    """Return the decoded value; raise BadReviewError if it is nested too deeply, UnreadableError for other reasons."""
    if has_too_many_parts(value):
        what = f"has more than {bounds.MOST_PARTS} objects and lists"
        raise UnreadableError(Problem((), what, "split it into several objects"))
    try:
        return msgspec.json.decode(value)
    except RecursionError:
        raise BadReviewError(TOO_DEEP) from None
    except msgspec.ValidationError:
        path = path_of_number(value)
        raise UnreadableError(
            Problem(path, "is or contains a number that is out of range", f"must be {IN_RANGE}")
        ) from None


def has_too_many_parts(value: msgspec.Raw | bytes) -> bool:
    """Return True if a JSON text has more than MOST_PARTS objects and lists; brackets in strings count too."""
    if len(memoryview(value)) <= bounds.MOST_PARTS:
        return False
    text = bytes(value)
    return text.count(b"{") + text.count(b"[") > bounds.MOST_PARTS


def path_of_number(value: msgspec.Raw) -> Path:
    """Return the path of a number that is out of range; in a large object perhaps only the beginning of the path."""
    path: Path = ()
    left = SEARCHED
    while left > 0:
        left -= len(memoryview(value))
        found = next((part for part in parts_of(value) if left > 0 and is_out_of_range(part[1])), None)
        if found is None:
            break
        path, value = (*path, found[0]), found[1]
    return path


_members_of: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_entries_of: Final = msgspec.json.Decoder(list[msgspec.Raw])


def parts_of(value: msgspec.Raw) -> Iterator[tuple[str | int, msgspec.Raw]]:
    """Yield the key or index and the encoded value of each entry of an object or a list."""
    with suppress(msgspec.ValidationError):
        yield from _members_of.decode(value).items()
    with suppress(msgspec.ValidationError):
        yield from enumerate(_entries_of.decode(value))


def is_out_of_range(value: msgspec.Raw) -> bool:
    """Return True if a value is or contains a number that is out of range."""
    try:
        msgspec.json.decode(value)
    except msgspec.ValidationError:
        return True
    return False


def encode(uid: str, response: Response) -> bytes:
    """Return the encoded AdmissionReview with the response to the request `uid`."""
    answer: dict[str, Any] = {"uid": uid, "allowed": not response.found}
    if response.found:
        answer["status"] = {"code": 422, "reason": "Invalid", "message": message_of(response)}
    elif response.patch:
        answer["patchType"] = "JSONPatch"
        answer["patch"] = response.patch  # bytes are written in base64
    if response.audit:
        answer["auditAnnotations"] = response.audit
    if response.warnings:
        answer["warnings"] = fit_warnings(response)
    return encoder.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer})


def message_of(response: Response) -> str:
    """Return the message of a denial: the object's name, the first problems, and the profile's message."""
    problems = response.problems
    lines: list[str] = []
    left = bounds.MAX_MESSAGE
    for problem in problems[: bounds.LISTED_PROBLEMS]:
        line = str(problem)
        left -= len(line)
        if left < 0:
            break
        lines.append(line)
    more = len(problems) - len(lines)
    if more:
        lines.append(f"and {more} more")
    if response.message:
        lines.append(response.message)
    return about(response.name) + "\n".join(lines)


def fit_warnings(response: Response) -> list[str]:
    """Return as many warnings as the API server passes on, the number of the others, and the profile's message.

    Each warning names the object. The profile's message does not, so that kubectl prints it only once for all objects
    of a manifest. It names its sender instead: if both /mutate and /validate warn about an object, the API server
    passes it on once, after the warnings of /mutate, so it may stand between two warnings.
    """
    message = f"From your cluster admin: {response.message}" if response.message else ""
    start = about(cut(response.name, WARNING_LENGTH - PROBLEM_LENGTH - len(": ")))
    texts: list[str] = []
    left = WARNINGS_LENGTH - len(message) - WARNING_LENGTH  # room for the number of the others
    for warning in response.warnings:
        text = cut(" ".join(f"{start}{warning}".split()), WARNING_LENGTH)
        left -= len(text)
        if left < 0:
            texts.append(f"{start}and {len(response.warnings) - len(texts)} more warnings")
            break
        texts.append(text)
    if message and not response.found:  # a denial says it already
        texts.append(message)
    return texts


def about(name: str) -> str:
    """Return the beginning of a text about an object."""
    return f"{name}: " if name else ""


decoder = msgspec.json.Decoder(Review)
encoder = msgspec.json.Encoder()
