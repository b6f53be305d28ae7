"""What applies to one object, once profile and annotations are combined."""

from typing import Final

import msgspec

from webhook.kube import names
from webhook.objects.problem import Json, Path, Problem
from webhook.policy.model import Profile

BOOLEANS: Final = {"true": True, "false": False}
LONGEST_COUNT: Final = len("2147483647")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """A profile, and what an object's annotations say within its limits; None where they say nothing."""

    profile_name: str
    profile: Profile
    max_retries: int | None = None
    max_disruptions: int | None = None
    interruptible: bool | None = None
    skip: bool = False

    @property
    def default_retries(self) -> int:
        """Retries where nobody named a number: the profile's default, which never exceeds its limit."""
        return min(self.profile.retries.default, self.profile.retries.limit)

    @property
    def disruption_budget(self) -> int:
        """Disruptions that cost no retry."""
        return self.profile.disruptions.limit if self.max_disruptions is None else self.max_disruptions


class NamedProfile(msgspec.Struct, frozen=True):
    """A profile of the policy, with the name under which messages speak of it."""

    name: str
    profile: Profile

    def settings(self, annotations: Json) -> Settings:
        """Combine it with annotations."""
        return resolve(self.name, self.profile, annotations)

    def problems(self, annotations: Json, path: Path) -> list[Problem]:
        """Name what is wrong in one annotations map that stands at `path`."""
        return annotation_problems(self.name, self.profile, annotations, path)


def resolve(profile_name: str, profile: Profile, annotations: Json) -> Settings:
    """Combine a profile with annotations; what `annotation_problems` would name counts as not said."""
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
    )


def annotation_problems(profile_name: str, profile: Profile, annotations: Json, path: Path) -> list[Problem]:
    """Name every malformed or forbidden value of our keys in one annotations map that stands at `path`."""
    if names.SAID.isdisjoint(annotations):
        return []  # as of most maps
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
    for key in (names.INTERRUPTIBLE, names.RETRYABLE, names.SKIP):
        value = annotations.get(key)
        if value is not None and value not in BOOLEANS:
            found.append(Problem((*path, key), f"is {value[:40]!r}", 'must be "true" or "false"'))
    if annotations.get(names.SKIP) == "true" and not profile.allow_skip:
        what = f"profile {profile_name!r} does not allow workloads to be left alone"
        found.append(Problem((*path, names.SKIP), what, "take the annotation out"))
    return found


def count(text: str | None) -> int | None:
    """Read a whole number from an annotation; None if it is none, or longer than any count of the API."""
    if text is None or len(text) > LONGEST_COUNT or not (text.isascii() and text.isdecimal()):
        return None
    return int(text)
