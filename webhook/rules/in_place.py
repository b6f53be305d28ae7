"""Denies containers that restart in place without limit, or after exit codes that the profile does not retry.

Reads and writes, in a pod template:
    spec.{containers,initContainers}[*].{restartPolicy,restartPolicyRules}
Reads, in a JobSpec:
    template.spec.restartPolicy

A container's own restartPolicy makes a kubelet restart it after any failure, and nothing in the API counts that. Its
restartPolicyRules do so after some exit codes. In a Job whose pods the ledger counts, they may name the exit codes
that the profile retries: each restart is an attempt there, and the ledger ends the Job after `retries.limit` of them.
The action RestartAllContainers restarts the whole pod, also if the rule is that of a sidecar.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from webhook.objects.patch import EVERY, Editor, Pattern, at
from webhook.objects.problem import Json, Path, Problem
from webhook.policy import costs
from webhook.policy.model import Profile
from webhook.policy.settings import Settings
from webhook.systems.kind_spec import EmbeddedJob

IN_PLACE: Final = ("Always", "OnFailure")
CONTAINERS: Final = ("containers", "initContainers")
RULES: Final = "restartPolicyRules"
CONTAINER_FIELDS: Final = ("restartPolicy", RULES)
# Below a pod template's spec.
RESTARTS: Final[tuple[Pattern, ...]] = tuple(
    (containers, EVERY, field) for containers in CONTAINERS for field in CONTAINER_FIELDS
)
UNBOUNDED: Final = "restarts the container in place without limit"
AFTER: Final = "restarts the container in place after"


class Allowed(NamedTuple):
    """The exit codes after which containers may restart in place, and the profile that retries them."""

    codes: tuple[int, ...]
    profile: str


class Restarting(NamedTuple):
    """A container that restarts in place: its path, itself, and whether it is a sidecar, which may always restart."""

    path: Path
    container: Json
    sidecar: bool

    @property
    def by_policy(self) -> bool:
        """Whether it restarts by its own restartPolicy, although it is no sidecar."""
        return not self.sidecar and self.container.get("restartPolicy") in IN_PLACE


def retriable(profile: Profile) -> tuple[int, ...]:
    """Return the exit codes that a profile retries in every container, also by its rules of onFailure; sorted."""
    found = set(profile.failure_policy.retriable_exit_codes)
    for rule in reversed(profile.on_failure):
        codes = costs.sure_codes(rule.match)
        if costs.cost_of(rule) == "Fatal":
            found -= codes
        elif not rule.match.containers:
            found |= codes
    return tuple(sorted(found))


def allowed(settings: Settings, *, counted: bool) -> Allowed | None:
    """Return after which exit codes containers may restart in place; None if the ledger does not count the pods."""
    return Allowed(retriable(settings.profile), settings.profile_name) if counted else None


def problems(path: Path, pod_spec: Json, settings: Settings, *, counted: bool) -> Iterator[Problem]:
    """Yield a problem for each container that restarts in place as it may not, in the pod spec at `path`.

    `counted`: whether the ledger counts the pods; else no container may restart by rules.
    """
    found = list(restarting(path, pod_spec))
    if found:  # the fast path: nearly all objects have none
        may = allowed(settings, counted=counted)
        for one in found:
            yield from problems_of(one, may)


def problems_of(one: Restarting, may: Allowed | None) -> Iterator[Problem]:
    """Yield the problems of one container; `may`: None if it may not restart by rules."""
    if may is None or one.by_policy:
        remedy = "remove restartPolicy and restartPolicyRules, so that each failure counts against the retries"
        yield Problem(one.path, UNBOUNDED, remedy)
        return
    codes = ", ".join(map(str, may.codes))
    remedy = f"list only {codes} with the operator In" if codes else "remove the rule"
    for index, rule in enumerate(one.container.get(RULES) or ()):
        what = disobeys(rule, may)
        if what:
            yield Problem((*one.path, RULES, index), f"{AFTER} {what}", remedy)


def disobeys(rule: Json, may: Allowed) -> str:
    """Return after which exit codes a rule restarts that are not retried; empty if there are none."""
    operator, values = codes_of(rule)
    if operator == "NotIn":
        return "all exit codes but " + (", ".join(map(str, values)) or "none")
    wrong = [str(value) for value in values if value not in may.codes]
    if not wrong:
        return ""
    return f"exit code{'s' if len(wrong) > 1 else ''} {', '.join(wrong)}, which profile {may.profile!r} does not retry"


def codes_of(rule: Json) -> tuple[str, list[int]]:
    """Return the operator of a rule about exit codes, and its values; the API requires both."""
    codes = rule.get("exitCodes") or {}
    return codes.get("operator") or "", codes.get("values") or []


def edit(path: Path, pod_spec: Json, settings: Settings, editor: Editor, *, counted: bool) -> list[Problem]:
    """Remove restarts in place that are not allowed from the pod spec at `path`, for a profile that clamps.

    Return warnings. `counted`: as in `problems`.
    """
    warnings: list[Problem] = []
    found = list(restarting(path, pod_spec))
    may = allowed(settings, counted=counted) if found else None
    for one in found:
        if not any(problems_of(one, may)):
            continue
        rules = one.container.get(RULES) or []
        kept = [] if may is None else [rule for rule in (narrowed(rule, may) for rule in rules) if rule is not None]
        if kept:
            if kept != rules:
                editor.set((*one.path, RULES), kept)
            if one.by_policy:
                editor.set((*one.path, "restartPolicy"), "Never")
            codes = ", ".join(str(value) for rule in kept for value in codes_of(rule)[1])
            warnings.append(Problem(one.path, f"restarts in place only after exit codes {codes}", "write only these"))
            continue
        for name in (RULES,) if one.sidecar else CONTAINER_FIELDS:
            if at(editor.root, (*one.path, name)) is not None:  # a removed null could not be put back
                editor.remove((*one.path, name))
        warnings.append(Problem(one.path, "unlimited restarts in place removed", "leave out restartPolicy"))
    return warnings


def narrowed(rule: Json, may: Allowed) -> Json | None:
    """Return a rule with only the exit codes that may be retried; None if there are none."""
    operator, values = codes_of(rule)
    left = [code for code in may.codes if code not in values] if operator == "NotIn" else values
    left = [code for code in left if code in may.codes]
    return {**rule, "exitCodes": {"operator": "In", "values": left}} if left else None


def warnings(path: Path, job: EmbeddedJob, settings: Settings) -> Iterator[Problem]:
    """Warn once that the restarts of native sidecars are no attempts, and once that rules restart at no cost."""
    free = job.pod_spec.get("restartPolicy") != "OnFailure"
    found = [one for one in restarting(path, job.pod_spec) if not one.by_policy]
    for index, container in enumerate(job.pod_spec.get("initContainers") or ()):
        if container.get("restartPolicy") == "Always":
            what = "a sidecar restarts without limit"
            yield Problem((*path, "initContainers", index), what, "allowed: costs no retry")
            break  # one warning is enough
    if found and free and not job.traits.restarts_in_place:
        limit = settings.profile.retries.limit
        what = f"the ledger fails the Job after {limit} such restarts"
        yield Problem((*found[0].path, RULES), "costs no retry", what)


def restarting(path: Path, pod_spec: Json) -> Iterator[Restarting]:
    """Yield the containers that restart in place, except sidecars without rules: init containers with Always."""
    for name in CONTAINERS:
        for index, container in enumerate(pod_spec.get(name) or ()):
            restart_policy = container.get("restartPolicy")
            sidecar = name == "initContainers" and restart_policy == "Always"
            if container.get(RULES) or (restart_policy in IN_PLACE and not sidecar):
                yield Restarting((*path, name, index), container, sidecar)
