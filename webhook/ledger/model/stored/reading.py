"""The account of a workload, from its Account as the API has it. Pure."""

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from webhook.ledger.model.account import Account
from webhook.ledger.model.stored import status
from webhook.objects.left_out import UnfitError
from webhook.objects.problem import Json
from webhook.systems import account_object as account
from webhook.systems import retry_history
from webhook.systems.kind_spec import KindSpec


def is_account(found: Json) -> bool:
    """Return True if an object is an Account."""
    api_version = found.get("apiVersion")
    of_ours = isinstance(api_version, str) and api_version.partition("/")[0] == account.ACCOUNT.group
    return of_ours and found.get("kind") == account.ACCOUNT.kind


def account_of(row: KindSpec, root: Json, found: Iterable[Json]) -> Account:
    """Return the account of a workload by its Account among some objects; an empty one if it has none.

    Raise UnfitError if its status cannot be read.
    """
    of_it = (one for one in found if is_account(one) and account.is_of(one, row, root))
    try:
        return account_in(next(of_it, None), root)
    except ValueError as error:
        remedy = "a new one starts when the next attempt ends"
        raise UnfitError(f"its account cannot be read: {error}; {remedy}") from None


def account_in(found: Json | None, root: Json) -> Account:
    """Return the account of a workload, given its Account; an empty one without. Raise ValueError if it is malformed.

    After a requested retry the budgets have begun anew.
    """
    if found is None or found.get("status") is None:
        return Account()
    text = status.encode(status.decode(msgspec.json.encode(found["status"])))
    return status.decode(begun(text, retry_history.last_at(root)))


@lru_cache(maxsize=status.MOST_DECODED)
def begun(text: str, requested_at: str) -> str:
    """Return the text of an account as it is after the last requested retry; `requested_at`: its time, empty without.

    The account says for which retry its budgets have begun anew, so that they do once for each.
    """
    known = status.known_time(requested_at)
    if not text or not known:
        return text
    found = status.decode(text)
    if found.requested_at == known:
        return text
    found.begin_anew(known)
    return status.encode(found)
