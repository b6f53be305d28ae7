"""Volcano Jobs for tests, and what Volcano's own webhook refuses in their policies."""

from collections.abc import Iterator
from typing import Any, Final

from webhook.objects.problem import Json

EVENTS: Final = frozenset(
    {"*", "PodFailed", "PodEvicted", "PodPending", "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated"}
)
ACTIONS: Final = frozenset(
    {
        *("AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition"),
        *("TerminateJob", "CompleteJob", "ResumeJob"),
    }
)


def on(*events: str, action: str, **more: Any) -> Json:
    return {**({"event": events[0]} if len(events) == 1 else {"events": [*events]}), "action": action, **more}


def exits(code: int, action: str, **more: Any) -> Json:
    return {"exitCode": code, "action": action, **more}


def task(*policies: Json, name: str = "main", replicas: int = 1, restart_policy: str | None = "Never") -> Json:
    spec = {"containers": [{"name": "main", "image": "example.test/main"}]}
    template = {"spec": {**spec, **({"restartPolicy": restart_policy} if restart_policy else {})}}
    own = {"policies": [*policies]} if policies else {}
    return {"name": name, "replicas": replicas, **own, "template": template}


def volcano_job(*policies: Json, tasks: list[Json] | None = None, name: str = "train", **spec: Any) -> Json:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            **({"policies": [*policies]} if policies else {}),
            **spec,
            "tasks": [task()] if tasks is None else tasks,
        },
    }


def refusals(root: Json) -> list[str]:
    """Return what Volcano's webhook refuses in the policies of a Job and its tasks."""
    lists = [root["spec"].get("policies"), *(one.get("policies") for one in root["spec"]["tasks"])]
    return [refusal for policies in lists for refusal in refused(policies or [])]


def refused(policies: list[Json]) -> Iterator[str]:
    """Yield what validatePolicies in pkg/webhooks/admission/jobs/validate/util.go of Volcano refuses."""
    events: list[str] = []
    codes: list[int] = []
    for policy in policies:
        named = [*policy.get("events", ()), *([policy["event"]] if policy.get("event") else ())]
        code = policy.get("exitCode")
        if bool(named) == (code is not None):
            yield "either event or exitCode"
        if code == 0:
            yield "0 is not a valid error code"
        if code in codes:
            yield f"duplicate exitCode {code}"
        codes += [] if code is None else [code]
        for event in dict.fromkeys(named):
            if event not in EVENTS or policy.get("action") not in ACTIONS:
                yield f"invalid policy event or action: {event}, {policy.get('action')}"
            if event in events:
                yield f"duplicate event {event}"
            events.append(event)
    if "*" in events and len(events) > 1:
        yield "no other policy beside *"
