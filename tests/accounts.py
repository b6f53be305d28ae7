"""Makes Accounts as the API has them."""

from typing import Any, Final

import msgspec

from webhook.accounts.account import Account
from webhook.accounts.stored import encode
from webhook.objects.problem import Json
from webhook.systems import account_object as account
from webhook.systems.kind_spec import KindSpec

METADATA: Final = {"uid": "account-uid", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"}


def stored(kind: KindSpec, root: Json, found: Account | str | None = None, **metadata: Any) -> Json:
    """Return the Account of a workload with an account, or with this text as its status; without a status for None."""
    made = account.new(kind, {**root, "metadata": {"namespace": "ml", "uid": "", **root["metadata"]}})
    made["metadata"] |= METADATA | metadata
    if found is not None:
        made["status"] = (
            msgspec.json.decode(encode(found)) if isinstance(found, Account) else msgspec.Raw(found.encode())
        )
    return made


HELD: Final = "account"  # a key of a workload in tests: its Account, which its functions take apart from it


def holding(kind: KindSpec, root: Json, found: Account | Json | None) -> Json:
    """Return a workload that holds its Account, if it has one; a Json is the status."""
    if found is None:
        return root
    made = stored(kind, root, found if isinstance(found, Account) else None)
    return {**root, HELD: made if isinstance(found, Account) else {**made, "status": found}}


def held(*roots: Json) -> list[Json]:
    """Return the Accounts that workloads hold."""
    return [root[HELD] for root in roots if HELD in root]


def apart(*objects: Json) -> list[Json]:
    """Return objects as the API has them: without the Accounts that they hold, and these."""
    return [*({key: value for key, value in one.items() if key != HELD} for one in objects), *held(*objects)]


def status_from(**fields: Any) -> Json:
    """Return a status with what an account says; `left`: as `Left`, `units`: disruptions as text by their number."""
    left, units = fields.pop("left", None), fields.pop("units", {})
    causes = fields.pop("causes", {})
    found: Json = {
        "attempts": fields.get("ended", 0),
        "retries": {"spent": 0, **({"left": left["retries"]} if left else {})},
        "disruptions": {"spent": 0, **({"left": left["disruptions"]} if left else {})},
        "lost": {"seconds": 0.0},
        "costs": fields.pop("cost", {}),
        "causes": [
            {"cause": cause, "reason": reason, "attempts": number}
            for cause, reasons in causes.items()
            for reason, number in reasons.items()
        ],
        "scopes": {"groups": [{"number": int(number), "scopes": text} for number, text in units.items()]},
        **fields,
    }
    if "evictions" in found:
        counts = [{"reason": reason, "number": number} for reason, number in found["evictions"]["reasons"].items()]
        found["evictions"] = {**found["evictions"], "reasons": counts}
    return found
