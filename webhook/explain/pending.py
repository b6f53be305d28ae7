"""Finds out what a workload waits for: back-off, delays, a verdict of the ledger, refused pods. Pure.

Times are RFC 3339; `render` turns them into seconds from now.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from webhook.accounts import settling, words
from webhook.accounts.account import Attempt
from webhook.accounts.forecast import Standing
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.objects.times import seconds, shifted
from webhook.pods import on_failure, outcomes
from webhook.pods.pods import Exit, Pod
from webhook.policy.settings import Settings, count
from webhook.systems.job import spec as batch

FAILED_CREATE: Final = "FailedCreate"  # the reason of the Job controller's Events about refused pods
MOST_SUCCEEDED: Final = 200  # pods of an Indexed Job that are read, unless more have succeeded


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingVerdict:
    """A crash about which the ledger has not decided; `until`: when it does at the latest; `text`: what it may be."""

    pod: str
    until: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delayed:
    """A pod that is held back until the time `until`; `rule`: the index of the rule of onFailure that asked for it.

    `cause`: how the attempt before it ended. `rule` is None, and the others are empty, if the pod does not say it.
    """

    pod: str
    until: str
    rule: int | None
    cause: str


def delays(found: Iterable[Pod]) -> list[Delayed]:
    """Return the pods that a delay holds back, the first to end first.

    The times are those of the pods. The leader ends a delay earlier if the policy in force has another rule by now.
    """
    asked = [
        (pod.name, on_failure.read(pod.after))
        for pod in found
        if pod.waiting is not None and pod.waiting.gate is not None
    ]
    delayed = [Delayed(pod=name, until=one.not_before, rule=one.rule, cause=one.cause) for name, one in asked]
    return sorted(delayed, key=lambda one: (one.until, one.pod))


def verdicts(standing: Standing, found: Iterable[Pod]) -> Iterator[PendingVerdict]:
    """Yield the crashes of a Job that may be bugs, and that no disruption in its account or its pods explains yet."""
    settings = standing.settings_of(standing.job)
    if not settling.may_settle(standing.job, settings):
        yield from _judged(standing, settings)
        return
    within = settling.window(standing.job, settings)
    ended = standing.account.last_now
    crashes = [pod for pod in (crash_of(detail, standing.job) for detail in ended) if pod is not None]
    told_to_end = [pod for pod in crashes if settling.is_told_to_end(pod, settings)]
    disturbed = [detail.end for detail in ended if detail.cause in {"Disruption", outcomes.NEVER_STARTED}]
    disturbed += [pod.ended for pod in told_to_end] + [pod.deleted for pod in found if pod.deleting]
    for pod in crashes:
        crash = seconds(pod.ended)
        if crash is None or pod in told_to_end:
            continue
        times = (seconds(time) for time in disturbed)
        explained = any(time is not None and settling.is_explained(crash, time, within) for time in times)
        if not explained and settling.bug_in(standing.counted, pod, within) is not None:
            fault_within = settling.fault_within(settings)
            until = shifted(pod.ended, max(within, fault_within or 0))
            text = (
                f"pod {pod.name} (exit code {pod.exits[0].code}): {words.verdict(within, batch.JOB.kind, fault_within)}"
            )
            yield PendingVerdict(pod=pod.name, until=until, text=text)


def _judged(standing: Standing, settings: Settings) -> Iterator[PendingVerdict]:
    """Yield the last attempt if it ended in a way about which the ledger decides by the rules of onFailure."""
    last, rules = next(reversed(standing.account.last), None), settings.on_failure
    if last is None or last.cost != "retry" or not settling.may_judge(standing.job, settings):
        return
    pod, index = crash_of(last, standing.job), last.on_failure
    if index is not None and index < len(rules) and rules[index].next.cost == "Fatal" and last.rule is None:
        text = words.fatal_by(index, batch.JOB.kind)
    elif index is None and pod and settling.bug_in(standing.counted, pod) is not None:
        text = words.unlisted(batch.JOB.kind)
    else:
        return
    until = shifted(last.end, settling.fault_within(settings) or 0)
    yield PendingVerdict(pod=last.pod, until=until, text=f"pod {last.pod} ({words.how(last)}): {text}")


def crash_of(detail: Attempt, job: Json) -> Pod | None:
    """Return the pod of an attempt that crashed and cost a retry, with the fields that the account has; else None."""
    container, code, reason = detail.reason, "137", "OOMKilled"
    if detail.cause == "ExitCode":
        container, _, code = detail.reason.rpartition(" ")
        reason = ""
    if (
        detail.restart
        or detail.cause not in {"ExitCode", "OOMKilled"}
        or detail.cost != "retry"
        or not code.isdecimal()
    ):
        return None
    metadata = job["metadata"]
    return Pod(
        namespace=metadata.get("namespace") or "",
        name=detail.pod,
        uid="",
        job=metadata["name"],
        job_uid=metadata["uid"],
        exits=(Exit(container, int(code), reason, detail.end),),
        ended=detail.end,
    )


def waits_until(standing: Standing, pods: list[Pod], all_pods: Iterable[Json]) -> str:
    """Return when the Job controller, after its back-off, creates the next pod of a Job; empty if it does not wait."""
    if standing.job["spec"].get("backoffLimitPerIndex") is not None:
        missing = (pod for pod in missing_indexes(pods, standing.job) if pod.tracked and pod.ended)
        # Its replacement depends on the failures of its index alone.
        replaced_at = (_after(pod.ended, (pod.index_failures or 0) + (pod.index_ignored or 0) + 1) for pod in missing)
        return min(filter(None, replaced_at), default="")
    ends = [detail.end for detail in standing.account.last_now if detail.end and detail.cost != "none"]
    succeeded = max(map(_finished, all_pods), default="")
    ends = [end for end in ends if end > succeeded]
    return _after(max(ends), len(ends)) if ends else ""


def omits_succeeded(root: Json) -> bool:
    """Return True if a workload is a Job with indexes of which so many succeeded that their pods are not read."""
    succeeded = at(root, ("status", "succeeded")) or 0
    return succeeded > MOST_SUCCEEDED and batch.is_indexed(root.get("spec") or {})


def _completed(job: Json) -> Callable[[str], bool]:
    """Return the function that says if a completion index has succeeded, by the status of its Job."""
    text = at(job, ("status", "completedIndexes")) or ""
    pairs = (
        (count(first), count(last or first)) for first, _, last in (part.partition("-") for part in text.split(","))
    )
    known = [(first, last) for first, last in pairs if first is not None and last is not None]

    def is_completed(index: str) -> bool:
        number = count(index)
        place = bisect_right(known, number, key=itemgetter(0)) - 1 if number is not None else -1
        return place >= 0 and number is not None and number <= known[place][1]

    return is_completed


def missing_indexes(pods: Iterable[Pod], job: Json) -> list[Pod]:
    """Return the last failed pod of each completion index without a pod that runs or has succeeded."""
    there = {pod.index for pod in pods if not pod.has_failed}
    last: dict[str, Pod] = {}
    for pod in sorted((pod for pod in pods if pod.has_failed), key=lambda pod: pod.ended):
        last[pod.index] = pod
    is_completed = _completed(job) if last else bool
    return [pod for index, pod in last.items() if index not in there and not (index and is_completed(index))]


def _after(end: str, failures: int) -> str:
    """Return when a pod is replaced that ended at the time `end`; `failures`: how many have failed, with this one."""
    return shifted(end, batch.back_off(failures))


def _finished(pod: Json) -> str:
    if at(pod, ("status", "phase")) != "Succeeded":
        return ""
    ended = (at(one, ("state", "terminated", "finishedAt")) for one in at(pod, ("status", "containerStatuses")) or ())
    return max((str(time) for time in ended if time), default="")


def refusal(job: Json, pods: Iterable[Pod], events: Iterable[Json]) -> str:
    """Return why no pod of a Job can be created, by its Events; empty if none was refused after the last pod began."""
    began = max((pod.started for pod in pods), default="")
    name, uid = job["metadata"]["name"], job["metadata"].get("uid")
    of_job = [
        one
        for one in events
        if one.get("reason") == FAILED_CREATE
        and at(one, ("involvedObject", "name")) == name
        and at(one, ("involvedObject", "uid")) in {None, uid}
    ]
    last = max(of_job, key=_time_of, default=None)
    if last is None or _time_of(last) <= began:
        return ""
    return f"no pod can be created since {last.get('firstTimestamp') or _time_of(last)}: {last.get('message') or ''}"


def _time_of(event: Json) -> str:
    return event.get("lastTimestamp") or event.get("eventTime") or ""
