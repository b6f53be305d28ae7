"""Judges how a namespace is opted in.

Reads, on a Namespace:
    metadata.labels[retry-policy.dev/profile]: the name of a profile of the policy
    metadata.labels[retry-policy.dev/mode]: Enforce, Warn, Audit
    the keys of metadata.labels and metadata.annotations
"""

from difflib import get_close_matches
from typing import Final

from webhook.kube import names
from webhook.objects import bounds
from webhook.objects.problem import Json, Path, Problem, listed
from webhook.policy.model import Policy
from webhook.rules import unknown_keys

MODES: Final = ("Enforce", "Warn", "Audit")
ALLOWED_MODES: Final = "must be Enforce, Warn or Audit"
LABELS: Final[Path] = ("metadata", "labels")


def problems(root: Json, old: Json | None, policy: Policy) -> list[Problem]:
    """Return the problems of a Namespace's labels of ours; after an update of `old`, only of those that changed."""
    labels, old_labels = labels_of(root), labels_of(old or {})
    found = []
    profile_name = labels.get(names.PROFILE)
    if profile_name not in {None, *policy.profiles, old_labels.get(names.PROFILE)}:
        what = f"the policy has no profile {profile_name!r}, it has {listed(sorted(policy.profiles))}"
        found.append(Problem((*LABELS, names.PROFILE), what, nearest_profile(profile_name or "", policy)))
    opted_in = profile_name is not None and names.PROFILE not in old_labels  # from now on the mode has an effect
    if profile_name is not None and (opted_in or labels.get(names.MODE) != old_labels.get(names.MODE)):
        found += mode_problems(labels)
    return found


def warnings(root: Json, old: Json | None) -> list[Problem]:
    """Warn about keys of ours on a Namespace that have no effect; in an update of `old`, only about those it sets."""
    labels = labels_of(root)
    mode = labels.get(names.MODE)
    found = unknown_keys.of_namespace(root, old)
    if mode is not None and names.PROFILE not in labels and mode != labels_of(old or {}).get(names.MODE):
        what = f"no effect without the label {names.PROFILE}"
        found += [*mode_problems(labels), Problem((*LABELS, names.MODE), what, "add it")]
    return found


def mode_problems(labels: Json) -> list[Problem]:
    """Return a problem if the mode is not one of the allowed ones."""
    mode = labels.get(names.MODE)
    if mode in {None, *MODES}:
        return []
    near = get_close_matches((mode or "")[: bounds.MAX_KEY].title(), MODES, n=1)
    remedy = f"{ALLOWED_MODES} (did you mean {near[0]}?)" if near else ALLOWED_MODES
    return [Problem((*LABELS, names.MODE), f"is {mode!r}", remedy)]


def nearest_profile(profile_name: str, policy: Policy) -> str:
    """Return the remedy: the profile that was probably meant, else all profiles."""
    near = get_close_matches(profile_name[: bounds.MAX_KEY], policy.profiles, n=1)
    return f"label it {near[0]}" if near else f"label it with one of: {listed(sorted(policy.profiles))}"


def labels_of(root: Json) -> Json:
    """Return an object's labels."""
    labels: Json | None = (root.get("metadata") or {}).get("labels")
    return labels or {}
