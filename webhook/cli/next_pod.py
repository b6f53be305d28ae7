"""Makes the next pod of a Job, from how the attempts before it ended; without a cluster."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, inspect

from webhook.accounts import forecast, limits, words
from webhook.accounts.account import Account, Attempt
from webhook.accounts.forecast import Standing
from webhook.accounts.tracker import LAST_ENDS
from webhook.admission import engine
from webhook.admission.review import Response
from webhook.admission.subject import request_to_create, subject_of
from webhook.explain.next_failure import limit_exceeded, verdict
from webhook.kube import names
from webhook.objects.patch import at
from webhook.objects.problem import Json, Problem
from webhook.pods import on_failure, outcomes
from webhook.pods.pods import INDEX, Exit, Pod
from webhook.policy.causes import MatchedCause
from webhook.policy.model import ContainerName, ExitCode, Policy, Reason
from webhook.policy.reader import Reader
from webhook.policy.settings import NamedProfile, Settings
from webhook.rules.facts import Facts
from webhook.systems.core import KILLED, TERMINATED
from webhook.systems.job import spec as batch

MESSAGE: Final = "message="
NUMBER: Final = re.compile("[0-9]{1,10}")
MOST_ENDS: Final = 20
BY_SIGKILL: Final = ("OOMKilled", "DeadlineExceeded")


def meaning(text: str) -> Meta:
    """Return what a field means, for the reference and the JSON schema."""
    return Meta(extra={"meaning": text})


class Ended(Struct, frozen=True, kw_only=True, rename="camel"):
    """How one attempt ended."""

    cause: Annotated[
        MatchedCause | None, meaning("Why it ended. Left out: ExitCode with an exit code or a message, else Other.")
    ] = None
    reason: Annotated[
        Reason | None,
        meaning("The reason of the disruption, of the container or of the pod. Left out: the most frequent one."),
    ] = None
    container: Annotated[ContainerName | None, meaning("The container that ended. Left out: the first one.")] = None
    exit_code: Annotated[
        ExitCode | None,
        meaning("Its exit code. Left out: 137 with OOMKilled and DeadlineExceeded, 143 with Disruption, else 1."),
    ] = None
    message: Annotated[str, meaning("Its termination message.")] = ""
    node: Annotated[str, meaning("The node of the pod.")] = ""
    zone: Annotated[str, meaning("The zone of this node.")] = ""


@dataclass(frozen=True, slots=True)
class After:
    """The attempts before a pod: how they ended, the oldest first, and when the last one did."""

    ends: tuple[Ended, ...]
    now: datetime

    @property
    def attempt_of_pod(self) -> int:
        """The attempt of a Pod document, of whose controller nothing is known: disruptions do not count."""
        return sum(end.cause != "Disruption" for end in self.ends)


@dataclass(slots=True)
class NextPod:
    """The next pod as its controller creates it, and the facts with which it is admitted.

    `over`: why there is no next pod; empty if there is one.
    """

    pod: Json
    facts: Facts
    over: str = ""


def parsed(text: str) -> tuple[Ended | None, list[Problem]]:
    """Return what a text such as `cause=OOMKilled,node=n1` says, or None and its problems; `message` comes last."""
    fields, has_message, message = f",{text}".partition(f",{MESSAGE}")
    raw: Json = {}
    for part in fields.split(",")[1:]:
        key, _, value = part.partition("=")
        raw[key.strip()] = int(value) if NUMBER.fullmatch(value) else value.strip()
    if has_message:
        raw["message"] = message
    problems: list[Problem] = []
    found = Reader(problems, {}).value(raw, inspect.type_info(Ended), ())
    return (None, problems) if problems else (found, [])


def of_job(job: Json, after: After, attempt: int | None, profile: NamedProfile) -> NextPod:
    """Return the next pod of an admitted Job.

    `attempt`: that of the pod; None for the retries that the attempts before it cost. An Indexed Job's pod has the
    index 0.
    """
    spec = job["spec"]
    known = {**job, "metadata": {"name": "job", "uid": "job", **job["metadata"]}}
    standing = Standing(job=known, account=Account(), live=(), profile=profile)
    settings, per_index = standing.settings, standing.counted.budgets_of().per_index
    scope, over = "0" if batch.is_indexed(spec) else "", ""
    ended: list[Pod] = []
    for end in after.ends:
        spent = standing.account.spent("retry")
        state = on_failure.written(on_failure.state_after(ended[-LAST_ENDS:], job, None, settings.on_failure))
        of_index: dict[str, Any] = {
            "index": scope,
            "attempt": spent,
            "index_failures": spent if per_index else None,
        }
        container = _first_container(at(spec, ("template", "spec")))
        pod = ended_pod(end, len(ended), container, after.now, after=state, **of_index)
        counting = forecast.counted(standing, pod)
        over = over or _end_by(standing, pod, counting.details[-1])
        standing = replace(standing, account=counting.account)
        ended.append(pod)
    account = standing.account
    retries = account.spent("retry") if attempt is None else attempt
    facts = Facts(
        profile_name=profile.name,
        owner={**job, "status": {"failed": retries}},
        defaulted=False,
        disruptions=limits.share_of(account.scopes.of(scope), spec) if ended else None,
        failures=retries if ended else None,
    )
    return NextPod(pod_of(job, retries, is_said=attempt is not None), _with_ended(facts, ended, after.now), over)


def _end_by(standing: Standing, pod: Pod, detail: Attempt) -> str:
    """Return how a failed pod ended, as `detail` has it, and that no pod follows it; empty if one does."""
    told = forecast.foretell(standing, pod)
    if told.settled_within is not None:
        return f"{words.how(detail)}: {verdict(told, standing, standing.kind.kind)}"
    if not told.ends and not told.suspends:
        return ""
    if told.reason or told.suspends:
        does = "suspends" if told.suspends else "ends"
        return f"{words.how(detail)}: {does} the Job: {limit_exceeded(told, standing.counted.budgets_of())}"
    return f"{words.how(detail)}: {words.cost(detail)}"


def facts_of_pod(facts: Facts, pod: Json, after: After, settings: Settings) -> Facts:
    """Return the facts of a Pod document, of whose controller nothing is known."""
    ended: list[Pod] = []
    for end in after.ends:
        state = on_failure.written(on_failure.state_after(ended[-LAST_ENDS:], None, None, settings.on_failure))
        ended.append(ended_pod(end, len(ended), _first_container(pod.get("spec")), after.now, after=state))
    return _with_ended(facts, ended, after.now)


def _with_ended(facts: Facts, ended: Sequence[Pod], now: datetime) -> Facts:
    """Return facts with the last ended pods; a pod without any is created at no certain time."""
    if not ended:
        return facts
    return msgspec.structs.replace(facts, ended=tuple(ended[-LAST_ENDS:]), now=now.timestamp())


def admit(made: NextPod, policy: Policy) -> Response:
    """Mutate a next pod in place; return the response, with a warning if no pod follows."""
    subject = subject_of(request_to_create(made.pod), made.pod)
    response = Response() if subject is None else engine.mutate(subject, policy, made.facts)
    if made.over:
        warning = Problem((), f"no pod follows {made.over}", "shown is the pod that would be next otherwise")
        response.warnings = [*response.warnings, warning]
    return response


def ended_pod(end: Ended, number: int, container: str, now: datetime, **known: Any) -> Pod:
    """Return a pod that ended so; `container`: the name of its first container."""
    time = now.isoformat(timespec="seconds").replace("+00:00", "Z")
    has_exit = end.exit_code is not None or end.message or end.container is not None
    cause = end.cause or ("ExitCode" if has_exit else "Other")
    exits: tuple[Exit, ...] = ()
    if has_exit or cause in {"ExitCode", *BY_SIGKILL}:
        code = end.exit_code or {"Disruption": TERMINATED, **dict.fromkeys(BY_SIGKILL, KILLED)}.get(cause, 1)
        reason = {"OOMKilled": outcomes.OOM, "ExitCode": end.reason}.get(cause) or "Error"
        exits = (Exit(end.container or container, code, reason, time, end.message),)
    pod = Pod(
        namespace="",
        name=f"attempt-{number}",
        uid=f"attempt-{number}",
        job="job",
        job_uid="job",
        node=end.node,
        zone=end.zone,
        **known,
    )
    reason = end.reason or ("EvictionByEvictionAPI" if cause == "Disruption" else "")
    return forecast.as_ended(pod, cause, reason=reason, exits=exits, time=time)


def _first_container(pod_spec: Any) -> str:
    name = at(pod_spec, ("containers", 0, "name"))
    return name if isinstance(name, str) else "main"


def pod_of(job: Json, attempt: int, *, is_said: bool) -> Json:
    """Return a pod as the Job controller creates it for an attempt; `is_said`: whether it has the annotation for it."""
    spec, name = job["spec"], at(job, ("metadata", "name")) or "job"
    template: Json = msgspec.json.decode(msgspec.json.encode(spec["template"]))
    metadata = template.get("metadata") or {}
    said = {names.ATTEMPT: str(attempt), names.ATTEMPT_SOURCE: "Annotation"} if is_said else {}
    if batch.has_index_budgets(spec):
        said[batch.INDEX_FAILURES] = str(attempt)
    if batch.is_indexed(spec):
        said[INDEX] = "0"
    found = {**(metadata.get("annotations") or {}), **said}
    controller = {"apiVersion": "batch/v1", "kind": batch.JOB.kind, "name": name, "uid": name, "controller": True}
    namespace = at(job, ("metadata", "namespace"))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **metadata,
            "generateName": f"{name}-",
            **({"namespace": namespace} if namespace else {}),
            **({"annotations": found} if found else {}),
            "ownerReferences": [controller],
        },
        "spec": template["spec"],
    }
