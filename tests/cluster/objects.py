"""Reads from objects: conditions, exit codes, the webhook's annotations, the account."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec

from webhook.accounts.account import Account
from webhook.accounts.stored import decode
from webhook.kube import names

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kubectl import Object

ACCOUNT: Final = "account"  # the key of a workload under which `Namespace` adds its Account


def condition(found: Object, kind: str) -> Object:
    """Return the object's condition of that type if its status is "True", else an empty one."""
    for one in found.get("status", {}).get("conditions", []):
        if one["type"] == kind and one["status"] == "True":
            return dict(one)
    return {}


def has_failed(found: Object) -> bool:
    return bool(condition(found, "Failed"))


def phase(pod: Object) -> str:
    return str(pod["status"]["phase"])


def is_running(pod: Object) -> bool:
    return phase(pod) == "Running" and "deletionTimestamp" not in pod["metadata"]


def exit_codes(pod: Object) -> dict[str, int]:
    """Return the exit code of each container that has ended, by its name."""
    statuses = pod["status"].get("containerStatuses", [])
    return {one["name"]: one["state"]["terminated"]["exitCode"] for one in statuses if "terminated" in one["state"]}


def required(pod: Object) -> list[Object]:
    """Return the terms of a pod's required node affinity."""
    affinity = pod["spec"]["affinity"]["nodeAffinity"]
    return list(affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"])


def noted(pod: Object) -> dict[str, str]:
    """Return the annotations with the placement and the attempt of a pod, by their names without the prefix."""
    annotations = pod["metadata"]["annotations"]
    keys = (names.PLACEMENT, names.ATTEMPT, names.MAX_RETRIES, names.ATTEMPT_SOURCE)
    return {key.removeprefix(names.PREFIX): annotations[key] for key in keys}


def disruptions(pod: Object) -> str | None:
    """Return the disruptions that had been counted when a pod was created."""
    found: str | None = pod["metadata"]["annotations"].get(names.DISRUPTIONS)
    return found


def restarts(found: Object) -> tuple[int, int]:
    """Return the restarts of a JobSet, and those of them that count towards maxRestarts."""
    status = found.get("status", {})
    return status.get("restarts", 0), status.get("restartsCountTowardsMax", 0)


class Accounts:
    """The Accounts of a namespace, which are read once one is asked for."""

    def __init__(self, read: Callable[[], Object]) -> None:
        self._read = read
        self.were_read = False

    @cached_property
    def by_uid(self) -> dict[str, Object]:
        """The Accounts by the uids of their workloads."""
        self.were_read = True
        return {one["spec"]["uid"]: one for one in self._read()["items"]}


def account_in(found: Object) -> list[Object]:
    """Return the Account of a workload that `Namespace` has read; empty if it has none yet."""
    stored = found.get(ACCOUNT)
    if isinstance(stored, Accounts):
        stored = stored.by_uid.get(found["metadata"]["uid"])
    return [] if stored is None else [stored]


def account(found: Object) -> Object:
    """Return what is not empty of the account of a workload that `Namespace` has read, or in an Account."""
    (stored,) = [found] if found.get("kind") == "Account" else account_in(found) or [{}]
    if "status" not in stored:
        return {}
    read = decode(json.dumps(stored["status"]))
    fields = {name: getattr(read, name) for name in Account.__struct_fields__}
    by_scope = {name: getattr(read, name) for name in ("free", "retries", "work", "reached")}
    for name, scopes in {"units": read.scopes, **by_scope}.items():
        fields[name] = {} if scopes is None else {str(number): text for number, text in scopes.written()}
    known: Object = msgspec.to_builtins({name: one for name, one in fields.items() if name != "scopes"})
    known["inPlace"] = known.pop("in_place")
    return {name: one for name, one in known.items() if one}


def ended(found: Object, number: int) -> bool:
    """Return True if the account has counted at least this number of ended pods."""
    return bool(account(found).get("ended", 0) >= number)


def last(found: Object) -> list[tuple[str, str, str]]:
    """Return cause, reason and cost of the last attempts in the account."""
    return [(one["cause"], one.get("reason", ""), one["cost"]) for one in account(found)["last"]]
