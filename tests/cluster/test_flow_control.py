"""The FlowSchemas of the manifests: the API server uses them for the server's requests."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.awaiting import until
from tests.cluster.flow_control import LEVEL_HEADER, SCHEMA_HEADER, Caller
from tests.cluster.installation import CONTROLLER_ACCOUNT, SERVICE_ACCOUNT, SYSTEM
from webhook.controller.app import RETRIES_LEASE
from webhook.program.start import LEDGER_LEASE

if TYPE_CHECKING:
    from tests.cluster.kubectl import Kubectl

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases"
REVIEW = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
ACCESS = {"user": "alice", "resourceAttributes": {"verb": "get", "resource": "pods"}}
OF_LEASES = (f"{SERVICE_ACCOUNT}-leases", "leader-election")
OF_LOOKUPS = (f"{SERVICE_ACCOUNT}-lookups", SERVICE_ACCOUNT)
OF_THE_REST = (SERVICE_ACCOUNT, SERVICE_ACCOUNT)
OF_CONTROLLER: dict[tuple[str, str], tuple[str, str]] = {
    ("GET", f"{LEASES}/{LEDGER_LEASE}"): OF_LEASES,
    ("PUT", f"{LEASES}/{RETRIES_LEASE}"): OF_LEASES,
    ("POST", LEASES): OF_LEASES,
    ("POST", "/api/v1/namespaces/default/events"): OF_THE_REST,
    ("DELETE", "/apis/batch/v1/namespaces/default/jobs/none"): OF_THE_REST,
}
REQUESTS: dict[tuple[str, str], tuple[str, str]] = {
    ("GET", "/api/v1/namespaces/default"): OF_LOOKUPS,
    ("GET", "/apis/batch/v1/namespaces/default/jobs/none"): OF_LOOKUPS,
    ("GET", "/api/v1/namespaces/default/resourcequotas?limit=1"): OF_LOOKUPS,
    ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews"): OF_LOOKUPS,
    ("GET", "/api/v1/pods?limit=1"): OF_THE_REST,
    ("GET", "/apis/batch/v1/jobs?watch=1&timeoutSeconds=1"): OF_THE_REST,
}


@pytest.mark.parametrize(
    ("account", "requests"),
    [(SERVICE_ACCOUNT, REQUESTS), (CONTROLLER_ACCOUNT, OF_CONTROLLER)],
    ids=["webhook", "controller"],
)
def test_each_request_of_a_program_has_the_flow_schema_and_the_level_of_the_manifests(
    kubectl: Kubectl, account: str, requests: dict[tuple[str, str], tuple[str, str]]
) -> None:
    schemas, levels = (uids_of(kubectl, kind) for kind in ("flowschemas", "prioritylevelconfigurations"))
    caller = Caller(kubectl, account)
    for (method, path), (schema, level) in requests.items():
        until(partial(has, caller, method, path, (schemas[schema], levels[level])))


def uids_of(kubectl: Kubectl, kind: str) -> dict[str, str]:
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in kubectl.get(kind)["items"]}


def has(caller: Caller, method: str, path: str, uids: tuple[str, str]) -> bool:
    """Return True if a request has this FlowSchema and level; the API server uses new ones a moment later."""
    body: Any = {"spec": ACCESS, **REVIEW} if "reviews" in path else {} if method in {"POST", "PUT"} else None
    headers = caller.call(method, path, body).headers
    return (headers.get(SCHEMA_HEADER), headers.get(LEVEL_HEADER)) == uids


def test_the_flow_schemas_are_only_for_the_two_programs(kubectl: Kubectl) -> None:
    uids = uids_of(kubectl, "flowschemas")
    ours = {uids[name] for name, _ in (OF_LEASES, OF_LOOKUPS, OF_THE_REST)}
    token = kubectl.run("create", "token", "default", f"--namespace={SYSTEM}").stdout.strip()
    caller = Caller(kubectl)
    caller.token = token
    for method, path in REQUESTS | OF_CONTROLLER:
        assert caller.call(method, path, {} if method in {"POST", "PUT"} else None).headers[SCHEMA_HEADER] not in ours
