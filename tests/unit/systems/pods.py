"""Makes pods as the systems write them, and returns their levels and placements."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.admission import mutate, policy
from tests.objects import pod
from webhook.admission.subject import owner_of
from webhook.kube import names
from webhook.objects.patch import at
from webhook.objects.problem import Json, Path, Problem
from webhook.policy.model import Disruptions, Placement, Profile
from webhook.policy.settings import Settings, resolve
from webhook.rules.facts import Facts
from webhook.rules.pods.placement import PREFERRED, TERMS
from webhook.systems.kind_spec import controller_of
from webhook.systems.pod_source import Evidence, Level
from webhook.systems.pods import levels

SPOT: Final = {"key": "eks.amazonaws.com/capacityType", "operator": "In", "values": ["SPOT"]}
NOT_SPOT: Final = {"key": "eks.amazonaws.com/capacityType", "operator": "NotIn", "values": ["SPOT"]}
LIMIT: Final = 20  # of disruptions: more than in any other level
DISRUPTIONS: Final = Disruptions(limit=LIMIT)
EKS: Final = policy(default=Profile(placement=Placement(provider="eks", spot="Require"), disruptions=DISRUPTIONS))

# Values of a label, annotation or variable that are not counts; more of them in test_annotation.py.
NO_COUNTS: Final = ["", "two", "-1", "9" * 400]
# Values of any type that are not counts.
NO_NUMBERS: Final[list[Any]] = [None, True, -1, 1.5, "-1", [], [1], {"a": 1}]


@dataclass(frozen=True, slots=True)
class Placed:
    """The result for a pod: the requirements and preferences on its nodes, and its new annotations.

    `placement`, `source`, `attempt` and `max_retries` are annotations; None if the pod was not changed.
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
    """Return the expected results for the pods of attempts 0 to 3, with 3 retries."""
    return [*(on_spot(source, attempt, 3) for attempt in range(3)), off_spot(source, 3, 3)]


def only_the_first_on_spot(source: str, budget: int) -> list[Placed]:
    """Return the expected results for the pods of attempts 0 to 3, with fewer than 2 retries."""
    return [on_spot(source, 0, budget), *(off_spot(source, attempt, budget) for attempt in range(1, 4))]


def none_on_spot(source: str) -> list[Placed]:
    """Return the expected results for the pods of attempts 0 to 3, without retries, if a disruption ends the work."""
    return [off_spot(source, attempt, 0) for attempt in range(4)]


def place(root: Json, owner: Json | None = None, above: Json | None = None) -> Placed:
    """Admit a pod in a cluster on EKS whose profile requires spot; check that a second admission changes nothing."""
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
    """Return the Evidence of a pod."""
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
    """Return the levels of a pod, and the warnings; `of`: one source to read instead of the controller's sources."""
    found = evidence(root, owner, above, settings, disruptions=disruptions, failures=failures)
    return of(found), found.warnings


def of_disruptions(source: str, attempt: int) -> Level:
    """Return a level of disruptions."""
    return Level(source, attempt, LIMIT, of_disruptions=True)


def owned(api_version: str, kind: str, name: str, *, controller: bool = True) -> Json:
    """Return an ownerReference."""
    reference: Json = {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"{name}-uid"}
    return {**reference, "controller": True} if controller else reference


def made(*owners: Json, spec: Json | None = None, **metadata: Any) -> Json:
    """Return a pod with these ownerReferences."""
    return pod(spec, owner=None, **({"ownerReferences": list(owners)} if owners else {}), **metadata)


def with_value(root: Json, path: Path, value: Any) -> Json:
    """Return a copy of an object with a value at a path; absent parents are created."""
    if not path:
        return value  # type: ignore[no-any-return]
    name, rest = str(path[0]), path[1:]
    return {**root, name: with_value(root.get(name) or {}, rest, value)}
