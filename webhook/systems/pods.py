"""Whose pod is this, and which attempt: the answers of all systems, from the PODS of each.

A pod can have several levels, each a counter with its own budget; placement considers all of them. The annotation
`attempt` wins over every other source: on the pod, or else on its controller. A source that does not apply, or whose
signal is malformed, gives no level.

The disruptions that the ledger has counted are a level of their own, as they cost no retry. The API counts disruptions
only for Jobs with backoffLimitPerIndex, and there admission subtracts those of the ledger.
"""

import re
from hashlib import blake2b
from typing import Final, NamedTuple

from msgspec.structs import replace

from webhook.kube import names
from webhook.objects.problem import Json, Problem
from webhook.objects.shape import Shape
from webhook.policy.settings import count
from webhook.systems import airflow, parts
from webhook.systems.core import POD
from webhook.systems.flyte import pods as flyte
from webhook.systems.kind_spec import KindSpec, OwnerReference
from webhook.systems.pod_source import ANY, NOBODY, NONE, Evidence, Level, Place, PodSource, no_place

RANGE: Final = re.compile(r"(?:\A|/)(?:[0-9]+-[0-9]+|0[0-9]+)\Z")
LONGEST_SCOPE: Final = 64  # characters: any user may write these labels and annotations
KEPT_OF_SCOPE: Final = 48  # characters of a longer scope; a digest of the whole follows them
ANNOTATION: Final = "Annotation"  # values of the annotation attempt-source
LEDGER: Final = "Ledger"


def of_ledger(evidence: Evidence) -> list[Level]:
    """Return the level of disruptions.

    `evidence.disruptions` is the number for the pod's completion index or scope, or else for the whole Job, divided by
    the number of pods that run at a time.
    """
    if evidence.disruptions is None:
        return []
    return [Level(LEDGER, evidence.disruptions, evidence.settings.disruption_budget, of_disruptions=True)]


def _by_controller() -> dict[tuple[str, str], tuple[PodSource, ...]]:
    found: dict[tuple[str, str], tuple[PodSource, ...]] = {}
    for module in parts("pods"):
        for source in module.PODS:
            kind = source.controller
            if isinstance(kind, KindSpec) and not kind.owns_pods and kind is not POD:
                raise ImportError(f"{module.__name__} reads pods of a {kind}: set owns_pods in its KindSpec")
            found[source.key] = (*found.get(source.key, ()), source)
    for controller, sources in found.items():
        if controller != ANY and any(source.is_counted for source in sources):
            found[controller] = (*sources, PodSource(controller, LEDGER, of_ledger))
    return found


# By group and kind of a pod's controller, the kind in lower case. The levels of all sources are collected.
SOURCES: Final = _by_controller()
OF_ANY: Final = SOURCES[ANY]
_ALL: Final = tuple(source for of in SOURCES.values() for source in of)
PLACES: Final = {source.key: source.place for source in _ALL if source.place is not no_place}
REPLACES: Final = {source.key: source.replaces for source in _ALL if source.replaces is not None}
LEADERS: Final = dict(label for source in _ALL for label in source.leaders)
# Sources whose attempt is the same for all pods of a gang, so that all of them change the kind of node together.
OF_GROUPS: Final = frozenset(source.name for source in _ALL if source.is_of_group)


def _read(name: str) -> dict[str, Shape]:
    modules = parts("pods")
    return dict.fromkeys((key for module in modules for key in getattr(module, name, ())), str)


# What is read of a pod's metadata to find its place, beside its ownerReferences.
READ: Final[dict[str, dict[str, Shape]]] = {"labels": _read("LABELS"), "annotations": _read("ANNOTATIONS")}


class Elsewhere(NamedTuple):
    """What a pod without an account belongs to, in the words of its own system: for its record in history.

    `owner`: what the workload is a run of, as KIND/NAME; empty if that is not known. `uid`, `scope`: as in Place.
    """

    kind: str
    name: str
    uid: str
    scope: str
    owner: str = ""


def place_of(metadata: Json, controller: OwnerReference | None) -> Place | None:
    """Return the place of a pod; None if its attempts are counted nowhere, or as those of a Job."""
    found = PLACES.get(_key(controller))
    place = None if found is None else found(metadata, controller or NOBODY)
    return None if place is None else place._replace(scope=scope_named(place.scope))


def elsewhere(metadata: Json, controller: OwnerReference | None) -> Elsewhere:
    """Return what a pod that is counted for no workload belongs to: its controller, or itself."""
    if controller is not None:
        labels = metadata.get("labels") or {}
        return Elsewhere(controller.kind, controller.name, controller.uid, labels.get(flyte.NODE) or "")
    in_dag_run = airflow.in_dag_run(metadata)
    if in_dag_run is None:
        return Elsewhere("Pod", metadata.get("name") or "", metadata.get("uid") or "", "")
    dag, run, scope = in_dag_run
    name = f"{dag}.{run}"
    return Elsewhere("DAGRun", name, name, scope_named(scope), f"DAG/{dag}")


def _key(controller: OwnerReference | None) -> tuple[str, str]:
    return NONE if controller is None else (controller.group, controller.kind.lower())


def scope_named(text: str) -> str:
    """Return a scope as an account can hold it: short, and without commas, which separate scopes there.

    It may end in `/NUMBER`, but in no range, such as `a/1-3`, and in no `0NUMBER`.
    """
    text = text.replace(",", ";")
    if len(text) > LONGEST_SCOPE or RANGE.search(text):
        digest = blake2b(text.encode(errors="replace"), digest_size=4).hexdigest()
        text = f"{text[:KEPT_OF_SCOPE]}~{digest}"
    return text


def levels(evidence: Evidence) -> list[Level]:
    """Return the levels of a pod, none if no source has one; append a warning for each malformed signal."""
    attempt = said_attempt(evidence)
    if attempt is None:
        return levels_of_systems(evidence)
    budgets = [level.budget for level in levels_of_systems(replace(evidence, warnings=[]))]
    return [Level(ANNOTATION, attempt, budgets[0] if budgets else evidence.settings_budget)]


def levels_of_systems(evidence: Evidence) -> list[Level]:
    """Return the levels from the signals of the systems that created the pod, without the annotation `attempt`."""
    sources = (*SOURCES.get(_key(evidence.controller), ()), *OF_ANY)
    return [level for source in sources for level in source.levels(evidence)]


def is_replaced(evidence: Evidence) -> bool:
    """Return True if the pod's own system replaces it, and does not count that as a retry."""
    replaces = REPLACES.get(_key(evidence.controller))
    return replaces is not None and replaces(evidence)


def said_attempt(evidence: Evidence) -> int | None:
    """Return the 0-based attempt in the annotation; None if it is absent or malformed: then with a warning for each.

    An annotation on the pod is ignored if attempt-source names another source: then the webhook wrote both.
    """
    said, owner_metadata = evidence.annotations, (evidence.owner or {}).get("metadata") or {}
    of_owner = (owner_metadata.get("annotations") or {}).get(names.ATTEMPT)
    if of_owner is None and names.ATTEMPT not in said:
        return None
    own = said.get(names.ATTEMPT) if said.get(names.ATTEMPT_SOURCE, ANNOTATION) == ANNOTATION else None
    for text in (own, of_owner):
        if text is None:
            continue
        number = count(text)
        if number is not None:
            return number
        path = ("metadata", "annotations", names.ATTEMPT)
        evidence.warnings.append(Problem(path, f"is {text[:20]!r}", "must be a whole number, 0 or more"))
    return None
