"""The webhook's token: RBAC itself refuses every write verb of every resource that the API server serves."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import TYPE_CHECKING

from tests.cluster.conftest import with_operators
from tests.cluster.installation import CONTROLLER_ACCOUNT, SERVICE_ACCOUNT, SYSTEM
from webhook.kube.client import Api
from webhook.kube.paths import path_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.kubectl import Kubectl, Object

WRITES = ("create", "update", "patch", "delete", "deletecollection", "bind", "escalate", "impersonate", "sign")
REVIEWS = path_of("authorization.k8s.io/v1", "subjectaccessreviews")
# They store nothing. Every authenticated user may ask about itself; the webhook asks about users who request retries.
ASKED = {
    *(("authorization.k8s.io", f"selfsubject{kind}reviews") for kind in ("access", "rules")),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
}
AT_ONCE = 20


def review(account: str, namespace: str, group: str, resource: str, verb: str) -> Object:
    """Return the question whether a ServiceAccount may do something in a namespace; empty: in all of them."""
    kind, _, sub = resource.partition("/")
    attributes = {"namespace": namespace, "group": group, "resource": kind, "subresource": sub, "verb": verb}
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{SYSTEM}", "system:authenticated"]
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{SYSTEM}:{account}",
            "groups": groups,
            "resourceAttributes": attributes,
        },
    }


async def resources(api: Api) -> set[tuple[str, str]]:
    """Return group and name of every served resource, with its subresources."""
    groups = (await api.get("/apis"))["groups"]
    versions = ["/api/v1", *(f"/apis/{one['groupVersion']}" for group in groups for one in group["versions"])]
    found = set()
    for path in versions:
        group = "" if path == "/api/v1" else path.split("/")[2]
        found |= {(group, one["name"]) for one in (await api.get(path))["resources"]}
    return found


async def allowed(kubeconfig: Path, account: str) -> tuple[int, set[tuple[str, str, str]]]:
    """Return how many resources there are, and group, resource and verb of every write that is allowed anywhere."""
    places = asyncio.Semaphore(AT_ONCE)
    async with await Api.connect(str(kubeconfig)) as api:
        served = await resources(api)

        async def ask(namespace: str, one: tuple[str, str], verb: str) -> tuple[str, str, str] | None:
            async with places:
                answer = await api.create(REVIEWS, review(account, namespace, *one, verb))
            return (*one, verb) if answer["status"]["allowed"] else None

        answers = await asyncio.gather(*(ask(*asked) for asked in product(("", SYSTEM), served, WRITES)))
    return len(served), {one for one in answers if one is not None}


@with_operators
def test_rbac_refuses_the_webhook_every_write_of_every_resource(kubectl: Kubectl) -> None:
    number, found = asyncio.run(allowed(kubectl.kubeconfig, SERVICE_ACCOUNT))
    assert number > 100
    assert {one for one in found if one[:2] not in ASKED or one[2] != "create"} == set()


@with_operators
def test_the_same_question_finds_what_the_controller_may_write(kubectl: Kubectl) -> None:
    _, found = asyncio.run(allowed(kubectl.kubeconfig, CONTROLLER_ACCOUNT))
    assert {
        ("batch", "jobs", "patch"),
        ("", "pods/status", "patch"),
        ("coordination.k8s.io", "leases", "create"),
    } <= found
