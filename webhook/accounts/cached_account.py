"""What is cached of Accounts."""

import zlib
from typing import Final, NewType

import msgspec

from webhook.accounts import stored
from webhook.accounts.account import Account, AccountCondition, Attempt, Left
from webhook.accounts.tracker import Key
from webhook.history.usage import UsedRow
from webhook.objects.problem import Json
from webhook.objects.shape import Shape
from webhook.pods.pods import LONGEST_NAME, cut
from webhook.policy.applied import applied
from webhook.policy.model import Profile
from webhook.systems.accounts import SYSTEMS
from webhook.systems.kind_spec import KindSpec

# An Account as it is cached. `metadata`: namespace, name, uid, resourceVersion, creationTimestamp and the uids of
# ownerReferences; `spec`; `text`: its status as `stored.encode` writes it, empty if it cannot be read.
CachedAccount = NewType("CachedAccount", Json)

KEPT: Final = ("namespace", "name", "uid", "resourceVersion", "creationTimestamp")
ACCOUNT_READ: Final[dict[str, Shape]] = {
    "metadata": {**dict.fromkeys(KEPT, str), "ownerReferences": [{"uid": str}]},
    "spec": dict.fromkeys(("apiVersion", "kind", "name", "uid"), str),
    "status": msgspec.Raw,
}
MOST_OWNERS: Final = 10
TIME: Final = "2026-01-01T00:00:00Z"
USUAL_ACCOUNT: Final = Account(
    ended=2,
    cost={"retry": 1, "disruption": 1},
    causes={"ExitCode": {"main 1": 1}, "Disruption": {"TerminationByKubelet": 1, "EvictionByEvictionAPI": 1}},
    spot=2,
    left=Left(retries=0, disruptions=3),
    applied=applied(Profile()),
    last=[
        Attempt(
            attempt=number,
            pod="",
            node="",
            placement="Spot",
            start=TIME,
            end=TIME,
            cause="ExitCode",
            reason="main 1",
            cost="retry",
            left=Left(retries=0, disruptions=3),
            message="Error: ",
        )
        for number in range(2)
    ],
    recent=[""],
    resources=["cpu", "memory"],
    lost={
        "ExitCode": {"Spot": UsedRow(1, 1.0, 0, 0.0, [1.0, 1.0])},
        "Disruption": {"Spot": UsedRow(1, 1.0, 0, 0.0, [1.0])},
    },
    conditions=[
        AccountCondition(
            type="RetriesExhausted", status="True", last_transition_time=TIME, reason="BackoffLimitExceeded"
        )
    ],
)
# What most Accounts contain, with which they are compressed: the names of their fields as they follow each other.
USUAL: Final = (
    b'{"metadata":{"namespace":"","name":"job--","uid":"","resourceVersion":"","creationTimestamp":"2026-01-01T00:00:00Z",'
    b'"ownerReferences":[{"uid":""}]},"spec":{"apiVersion":"batch/v1","kind":"Job","name":"","uid":""},"text":"'
    + stored.encode(USUAL_ACCOUNT).replace('"', '\\"').encode()
    + b'"}'
)
# The kinds whose objects have Accounts, by group and kind.
COUNTED: Final = {(kind.group, kind.kind): kind for kind in SYSTEMS}


def trimmed_account(root: Json) -> CachedAccount:
    """Return an Account, decoded as ACCOUNT_READ."""
    metadata = root["metadata"]
    kept = {key: metadata.get(key) or "" for key in KEPT}
    owners = [
        {"uid": cut(one.get("uid"), LONGEST_NAME)} for one in (metadata.get("ownerReferences") or ())[:MOST_OWNERS]
    ]
    spec = {key: cut(value, LONGEST_NAME) for key, value in (root.get("spec") or {}).items()}
    return CachedAccount(
        {"metadata": {**kept, "ownerReferences": owners}, "spec": spec, "text": _text_of(root.get("status"))}
    )


def _text_of(status: msgspec.Raw | None) -> str:
    """Return a stored status as `stored.encode` writes it; empty if there is none that can be read."""
    try:
        return "" if status is None else stored.encode(stored.decode(status))
    except ValueError:
        return ""


def compressed(found: CachedAccount) -> tuple[bytes, ...]:
    """Return the JSON of an Account, compressed, in one piece: nothing long is equal in two of them."""
    packer = zlib.compressobj(level=zlib.Z_BEST_SPEED, wbits=-zlib.MAX_WBITS, zdict=USUAL)
    return (packer.compress(msgspec.json.encode(found)) + packer.flush(),)


def whole(pieces: tuple[bytes, ...]) -> bytes:
    """Return the JSON of an Account that `compressed` has returned."""
    return zlib.decompressobj(wbits=-zlib.MAX_WBITS, zdict=USUAL).decompress(pieces[0])


def key_of_account(found: CachedAccount) -> Key | None:
    """Return the workload that an Account is about; None if its kind has no Accounts."""
    spec = found["spec"]
    kind = _row_of(found)
    return None if kind is None else Key(found["metadata"]["namespace"], kind, spec.get("name") or "")


def _row_of(found: Json) -> KindSpec | None:
    spec = found.get("spec") or {}
    return COUNTED.get(((spec.get("apiVersion") or "").rpartition("/")[0], spec.get("kind") or ""))
