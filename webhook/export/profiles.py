"""Writes CEL for the fields of a policy's profiles: a map literal from the profile's name, looked up by its label."""

from collections.abc import Callable
from typing import Any

from webhook.export.cel import Variable, literal, plain_list, text
from webhook.kube import names
from webhook.policy.model import Policy, Profile
from webhook.policy.settings import LARGEST_COUNT
from webhook.rules.opt_in import MODES
from webhook.systems.kind_spec import KindSpec


class Profiles:
    """The profiles of a policy, for the admission policy of one kind."""

    def __init__(self, policy: Policy, row: KindSpec) -> None:
        self.policy = policy
        labels = f"{'namespaceObject' if row.namespaced else 'object'}.metadata.?labels"
        self.first: list[Variable] = [
            {"name": "profile", "expression": f"{labels}[?{text(names.PROFILE)}].orValue('')"},
            {"name": "mode", "expression": f"{labels}[?{text(names.MODE)}].orValue('Enforce')"},
        ]

    def variable(self, name: str, of: Callable[[Profile], Any]) -> Variable:
        """Return a variable with a value of the namespace's profile."""
        values = {profile: of(one) for profile, one in self.policy.profiles.items()}
        different = {repr(one) for one in values.values()}
        if len(different) == 1:
            return {"name": name, "expression": typed(next(iter(values.values())))}
        entries = ", ".join(f"{text(profile)}: {typed(one)}" for profile, one in sorted(values.items()))
        return {"name": name, "expression": f"{{{entries}}}[variables.profile]"}

    def is_known(self) -> str:
        """Return a condition that both labels have allowed values; with any other, objects are left alone."""
        names_of_profiles = plain_list(sorted(self.policy.profiles))
        return f"variables.profile in {names_of_profiles} && variables.mode in {plain_list([*MODES])}"


def typed(value: Any) -> str:
    """Return a value of a profile as CEL; the entries of a list of numbers keep their type."""
    if isinstance(value, list) and all(type(entry) is int for entry in value):
        return "[" + ", ".join(map(str, value)) + "]"
    return literal(value)


def most_retries(profile: Profile) -> int:
    """Return the highest value of the annotation max-retries that is no problem."""
    return LARGEST_COUNT if profile.retries.on_exceed == "Clamp" else profile.retries.limit
