"""The parts of the admission policies that name labels and annotations: those that the server writes itself."""

import textwrap
from typing import Final, NamedTuple

from webhook.kube import names
from webhook.systems import kueue
from webhook.systems.job import rerun


class Keys(NamedTuple):
    """The labels and annotations of a kind that the server may set, and those that it may also remove.

    `when_let_run`: those that it may set when it releases the successor of a Job. `has_pods`: whether the API server
    gives an object without labels the labels of its pods.
    """

    kind: str
    set_annotations: tuple[str, ...] = ()
    set_labels: tuple[str, ...] = ()
    removed_annotations: tuple[str, ...] = ()
    removed_labels: tuple[str, ...] = ()
    when_let_run: tuple[str, ...] = ()
    has_pods: bool = False

    @property
    def ours(self) -> set[str]:
        """The keys that only this project writes."""
        return {*self.set_annotations, *self.set_labels, *self.removed_annotations, *self.removed_labels}


WIDTH: Final = 108  # of a line

REQUEST: Final = (names.RETRY_ACCEPTED,)
MARK: Final = (names.RETRY_IN_PROGRESS,)
WRITTEN: Final[dict[str, Keys]] = {
    "pods": Keys("a pod", set_annotations=(names.COUNTED,)),
    "jobs": Keys(
        "a Job",
        set_annotations=rerun.SETS,
        removed_annotations=(*REQUEST, *rerun.REMOVES),
        removed_labels=(*MARK, names.RETRY_OF),
        when_let_run=(kueue.QUEUE_NAME,),
        has_pods=True,
    ),
    "jobsets": Keys(
        "a JobSet",
        set_annotations=(names.RETRY_HISTORY,),
        set_labels=MARK,
        removed_annotations=REQUEST,
    ),
    "cronjobs": Keys("a CronJob", removed_annotations=REQUEST, removed_labels=MARK),
    "pipelineruns": Keys(
        "a PipelineRun",
        set_annotations=(names.RETRY_HISTORY,),
        set_labels=MARK,
        removed_annotations=REQUEST,
    ),
    # Those of a PipelineRun among them.
    "systems": Keys(
        "a workload",
        set_annotations=(names.RETRY_HISTORY,),
        set_labels=MARK,
        removed_annotations=REQUEST,
    ),
}
# Keys that the server never writes, or writes only in answers to admission requests, in the name of their user, or when
# it creates an object. A test fails for a key that is neither here nor above.
NEVER: Final = frozenset(
    (
        *(names.PROFILE, names.MODE, names.ATTEMPT, names.MAX_RETRIES, names.MAX_DISRUPTIONS, names.INTERRUPTIBLE),
        *(names.SKIP, names.PLACEMENT, names.ATTEMPT_SOURCE, names.POLICY, names.RETRYABLE, names.RETRY_REQUESTED_AT),
        *(names.DISRUPTIONS, names.KEEP_FINALLY, names.AFTER_FAILURE, names.MEMORY_LIMIT, names.ON_FAILURE),
        *(names.INDEPENDENT_PODS, names.MEMORY, names.PROOF),
        *(names.CHECKPOINT, names.DEADLINE, names.PROGRESS, names.WORK, names.WORK_SOURCE),
    )
)
METADATA: Final = """\
- expression: >-
    [dyn(object.metadata), dyn(oldObject.metadata)].all(side, side.all(field,
    field in ['annotations', 'generation', 'labels', 'managedFields', 'resourceVersion'] ||
    dyn(object.metadata)[?field] == dyn(oldObject.metadata)[?field]))
  message: retry-policy-controller may change nothing in the metadata of {kind} but labels and annotations of its own
  reason: Forbidden
"""
# Of an object without labels of its own: the API server then sets all labels of its pods.
OF_PODS: Final = """\
(oldObject.metadata.?labels.orValue({{}}).all(before, before in
    {removed}) &&
    object.metadata.?labels == object.spec.template.?metadata.?labels)"""
ENTRIES: Final = """\
- expression: >-
    [object.metadata.?{field}.orValue({{}}), oldObject.metadata.?{field}.orValue({{}})].all(side, side.all(key,
    {alternatives}object.metadata.?{field}[?key] == oldObject.metadata.?{field}[?key]))
  message: {message}
  reason: Forbidden
"""


def validations(resource: str) -> str:
    """Return the validations of a resource's metadata."""
    keys = WRITTEN[resource]
    annotations = entries(keys, "annotations", keys.set_annotations, keys.removed_annotations)
    return METADATA.format(kind=keys.kind) + annotations + entries(keys, "labels", keys.set_labels, keys.removed_labels)


def entries(keys: Keys, field: str, to_set: tuple[str, ...], removed: tuple[str, ...]) -> str:
    """Return the validations of labels or annotations; removal is allowed everywhere, or Jobs could be stuck."""
    alternatives = []
    if to_set:
        alternatives.append(f"(variables.optedIn && key in\n    {listed(to_set)})")
    if keys.when_let_run:
        alternatives.append(f"(variables.optedIn && variables.isLetRun && key in\n    {listed(keys.when_let_run)})")
    if to_set or removed:
        absent = f"!(key in object.metadata.?{field}.orValue({{}}))"
        alternatives.append(f"({absent} && key in\n    {listed((*to_set, *removed))})")
    if keys.has_pods and field == "labels":
        alternatives.append(OF_PODS.format(removed=listed(removed)))
    return ENTRIES.format(
        field=field,
        alternatives="".join(f"{one} ||\n    " for one in alternatives),
        message=message(keys.kind, field, can_set=bool(to_set), can_remove=bool(to_set or removed)),
    )


def message(kind: str, field: str, *, can_set: bool, can_remove: bool) -> str:
    """Return the message that says what is allowed."""
    if not can_remove:
        return f"retry-policy-controller may not change the {field} of {kind}"
    if not can_set:
        return f"retry-policy-controller may change no {field} of {kind} but take off its own"
    where = "in a namespace with the label retry-policy.dev/profile"
    return (
        f">-\n    retry-policy-controller may change no {field} of {kind} but its own, and set those only\n    {where}"
    )


def listed(keys: tuple[str, ...]) -> str:
    """Return a list in CEL, over several lines if it is long."""
    text = f"[{', '.join(repr(key) for key in keys)}]"
    return "\n    ".join(textwrap.wrap(text, WIDTH, break_on_hyphens=False))
