"""Decides how long a pod may wait, or tell no progress, and what follows. Pure; times are in seconds since 1970."""

import math
from typing import Final, Literal, NamedTuple

from msgspec.structs import replace

from webhook.objects.times import seconds
from webhook.pods import on_failure, outcomes
from webhook.pods.outcomes import Outcome
from webhook.pods.pods import Condition, Pod
from webhook.pods.waiting import Stalled
from webhook.policy.settings import Settings
from webhook.systems.core import DISRUPTED

# What the leader does: remove the gate, end a pod that waits for a spot node, give up a pod that cannot start, end a
# pod that its kubelet should have ended, or one whose program tells no progress.
Step = Literal["lift", "leave_spot", "give_up", "leave_node", "end_stalled"]

# Reasons of the kubelet for which a container can never start. An image that cannot be pulled, and a missing ConfigMap,
# may still come.
HOPELESS: Final = frozenset({"InvalidImageName"})


class Due(NamedTuple):
    """What follows if a pod still waits, or has told nothing new, at the time `at`."""

    step: Step
    at: float


def due(
    pod: Pod, settings: Settings, released: float = 0.0, turns_at: float | None = None, told: float = math.inf
) -> Due | None:
    """Return what follows if a pod goes on waiting, or telling nothing new; None if it may do so for ever.

    `settings`: those of its Job. `released`: when its last scheduling gate was removed; 0 if that is not known.
    `turns_at`: until when its deadline lets it wait for a spot node; None without one. `told`: when its program told
    its progress last, or a replica could not have seen it; infinite if it is not expected to.
    """
    waiting = pod.waiting
    if waiting is None:
        return _until_stalled(pod, settings, told)
    if waiting.deadline:
        timeout = settings.profile.unreachable_timeout
        return None if timeout is None else Due("leave_node", at(waiting.deadline) + timeout)
    leaves = None if turns_at is None or pod.placement != "Spot" else Due("leave_spot", turns_at)
    if waiting.gate is not None:
        lifted = Due("lift", _end_of_delay(pod, settings))
        return lifted if leaves is None or lifted.at <= leaves.at else leaves
    if leaves is not None and (waiting.gated or waiting.unschedulable):
        return leaves
    if waiting.unschedulable and pod.placement == "Spot":
        wait = settings.profile.placement.spot_wait
        # The condition has the time of its first gate.
        began = max(at(waiting.unschedulable), at(on_failure.read(pod.after).not_before), released)
        return None if wait is None else Due("leave_spot", began + wait)
    if waiting.stalled is not None:
        return _until_given_up(waiting.stalled, settings)
    return None


def _end_of_delay(pod: Pod, settings: Settings) -> float:
    """Return when the delay of a pod ends: not later than its rule allows, and at once if that rule is gone.

    The time in the annotation alone is no bound: it is computed from the status of a pod, which users may write.
    """
    state, rules = on_failure.read(pod.after), settings.on_failure
    delay = rules[state.rule].next.delay if state.rule is not None and 0 <= state.rule < len(rules) else None
    if delay is None or pod.waiting is None:
        return 0.0
    return min(at(state.not_before), at(pod.waiting.created) + max(delay.initial, delay.limit))


def _until_given_up(stalled: Stalled, settings: Settings) -> Due | None:
    """Return when a container that has not started is given up; None if that is never."""
    timeout = settings.profile.start_timeout
    if stalled.reason in HOPELESS and (timeout is not None or _is_ruled(settings)):
        return Due("give_up", 0.0)
    return None if timeout is None else Due("give_up", at(stalled.since) + timeout)


def _until_stalled(pod: Pod, settings: Settings, told: float) -> Due | None:
    """Return when a pod that runs is ended because its program tells no progress; None if that is never."""
    timeout = settings.profile.stall_timeout
    if timeout is None or pod.phase != "Running" or told == math.inf:
        return None
    return Due("end_stalled", told + timeout)


def _is_ruled(settings: Settings) -> bool:
    """Return True if a rule of onFailure names pods that have never started."""
    return any(rule.match.cause == outcomes.NEVER_STARTED for rule in settings.on_failure)


def may_try_again(pod: Pod, stalled: Stalled, settings: Settings) -> bool:
    """Return True if a rule of onFailure asks for another attempt after a pod that has not started.

    Without such a rule its Job fails. It fails too if another container of the pod runs: then the pod cannot be ended
    in one step, and the next one could run beside it.
    """
    if not stalled.alone:
        return False
    ended = given_up(pod, stalled)
    outcome = Outcome(pod=ended, cause=outcomes.NEVER_STARTED, reason=ended.reason, rule=None, cost="disruption")
    index = on_failure.decided(ended, outcome, settings.on_failure)
    return index is not None and settings.on_failure[index].next.cost != "Fatal"


def given_up(pod: Pod, stalled: Stalled) -> Pod:
    """Return a pod as it is after the leader has ended it because it has not started."""
    condition = Condition(DISRUPTED, "True", outcomes.NEVER_STARTED, "")
    return replace(pod, phase="Failed", reason=stalled.reason, conditions=(condition,), waiting=None)


def words_about(pod: Pod, stalled: Stalled, settings: Settings) -> str:
    """Return the message of the condition of a Job, or of a pod, that is ended because a container has not started."""
    what = f"Container {stalled.container} for pod {pod.namespace}/{pod.name}"
    how = "can never start" if stalled.reason in HOPELESS else f"has not started in {settings.profile.start_timeout} s"
    return ": ".join(filter(None, (f"{what} {how}", stalled.reason, stalled.message)))


def at(time: str) -> float:
    """Return a time of the API in seconds since 1970; 0 if the text is no time."""
    return seconds(time) or 0.0
