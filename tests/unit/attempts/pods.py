"""Makes pods as the systems write them, and asks which levels they stand under and where they are sent."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.admission import mutate, policy
from tests.objects import pod
from webhook.admission.subject import owner_of
from webhook.attempts import Evidence, Level, levels
from webhook.kinds.kind_spec import controller_of
from webhook.kube import names
from webhook.objects.patch import at
from webhook.objects.problem import Json, Path, Problem
from webhook.policy.model import Disruptions, Placement, Profile
from webhook.policy.settings import Settings, resolve
from webhook.rules.facts import Facts
from webhook.rules.pods.placement import PREFERRED, TERMS

SPOT: Final = {"key": "eks.amazonaws.com/capacityType", "operator": "In", "values": ["SPOT"]}
NOT_SPOT: Final = {"key": "eks.amazonaws.com/capacityType", "operator": "NotIn", "values": ["SPOT"]}
LIMIT: Final = 20  # of disruptions: enough to tell their level from the others
DISRUPTIONS: Final = Disruptions(limit=LIMIT)
EKS: Final = policy(default=Profile(placement=Placement(provider="eks", spot="Require"), disruptions=DISRUPTIONS))

# What no count is, as the value of a label, annotation or variable.
NO_COUNTS: Final = ["", "two", "-1", "1.5", " 1", "+1", "\u0663", "9" * 400, "null", "[]"]
# What no count is, where any type may stand.
NO_NUMBERS: Final[list[Any]] = [None, True, -1, -(10**30), 1.5, "two", "-1", [], [1], {}, {"a": 1}]


@dataclass(frozen=True, slots=True)
class Placed:
    """What became of a pod: the requirements and preferences on its nodes, and what was noted on it.

    `placement`, `source`, `attempt` and `max_retries` are annotations, None where nothing was changed.
    """

    placement: str | None
    source: str | None
    attempt: str | None
    max_retries: str | None
    required: tuple[Json, ...] = ()
    preferred: tuple[Json, ...] = ()
    warnings: tuple[str, ...] = ()


UNTOUCHED: Final = Placed(None, None, None, None)


def on_spot(source: str, attempt: int, budget: int) -> Placed:
    return Placed("Spot", source, str(attempt), str(budget), (SPOT,))


def off_spot(source: str, attempt: int, budget: int) -> Placed:
    return Placed("OnDemand", source, str(attempt), str(budget), (NOT_SPOT,))


def last_of_four_off_spot(source: str) -> list[Placed]:
    """What becomes of the pods of attempts 0 to 3, where there are 3 retries."""
    return [*(on_spot(source, attempt, 3) for attempt in range(3)), off_spot(source, 3, 3)]


def only_the_first_on_spot(source: str, budget: int) -> list[Placed]:
    """What becomes of the pods of attempts 0 to 3, where there are fewer than 2 retries."""
    return [on_spot(source, 0, budget), *(off_spot(source, attempt, budget) for attempt in range(1, 4))]


def none_on_spot(source: str) -> list[Placed]:
    """What becomes of the pods of attempts 0 to 3, where there are no retries and a disruption ends the work."""
    return [off_spot(source, attempt, 0) for attempt in range(4)]


def place(root: Json, owner: Json | None = None, above: Json | None = None) -> Placed:
    """Send a pod through admission in a cluster on EKS whose profile requires spot; a second round changes nothing."""
    facts = Facts(profile_name="default", owner=owner, above=above)
    answer = mutate(root, facts, EKS)
    assert answer.allowed
    assert mutate(answer.object, facts, EKS).object == answer.object
    if not answer.patch:
        return replace(UNTOUCHED, warnings=tuple(answer.warnings))
    noted = answer.object["metadata"]["annotations"]
    terms = at(answer.object, TERMS) or ()
    preferences = [term["preference"] for term in at(answer.object, PREFERRED) or ()]
    return Placed(
        placement=noted[names.PLACEMENT],
        source=noted.get(names.ATTEMPT_SOURCE),
        attempt=noted.get(names.ATTEMPT),
        max_retries=noted.get(names.MAX_RETRIES),
        required=tuple(one for term in terms for one in term["matchExpressions"]),
        preferred=tuple(one for term in preferences for one in term["matchExpressions"]),
        warnings=tuple(answer.warnings),
    )


def evidence(
    root: Json,
    owner: Json | None = None,
    above: Json | None = None,
    settings: Settings | None = None,
    *,
    disruptions: int | None = None,
    failures: int | None = None,
) -> Evidence:
    """Return what sources may read of a pod."""
    controller, _ = owner_of(root, controller_of(root), root["metadata"].get("labels") or {})
    return Evidence(
        pod=root,
        annotations=root["metadata"].get("annotations") or {},
        labels=root["metadata"].get("labels") or {},
        whole=lambda: root,
        controller=controller,
        owner=owner,
        above=above,
        settings=settings or resolve("default", Profile(disruptions=DISRUPTIONS), {}),
        disruptions=disruptions,
        failures=failures,
    )


def read(
    root: Json,
    owner: Json | None = None,
    above: Json | None = None,
    settings: Settings | None = None,
    *,
    disruptions: int | None = None,
    failures: int | None = None,
    of: Callable[[Evidence], list[Level]] = levels,
) -> tuple[list[Level], list[Problem]]:
    """Return the levels that a pod stands under, and the warnings; `of`: one source alone, whatever the controller."""
    found = evidence(root, owner, above, settings, disruptions=disruptions, failures=failures)
    return of(found), found.warnings


def of_disruptions(source: str, attempt: int) -> Level:
    """The level of disruptions."""
    return Level(source, attempt, LIMIT, of_disruptions=True)


def owned(api_version: str, kind: str, name: str, *, controller: bool = True) -> Json:
    """An ownerReference."""
    reference: Json = {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"{name}-uid"}
    return {**reference, "controller": True} if controller else reference


def made(*owners: Json, spec: Json | None = None, **metadata: Any) -> Json:
    """A pod with these ownerReferences."""
    return pod(spec, owner=None, **({"ownerReferences": list(owners)} if owners else {}), **metadata)


def with_value(root: Json, path: Path, value: Any) -> Json:
    """An object with a value put where a path leads; what leads there is made."""
    if not path:
        return value  # type: ignore[no-any-return]
    name, rest = str(path[0]), path[1:]
    return {**root, name: with_value(root.get(name) or {}, rest, value)}
