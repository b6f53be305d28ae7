"""Annotates a pod with the decision about it, what it is due to, and the proof that we wrote both.

Reads and writes:
    metadata.annotations[retry-policy.dev/*], metadata.labels[retry-policy.dev/profile]
"""

from typing import TYPE_CHECKING, Final

from webhook.kube import names
from webhook.objects.problem import Problem
from webhook.pods import on_failure
from webhook.policy.settings import count
from webhook.rules import annotations
from webhook.rules.rule import Rule, in_pods
from webhook.systems.job import spec as batch

if TYPE_CHECKING:
    from webhook.rules.contexts import PodContext, UnplacedPod

LABEL: Final = ("metadata", "labels", names.PROFILE)
# Keys that record something about one pod, or about a workload, from which Tekton copies all annotations to its pods.
# With a copied COUNTED the ledger would not count another pod.
RECORDS: Final = frozenset({names.AFTER_FAILURE, names.COUNTED, names.DISRUPTIONS, names.MEMORY, names.PROOF})
POD_KEYS: Final = (
    names.AFTER_FAILURE,
    *(names.ATTEMPT, names.ATTEMPT_SOURCE, names.COUNTED, names.DISRUPTIONS, names.MAX_DISRUPTIONS, names.MAX_RETRIES),
    names.MEMORY,
    names.PLACEMENT,
    names.PROOF,
)
WRITTEN_ON_PODS: Final = tuple(key for key in POD_KEYS if key not in {names.ATTEMPT, names.MAX_RETRIES})


def _edit(context: "PodContext") -> list[Problem]:
    """Annotate a pod with the decision and its source; return the warnings about malformed sources of its attempt."""
    said, editor, decision = context.evidence.annotations, context.editor, context.decision
    retries, disruptions = decision.retries, decision.disruptions
    notes = {names.PLACEMENT: context.plan.placement, names.ATTEMPT_SOURCE: retries.source}
    if names.ATTEMPT not in said or count(said[names.ATTEMPT]) != retries.attempt:
        notes[names.ATTEMPT] = str(retries.attempt)
    if names.MAX_RETRIES not in said:
        notes[names.MAX_RETRIES] = str(retries.budget)
    is_known = context.evidence.disruptions is not None
    if disruptions is not None and (is_known or not _is_short_of_disruptions(context)):
        notes |= {names.DISRUPTIONS: str(disruptions.attempt), names.MAX_DISRUPTIONS: str(disruptions.budget)}
    if context.asked != on_failure.NONE:
        notes[names.AFTER_FAILURE] = on_failure.written(context.asked)
        if context.growth_note:
            notes[names.MEMORY] = context.growth_note
    if not RECORDS.isdisjoint(said):
        for key in sorted(RECORDS - notes.keys()):  # copied from its template
            editor.remove((*annotations.OWN, key))
    state_key = context.facts.state_key
    if state_key is not None:
        notes[names.PROOF] = state_key.proof_of_state(*context.belongs_to, said | notes)
    editor.update(annotations.OWN, notes)
    editor.update(("metadata", "labels"), {names.PROFILE: context.profile.name})
    return context.evidence.warnings


def _is_short_of_disruptions(context: "PodContext") -> bool:
    """Return True if the Job controller's count of an index, without the ledger's, lacks what the ledger has counted.

    Admission subtracts them. The ledger reads the annotation, so that none is better than one that is too low.
    """
    return context.facts.ledger and batch.INDEX_IGNORED_FAILURES in context.evidence.annotations


def _mark(pod: "UnplacedPod") -> list[Problem]:
    said = annotations.of(pod.editor.root)
    for key in WRITTEN_ON_PODS:
        if key in said:
            pod.editor.remove((*annotations.OWN, key))
    pod.editor.update(("metadata", "labels"), {names.PROFILE: pod.profile_name})
    return []


RULE: Final[Rule["PodContext"]] = Rule(
    name="annotations",
    applies_to="each pod",
    edit=_edit,
    writes=in_pods(*((*annotations.OWN, key) for key in POD_KEYS), LABEL),
)
# Whatever its shape, a pod of a batch workload is counted, and nothing that it says of itself in our name is believed.
OF_UNPLACED: Final[Rule["UnplacedPod"]] = Rule(
    name="annotations",
    applies_to="a pod of a batch workload that is skipped, has a node already, or is too large for the rules",
    edit=_mark,
    writes=in_pods(*((*annotations.OWN, key) for key in WRITTEN_ON_PODS), LABEL),
)
