"""A Workflow with an account, and its pods, as the API has them."""

from collections.abc import Iterable
from typing import Any
from unittest.mock import patch
from uuid import NAMESPACE_URL, uuid5

import msgspec

from tests.accounts import held, holding
from webhook.accounts.account import Account
from webhook.explain import build
from webhook.explain.build import Explanation
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.applied import applied, applied_rules
from webhook.policy.model import Profile
from webhook.rules.undo import Record
from webhook.systems.accounts import SYSTEMS
from webhook.systems.argo import spec as argo
from webhook.systems.argo.spec import NODE_NAME
from webhook.systems.system import System

OWNER: Json = {
    "apiVersion": argo.WORKFLOW.api_version,
    "kind": argo.WORKFLOW.kind,
    "name": "train",
    "uid": "workflow-uid",
    "controller": True,
}


def workflow(account: Account | None = None, profile: Profile | None = None, **status: Any) -> Json:
    """Return a Workflow as the API has it; `profile`: the one that admission recorded on it."""
    annotations = {}
    if profile is not None:
        codes = profile.failure_policy.retriable_exit_codes
        record = Record(
            "default", applied=applied(profile), retriable_exit_codes=codes, on_failure=applied_rules(profile)
        )
        annotations[names.POLICY] = msgspec.json.encode(record).decode()
    template = {"name": "main", "retryStrategy": {"limit": 3}, "container": {"image": "x"}}
    root = {
        "apiVersion": argo.WORKFLOW.api_version,
        "kind": argo.WORKFLOW.kind,
        "metadata": {
            "name": "train",
            "namespace": "ml",
            "uid": "workflow-uid",
            "resourceVersion": "7",
            "annotations": annotations,
        },
        "spec": {"entrypoint": "main", "templates": [template]},
        "status": status,
    }
    return holding(argo.WORKFLOW, root, account)


def explain(system: System, root: Json, pods: Iterable[Json]) -> Explanation:
    with patch.dict(SYSTEMS, {system.kind: system}):
        return build.explain(system.kind, root, [], [*pods, *held(root)])


def pod(step: str, attempt: int = 0, *, limit: int = 3, minute: int = 0, **status: Any) -> Json:
    """Return a pod of a step of the Workflow `train`."""
    name = f"train-{step}-{attempt}"
    annotations = {
        NODE_NAME: f"train.{step}({attempt})",
        names.ATTEMPT: str(attempt),
        names.MAX_RETRIES: str(limit),
        names.PLACEMENT: "Spot",
    }
    times = f"2026-11-23T12:{minute:02}:00Z"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": "ml",
            "name": name,
            "uid": str(uuid5(NAMESPACE_URL, name)),
            "creationTimestamp": times,
            "ownerReferences": [OWNER],
            "annotations": annotations,
            "labels": {"workflows.argoproj.io/workflow": "train", names.PROFILE: "default"},
        },
        "spec": {"nodeName": "node-1"},
        "status": {"startTime": times, "phase": "Running", **status},
    }


def exit_with(code: int, minute: int = 1) -> Json:
    """Return the status of a pod whose container ended with an exit code."""
    terminated = {"exitCode": code, "reason": "Error", "finishedAt": f"2026-11-23T12:{minute:02}:30Z"}
    return {"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": terminated}}]}
