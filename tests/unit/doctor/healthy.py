"""A cluster in which nothing is wrong, as `load` reads it; tests change a part of it."""

import base64
from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from certs import issue
from tests.admission import mutate
from tests.objects import job, job_spec
from webhook.doctor.finding import Diagnosis
from webhook.doctor.installation import Installation
from webhook.doctor.shipped import CONTROLLER, LEDGER, MUTATING, NAME, NAMESPACE, POLICY, VALIDATING, shipped_in
from webhook.doctor.snapshot import Probe, SeenLease, Snapshot
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.parse import load_default
from webhook.rules.facts import Facts

VERSION: Final = "0.9.9"
NOW: Final = datetime(2026, 11, 23, 12, tzinfo=UTC)
AUTHORITY: Final = issue.new_authority("ours", now=NOW, lifetime=timedelta(days=300))
STRANGER: Final = issue.new_authority("stranger", now=NOW, lifetime=timedelta(days=300))
POLICY_TEXT: Final = (
    "{apiVersion: retry-policy.dev/v1alpha1, kind: RetryPolicy, profiles: {default: {}, gpu: {retries: {limit: 2}}}}"
)
SPOT: Final = "cloud.google.com/gke-spot=true"
READY: Final = {"conditions": [{"type": "Ready", "status": "True"}]}


def base64_of(content: bytes) -> str:
    return base64.b64encode(content).decode()


def leaf(authority: issue.KeyPair = AUTHORITY, host: str = f"{NAME}.{NAMESPACE}.svc", days: int = 30) -> bytes:
    """Return a certificate of the server, valid from NOW."""
    made = issue.issue(authority, NAME, now=NOW, lifetime=timedelta(days=days), hosts=[host])
    return made.certificate


LEAF: Final = leaf()


def deployment(*args: str, wanted: int = 2, ready: int = 2, **metadata: Any) -> Json:
    """Return the Deployment with these further options of the server, and so many replicas."""
    labels = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/version": VERSION}
    container = {
        "name": "webhook",
        "image": f"{NAME}:{VERSION}",
        "args": ["serve", f"--policy-configmap={NAMESPACE}/retry-policy", *args],
    }
    template = {"metadata": {"labels": labels}, "spec": {"serviceAccountName": NAME, "containers": [container]}}
    return {
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels, **metadata},
        "spec": {
            "replicas": wanted,
            "selector": {"matchLabels": {"app.kubernetes.io/name": NAME}},
            "template": template,
        },
        "status": {"readyReplicas": ready},
    }


def controller(**metadata: Any) -> Json:
    """Return the Deployment of the controller."""
    root = deepcopy(deployment(**metadata))
    root["metadata"]["name"] = CONTROLLER
    root["spec"]["template"]["spec"]["serviceAccountName"] = CONTROLLER
    return root


def configuration(kind: str, authority: issue.KeyPair = AUTHORITY) -> Json:
    """Return a webhook configuration as shipped, with a CA in every caBundle."""
    hooks = deepcopy(list(shipped_in(NAMESPACE, requested_retries=False).webhooks(kind).values()))
    for hook in hooks:
        hook["clientConfig"]["caBundle"] = base64_of(authority.certificate)
    return {"metadata": {"name": NAME}, "webhooks": hooks}


def pod(name: str, status: Json | None = None) -> Json:
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "status": READY if status is None else status}


def namespace(name: str = "ml", **labels: str) -> Json:
    return {"metadata": {"name": name, "labels": {names.PREFIX + key: value for key, value in labels.items()}}}


def node(name: str, *labels: str, **fields: Any) -> Json:
    """Return a node of GKE with these further labels, each KEY=VALUE."""
    own = dict(one.split("=") for one in ("cloud.google.com/gke-nodepool=main", *labels))
    return {"metadata": {"name": name, "labels": own}, "spec": {}, **fields}


def lease(age: float = 1.0, name: str = LEDGER, holder: str = "pod-0_uid", *, renewed: bool | None = None) -> SeenLease:
    """Return a Lease that was renewed `age` seconds ago."""
    spec = {"holderIdentity": holder, "renewTime": (NOW - timedelta(seconds=age)).isoformat()}
    return SeenLease(name, {"spec": spec}, NOW, renewed)


def stored_job(**labels: str) -> Json:
    """Return a Job as the API server returns it; with `profile`, after the webhook has changed it."""
    root = job(job_spec(backoffLimit=6))
    return root if not labels else dict(mutate(root, Facts(profile_name=labels["profile"])).object)


def healthy(**changes: Any) -> Snapshot:
    """Return a cluster in which nothing is wrong, apart from `changes`: the fields of a Snapshot."""
    wanted = shipped_in(NAMESPACE, requested_retries=False)
    policies = [
        {"metadata": {"name": name}, "spec": wanted.find(POLICY, name)["spec"]} for name in wanted.names(POLICY)
    ]
    bindings = [{"spec": {"policyName": name, "validationActions": ["Deny"]}} for name in wanted.names(POLICY)]
    root, of_controller = changes.pop("deployment", deployment()), changes.pop("controller", controller())
    fields: dict[str, Any] = {
        "version": VERSION,
        "installed": Installation(NAMESPACE, root, controller=of_controller),
        "server_version": "v1.36.3",
        "now": NOW,
        "mutating": [configuration(MUTATING)],
        "validating": [configuration(VALIDATING)],
        "deployments": [root, of_controller],
        "services": [{"metadata": {"name": NAME}, "spec": {"selector": {"app.kubernetes.io/name": NAME}}}],
        "pods": [pod("pod-0"), pod("pod-1")],
        "slices": [{"endpoints": [{"conditions": {"ready": True}}, {"conditions": {}}]}],
        "events": [],
        "certificates": [{"metadata": {}, "data": {"tls.crt": base64_of(LEAF)}}],
        "leases": [lease()],
        "config_maps": [{"metadata": {}, "data": {"policy.yaml": POLICY_TEXT}}],
        "policy": load_default(),
        "nodes": [node("spot-0", SPOT), node("plain-0")],
        "node_pools": [],
        "namespaces": [namespace(profile="default")],
        "kinds": {
            ("batch", "jobs"): ["v1"],
            ("batch", "cronjobs"): ["v1"],
            ("retry-policy.dev", "accounts"): ["v1alpha1"],
        },
        "job_set_crd": [],
        "missing_rights": [],
        "admission_policies": policies,
        "admission_bindings": bindings,
        "mutating_policies": [],
        "probe": Probe(
            "ml", None, stored_job(profile="default"), "", (), f"metadata.annotations[{names.INTERRUPTIBLE}]"
        ),
    }
    return Snapshot(**{**fields, **changes})


def wrong(check: Callable[[Snapshot], Any], snapshot: Snapshot) -> list[Diagnosis]:
    """Return the findings of a check that are not ok."""
    return [one for one in check(snapshot) if one.status != "ok"]


def told(check: Callable[[Snapshot], Any], snapshot: Snapshot) -> tuple[str, str, str]:
    """Return status, text and command of the only finding that is not ok; fail if there are others."""
    (found,) = wrong(check, snapshot)
    return found.status, f"{found.where}: {found.what}", found.fix
