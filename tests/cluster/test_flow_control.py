"""The FlowSchemas of the manifests: the API server uses them for the server's requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.awaiting import until
from tests.cluster.flow_control import LEVEL_HEADER, SCHEMA_HEADER, Caller, uid_of
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


@pytest.mark.parametrize("request_", [*REQUESTS, *OF_CONTROLLER], ids=" ".join)
def test_a_request_of_a_program_has_the_flow_schema_and_the_level_of_the_manifests(
    kubectl: Kubectl, request_: tuple[str, str]
) -> None:
    method, path = request_
    schema, level = (REQUESTS | OF_CONTROLLER)[request_]
    uids = (uid_of(kubectl, "flowschema", schema), uid_of(kubectl, "prioritylevelconfiguration", level))
    body: Any = {"spec": ACCESS, **REVIEW} if "reviews" in path else {} if method in {"POST", "PUT"} else None
    caller = Caller(kubectl, CONTROLLER_ACCOUNT if request_ in OF_CONTROLLER else SERVICE_ACCOUNT)

    def found() -> tuple[str | None, str | None]:
        headers = caller.call(method, path, body).headers
        return headers.get(SCHEMA_HEADER), headers.get(LEVEL_HEADER)

    until(lambda: found() == uids)  # the API server uses new FlowSchemas a moment later


def test_the_flow_schemas_are_only_for_the_two_programs(kubectl: Kubectl) -> None:
    ours = {uid_of(kubectl, "flowschema", name) for name, _ in (OF_LEASES, OF_LOOKUPS, OF_THE_REST)}
    token = kubectl.run("create", "token", "default", f"--namespace={SYSTEM}").stdout.strip()
    caller = Caller(kubectl)
    caller.token = token
    for method, path in REQUESTS | OF_CONTROLLER:
        assert caller.call(method, path, {} if method in {"POST", "PUT"} else None).headers[SCHEMA_HEADER] not in ours
