"""The settings of one object: its profile combined with its annotations."""

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from webhook.kube import names
from webhook.objects.problem import Json, Path, Problem
from webhook.policy import costs, deadline
from webhook.policy.deadline import Deadline
from webhook.policy.model import FailureRule, Policy, Profile
from webhook.policy.quantities import plain_memory

BOOLEANS: Final = {"true": True, "false": False}
LARGEST_COUNT: Final = 2**31 - 1  # of the API's 32-bit integers


def own_spot_labels(policy: Policy) -> dict[str, tuple[str, ...]]:
    """Return the labels that mark spot nodes by the providers `custom` of all profiles: keys, each with its values."""
    found: dict[str, tuple[str, ...]] = {}
    for profile in policy.profiles.values():
        custom = profile.placement.custom
        for key, values in ({} if custom is None else custom.spot_labels).items():
            found[key] = tuple(dict.fromkeys((*found.get(key, ()), *values)))
    return found


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """A profile, and the values of an object's annotations within its limits; None for an annotation that is absent.

    `rules_off`: whether the author turned the rules of onFailure off. `memory_limit`: in bytes. `has_turned`: whether
    the deadline allows no spot node any more, for the pod that is placed.
    """

    profile_name: str
    profile: Profile
    max_retries: int | None = None
    max_disruptions: int | None = None
    interruptible: bool | None = None
    skip: bool = False
    rules_off: bool = False
    independent_pods: bool | None = None
    memory_limit: int | None = None
    deadline: Deadline | None = None
    has_turned: bool = False

    @property
    def default_retries(self) -> int:
        """The retries of a workload that names no number: the profile's default, never more than its limit."""
        return min(self.profile.retries.default, self.profile.retries.limit)

    @property
    def on_failure(self) -> tuple[FailureRule, ...]:
        """The rules about ended attempts; none if the author turned them off."""
        if self.rules_off:
            return ()
        profile = self.profile
        return profile.on_failure if profile.failure_policy.unknown_exit == "Fail" else costs.rules_of(profile)

    @property
    def disruption_action(self) -> Literal["Ignore", "Count", "FailJob"]:
        """What a disruption does to a Job: as the rules about ended attempts say, or else `disruptions.action`."""
        by_default = self.profile.disruptions.action
        return costs.disruption_action(self.on_failure, by_default) if self.profile.on_failure else by_default

    @property
    def disruption_budget(self) -> int:
        """The number of disruptions that cost no retry."""
        return self.profile.disruptions.limit if self.max_disruptions is None else self.max_disruptions

    @property
    def job_disruption_budget(self) -> int:
        """The same, of a Job: any, if it has a deadline, which takes the place of the profile's limit."""
        return LARGEST_COUNT if self.deadline is not None and self.max_disruptions is None else self.disruption_budget


class NamedProfile(msgspec.Struct, frozen=True):
    """A profile of the policy, and its name, which messages show."""

    name: str
    profile: Profile

    def settings(self, annotations: Json) -> Settings:
        """Return the settings of an object with these annotations."""
        return resolve(self.name, self.profile, annotations)

    def problems(self, annotations: Json, path: Path) -> list[Problem]:
        """Return the problems of an object's annotations; `path` is the path of the annotations map."""
        return annotation_problems(self.name, self.profile, annotations, path)


def resolve(profile_name: str, profile: Profile, annotations: Json) -> Settings:
    """Return the settings of an object with these annotations; a value that has a problem counts as absent.

    For the problems see `annotation_problems`.
    """
    if names.SAID.isdisjoint(annotations):
        return Settings(profile_name=profile_name, profile=profile)
    max_retries = count(annotations.get(names.MAX_RETRIES))
    if max_retries is not None and max_retries > profile.retries.limit:
        max_retries = profile.retries.limit if profile.retries.on_exceed == "Clamp" else None
    max_disruptions = count(annotations.get(names.MAX_DISRUPTIONS))
    return Settings(
        profile_name=profile_name,
        profile=profile,
        max_retries=max_retries,
        max_disruptions=None if max_disruptions is None else min(max_disruptions, profile.disruptions.limit),
        interruptible=BOOLEANS.get(annotations.get(names.INTERRUPTIBLE, "")),
        skip=profile.allow_skip and annotations.get(names.SKIP) == "true",
        rules_off=annotations.get(names.ON_FAILURE) == "Off",
        memory_limit=plain_memory(annotations.get(names.MEMORY_LIMIT)),
        independent_pods=BOOLEANS.get(annotations.get(names.INDEPENDENT_PODS, "")),
        deadline=deadline.read(annotations, profile.deadline),
    )


def annotation_problems(profile_name: str, profile: Profile, annotations: Json, path: Path) -> list[Problem]:
    """Return a problem for each malformed or forbidden value of an annotation of this webhook.

    `path` is the path of the annotations map in the object.
    """
    if names.SAID.isdisjoint(annotations):
        return []  # the fast path: most maps have none of these annotations
    found: list[Problem] = []
    limits = {
        names.ATTEMPT: None,
        names.MAX_RETRIES: profile.retries.limit if profile.retries.on_exceed == "Deny" else None,
        names.MAX_DISRUPTIONS: profile.disruptions.limit,
    }
    for key, limit in limits.items():
        value = annotations.get(key)
        if value is None:
            continue
        number = count(value)
        if number is None:
            remedy = (
                "must be a whole number, 0 or more" if limit is None else f"must be a whole number from 0 to {limit}"
            )
            found.append(Problem((*path, key), f"is {value[:40]!r}", remedy))
        elif limit is not None and number > limit:
            what = f"{number} is more than the {limit} that profile {profile_name!r} allows"
            found.append(Problem((*path, key), what, f"set {limit} or less"))
    for key in (names.INDEPENDENT_PODS, names.INTERRUPTIBLE, names.RETRYABLE, names.SKIP):
        value = annotations.get(key)
        if value is not None and value not in BOOLEANS:
            found.append(Problem((*path, key), f"is {value[:40]!r}", 'must be "true" or "false"'))
    found += on_failure_problems(annotations, path)
    found += deadline.problems(annotations, profile.deadline, path)
    if annotations.get(names.SKIP) == "true" and not profile.allow_skip:
        what = f"profile {profile_name!r} does not allow workloads to be left alone"
        found.append(Problem((*path, names.SKIP), what, "remove the annotation"))
    return found


def on_failure_problems(annotations: Json, path: Path) -> Iterator[Problem]:
    """Yield a problem for each malformed annotation about the rules of onFailure; `path`: as above."""
    value = annotations.get(names.ON_FAILURE)
    if value not in {None, "Off"}:
        yield Problem((*path, names.ON_FAILURE), f"is {value[:40]!r}", 'must be "Off"')
    value = annotations.get(names.MEMORY_LIMIT)
    if value is not None and plain_memory(value) is None:
        remedy = "must be an amount of memory such as 32Gi"
        yield Problem((*path, names.MEMORY_LIMIT), f"is {value[:40]!r}", remedy)


def count(text: str | None) -> int | None:
    """Return the whole number in the text of an annotation; None if it is not one of at most 31 bits."""
    if text is None or len(text) > len(str(LARGEST_COUNT)) or not (text.isascii() and text.isdecimal()):
        return None
    number = int(text)
    return number if number <= LARGEST_COUNT else None
