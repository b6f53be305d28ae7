"""Makes Accounts as the API has them."""

from typing import Any, Final

import msgspec

from webhook.kinds import KindSpec, account
from webhook.ledger.model.account import Account
from webhook.ledger.model.status import encode
from webhook.objects.problem import Json

METADATA: Final = {"uid": "account-uid", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"}


def stored(row: KindSpec, root: Json, found: Account | str | None = None, **metadata: Any) -> Json:
    """Return the Account of a workload with an account, or with this text as its status; without a status for None."""
    made = account.new(row, {**root, "metadata": {"namespace": "ml", "uid": "", **root["metadata"]}})
    made["metadata"] |= METADATA | metadata
    if found is not None:
        made["status"] = (
            msgspec.json.decode(encode(found)) if isinstance(found, Account) else msgspec.Raw(found.encode())
        )
    return made
