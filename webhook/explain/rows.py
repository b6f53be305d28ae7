"""The rows of an explanation: attempts that have ended, and pods that have not failed. Pure."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from webhook.accounts import words
from webhook.accounts.account import Attempt
from webhook.explain import pending
from webhook.objects.problem import Json
from webhook.pods import on_failure, outcomes
from webhook.pods.pods import Pod
from webhook.pods.waiting import PREPARING
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec

MANY: Final = batch.UNLIMITED // 2  # disruptions from which they count as unlimited
MOST_PODS: Final = 40  # without a failure, which are shown
PLACEMENTS: Final = {"Spot": "spot", "OnDemand": "on-demand"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One attempt.

    - `attempt`: as the pod's annotation says. `unit`: its scope: index, Job of the set, or task.
    - `placement`: spot or on-demand, by the labels of its node, or else as the policy decided; empty if neither says.
    - `start` and `end`: RFC 3339; empty if unknown.
    - `ended`: how it ended, or the state of the pod if it has not ended.
    - `rule`: the rule of the failure policy that matched, such as `rule 1 (FailJob)`; empty if none did.
    - `cost`: retry, disruption, free, fatal, none; empty while it runs.
    - `retries_left` and `disruptions_left`: what its scope had left after it; None if that is unknown.
    - `on_failure`: the rule of onFailure that decided after it; None if none did. `after`: what the attempts before a
      pod that has not ended ask of it, by the rules of onFailure; empty if there is nothing.
    - `last_words`: the end of its termination message; empty if it left none, or if they are not kept.
    """

    attempt: int
    unit: str
    pod: str
    node: str
    placement: str
    start: str
    end: str
    ended: str
    rule: str
    cost: str
    retries_left: int | None
    disruptions_left: int | None
    on_failure: int | None = None
    after: str = ""
    last_words: str = ""


def ended_row(kind: KindSpec, detail: Attempt) -> Row:
    """Return the row of an attempt of a workload of a kind that has ended."""
    left = detail.left
    return Row(
        attempt=detail.attempt,
        unit=detail.scope,
        pod=detail.pod,
        node=detail.node,
        placement=PLACEMENTS.get(detail.placement, ""),
        start=detail.start,
        end=detail.end,
        ended=words.how(detail),
        rule=_rule_of(kind, detail),
        cost=detail.cost,
        retries_left=None if left is None else left.retries,
        disruptions_left=None if left is None or left.disruptions > MANY else left.disruptions,
        on_failure=detail.on_failure,
        last_words=detail.message,
    )


def _rule_of(kind: KindSpec, detail: Attempt) -> str:
    of_job, fatal = kind in {batch.JOB, JOB_SET}, detail.cost == "fatal"
    if detail.settled and detail.on_failure is not None:
        return f"the ledger: rule {detail.on_failure} of onFailure"
    if detail.settled:
        return "the ledger: a bug"
    if of_job and fatal and detail.cause == outcomes.NEVER_STARTED:
        return "startTimeout"
    if detail.rule is not None:
        return f"rule {detail.rule} ({detail.action})"
    if detail.restart:
        return f"restart {detail.restart} in place"
    if of_job:
        return {"retry": "no rule", "fatal": "no retry left"}.get(detail.cost, "")
    return "a bug, or no retry left" if fatal and detail.on_failure is None else ""


def newest(uncounted: list[Pod]) -> list[Pod]:
    """Return the pods that are shown, the oldest first: those that have not ended before those that succeeded."""
    by_age = sorted(uncounted, key=lambda pod: (not pod.has_ended, pod.created, pod.name))
    return sorted(by_age[-MOST_PODS:], key=lambda pod: (pod.started or pod.created, pod.name))


def others_of(root: Json, uncounted: list[Pod], shown: list[Pod]) -> dict[str, int]:
    """Return how many pods have not failed and are not shown, by state; also those that were not read."""
    states = Counter(map(_state_of, shown))
    found = Counter(map(_state_of, uncounted)) - states
    if pending.omits_succeeded(root):
        found["succeeded"] = root["status"]["succeeded"] - states["succeeded"]
    return dict(found)


def running_row(pod: Pod, attempt: int, unit: str) -> Row:
    """Return the row of a pod that has not failed; `unit`: its scope."""
    return Row(
        attempt=attempt,
        unit=unit,
        pod=pod.name,
        node=pod.node,
        placement=PLACEMENTS.get(pod.placement, ""),
        start=pod.started,
        end=pod.ended,
        ended=": ".join(filter(None, (_state_of(pod), _waits_for(pod)))),
        rule="",
        cost="none" if pod.has_ended else "",
        retries_left=None,
        disruptions_left=None,
        after=words.state(on_failure.read(pod.after)) if pod.after else "",
    )


def _state_of(pod: Pod) -> str:
    if pod.has_ended:
        return "succeeded"
    if pod.deleting:
        return "being deleted"
    return "delayed" if pod.waiting is not None and pod.waiting.gate is not None else pod.phase.lower()


def _waits_for(pod: Pod) -> str:
    """Return what keeps a pod from starting, other than a delay; empty if nothing is known."""
    if pod.waiting is None or pod.deleting:
        return ""
    if pod.waiting.unschedulable:
        return "no node takes it"
    stalled = pod.waiting.stalled
    return "" if stalled is None or stalled.reason in PREPARING else stalled.reason
