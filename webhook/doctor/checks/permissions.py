"""Checks the permissions of the two programs, and the admission policies that limit them. Pure."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from webhook.doctor.finding import Diagnosis, ok, problem, warning
from webhook.doctor.shipped import BINDING, CONTROLLER, LEDGER, NAME, POLICY, NeededRight, normal, shipped_in
from webhook.doctor.snapshot import Snapshot
from webhook.objects.patch import at
from webhook.objects.problem import Json, listed

DENY: Final = ["Deny"]


def check(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yield which permissions and admission policies are missing."""
    yield from _rights(snapshot)
    yield from _policies(snapshot)


def _rights(snapshot: Snapshot) -> Iterator[Diagnosis]:
    lacking = snapshot.missing_rights
    if lacking is None:
        return
    installed = snapshot.installed
    roles: dict[tuple[str, str], list[NeededRight]] = defaultdict(list)
    for one in lacking:
        roles[one.account, one.role].append(one)
    for (account, role), found in roles.items():
        where = f"ServiceAccount {installed.namespace}/{account}"
        what = f"lacks permissions of the role {role}: {listed(_by_resource(found))}"
        if role == LEDGER:
            without = "without all of them no disruption is counted or limited"
            say = warning if _is_left_out(snapshot) else problem
            yield say(where, f"{what}; {without}", installed.apply)
        else:
            yield problem(where, what, installed.apply)
    if not lacking:
        where = f"ServiceAccounts {NAME} and {CONTROLLER}"
        yield ok(where, f"have the {len(installed.rights)} permissions that their options need")


def _is_left_out(snapshot: Snapshot) -> bool:
    """Return True if the roles of the ledger are left out on purpose: then no replica has ever led."""
    never_led = any(one.name == LEDGER and one.lease is None for one in snapshot.leases or ())
    wanted = {one for one in snapshot.installed.rights if one.role == LEDGER}
    return never_led and wanted <= {*(snapshot.missing_rights or ())}


def _by_resource(found: list[NeededRight]) -> list[str]:
    verbs: dict[NeededRight, list[str]] = {}
    for one in found:
        verbs.setdefault(one._replace(verb=""), []).append(one.verb)
    return [str(right._replace(verb="/".join(names))) for right, names in verbs.items()]


def _policies(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yield a warning for the shipped admission policies that are missing, changed or not bound."""
    if snapshot.admission_policies is None or snapshot.admission_bindings is None:
        return
    installed = snapshot.installed
    wanted = shipped_in(installed.namespace, requested_retries=installed.requested_retries)
    names = wanted.names(POLICY)
    there = {one["metadata"]["name"]: one for one in snapshot.admission_policies}
    bound = {at(one, ("spec", "policyName")) for one in snapshot.admission_bindings if _denies(one)}
    absent = [name for name in names if name not in there]
    unbound = [name for name in names if name in there and name not in bound]
    shipped = {name: normal(wanted.find(POLICY, name)["spec"]) for name in names}
    other = [name for name in names if name in there and normal(there[name].get("spec")) != shipped[name]]
    for found, what in (
        (absent, "do not exist, so they do not limit what the controller, or a thief of its token, may write"),
        (unbound, f"have no {BINDING} that denies, so they limit nothing"),
        (other, f"differ from what version {snapshot.version} ships"),
    ):
        if found:
            yield warning("ValidatingAdmissionPolicies", f"{listed(found)}: {what}", installed.apply)
    if not (absent or unbound or other):
        yield ok("ValidatingAdmissionPolicies", f"{len(names)} policies limit the controller, as shipped")


def _denies(binding: Json) -> bool:
    """Return True if a binding denies everywhere what its policy does not allow."""
    spec = binding.get("spec") or {}
    return spec.get("validationActions") == DENY and not spec.get("matchResources")
