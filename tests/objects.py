"""Makes Kubernetes objects for tests; fields that a test does not pass have the values that authors use most."""

from typing import Any

from webhook.kube import names
from webhook.kube.state_key import SIZE, StateKey
from webhook.objects.problem import Json

STATE_KEY = StateKey(b"k" * SIZE)
DISRUPTION: Json = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def exit_codes(action: str, operator: str, *values: int, container: str | None = None) -> Json:
    named = {} if container is None else {"containerName": container}
    return {"action": action, "onExitCodes": {**named, "operator": operator, "values": list(values)}}


def job_spec(
    *,
    containers: tuple[str | Json, ...] = ("main",),
    init_containers: tuple[Json, ...] = (),
    restart_policy: str | None = "Never",
    pod_annotations: Json | None = None,
    rules: list[Json] | None = None,
    **fields: Any,
) -> Json:
    """Return a JobSpec as an author writes it, without the API's defaults."""
    pod_spec: Json = {"containers": [container_of(one) for one in containers]}
    if init_containers:
        pod_spec["initContainers"] = [container_of(one) for one in init_containers]
    if restart_policy is not None:
        pod_spec["restartPolicy"] = restart_policy
    template: Json = {"spec": pod_spec}
    if pod_annotations is not None:
        template["metadata"] = {"annotations": pod_annotations}
    spec: Json = {"template": template}
    if rules is not None:
        spec["podFailurePolicy"] = {"rules": rules}
    return {**spec, **fields}


def container_of(container: str | Json) -> Json:
    return {"name": container, "image": "example.test/main"} if isinstance(container, str) else container


def job(spec: Json | None = None, **metadata: Any) -> Json:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "ml", **metadata},
        "spec": job_spec() if spec is None else spec,
    }


def cron_job(spec: Json | None = None, template_metadata: Json | None = None, **metadata: Any) -> Json:
    template: Json = {"spec": job_spec() if spec is None else spec}
    if template_metadata is not None:
        template["metadata"] = template_metadata
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": "ml", **metadata},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": template},
    }


def pod(spec: Json | None = None, *, owner: str | None = "Job", **metadata: Any) -> Json:
    """Return a pod as a controller of the kind `owner` creates it; None for a pod without a controller."""
    references = {
        "Job": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-uid", "controller": True}],
        "ReplicaSet": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}],
        "DaemonSet": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "logs", "uid": "u", "controller": True}],
        "Pod": [{"apiVersion": "v1", "kind": "Pod", "name": "driver", "uid": "u", "controller": True}],
        "Wonder": [{"apiVersion": "x.test/v1", "kind": "Wonder", "name": "w", "uid": "u", "controller": True}],
    }
    owners = {} if owner is None else {"ownerReferences": references[owner]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "train-", **owners, **metadata},
        "spec": {"containers": [container_of("main")], **(spec or {})},
    }


def with_proof(root: Json) -> Json:
    """Return a pod whose annotations of ours the webhook proves by STATE_KEY."""
    metadata = root["metadata"]
    uid = next((one["uid"] for one in metadata.get("ownerReferences") or () if one.get("controller")), "")
    said = metadata["annotations"]
    proof = STATE_KEY.proof_of_state(metadata["namespace"], uid, said)
    return {**root, "metadata": {**metadata, "annotations": {**said, names.PROOF: proof}}}


def stored_job(spec: Json | None = None, status: Json | None = None, **metadata: Any) -> Json:
    """Return an admitted Job as a look-up of a pod's owner finds it."""
    labels = {names.PROFILE: "default", **metadata.pop("labels", {})}
    return {**job(spec, uid="job-uid", labels=labels, **metadata), "status": status or {}}
