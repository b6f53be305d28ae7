"""Makes a pod prefer other nodes and zones than those where attempts failed, that are bad, or that lose spot nodes.

Reads:
    the state that the annotation retry-policy.dev/after-failure records, the losses of each zone, the rejections and
    the faults of each node
    the fields that webhook/rules/pods/groups.py reads
Reads and writes:
    spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution

These are preferences, never requirements: where nothing else is free, the pod runs where the last one failed. The pods
of a group stay alike, and get none.
"""

from collections.abc import Sequence
from typing import Final

from webhook.objects.patch import Editor, Pattern, at
from webhook.objects.problem import Json
from webhook.pods.pods import ZONE
from webhook.rules.pods.placement import HIGHEST_WEIGHT, PREFERRED, prefer

WRITES: Final[tuple[Pattern, ...]] = (PREFERRED,)
# Names of GKE Autopilot's nodes. It refuses pods whose node affinity names a node.
AUTOPILOT: Final = "gk3-"


def nodes(editor: Editor, names: Sequence[str]) -> None:
    """Prefer other nodes than those with these names: the label kubernetes.io/hostname may differ from the name.

    Karpenter before 1.5 creates no node for a pod with such a preference, by name or by label (docs/reference/
    on-failure.md).
    """
    away = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in names if is_named(name)]
    if away:
        prefer(editor, {"weight": HIGHEST_WEIGHT, "preference": {"matchFields": away}})


def is_named(name: str) -> bool:
    """Return True if a pod may name this node in its affinity."""
    return bool(name) and not name.startswith(AUTOPILOT)


def zones(editor: Editor, names: Sequence[str], on_spot: Sequence[Json]) -> None:
    """Prefer other zones than these; `on_spot`: the pod's own preferences for spot nodes, as the placement added them.

    Beside such a preference, prefer spot nodes in other zones: then a pod goes from one zone's spot nodes to another's,
    but not from spot to on-demand nodes. That comes first, because Karpenter reads the first of equal preferences.
    """
    away = {"key": ZONE, "operator": "NotIn", "values": [*names]}
    wished = at(editor.root, PREFERRED) or []
    own = [term for term in on_spot if term in wished]
    if not own:
        prefer(editor, {"weight": HIGHEST_WEIGHT, "preference": {"matchExpressions": [away]}})
    for term in own:
        elsewhere = {"weight": HIGHEST_WEIGHT, "preference": {"matchExpressions": [*expressions_of(term), away]}}
        if elsewhere not in wished:
            editor.insert(PREFERRED, wished.index(term), elsewhere)


def expressions_of(term: Json) -> list[Json]:
    """Return the expressions of a preferredSchedulingTerm."""
    found: list[Json] = term["preference"]["matchExpressions"]
    return found
