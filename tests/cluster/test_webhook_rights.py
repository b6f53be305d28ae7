"""The webhook's token: RBAC itself refuses every write verb of every resource that the API server serves."""

from __future__ import annotations

import asyncio
import json
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

from tests.cluster.conftest import with_operators
from tests.cluster.installation import CONTROLLER_ACCOUNT, INSTALLED, SERVICE_ACCOUNT, SYSTEM, as_service_account, built
from tests.cluster.rights import granted
from webhook.kube.client import Api
from webhook.kube.paths import path_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.kubectl import Kubectl, Object

# Group, resource, and the name of an object, empty for all of them.
Target: TypeAlias = tuple[str, str, str]
WRITES = ("create", "update", "patch", "delete", "deletecollection", "bind", "escalate", "impersonate", "sign")
REVIEWS = path_of("authorization.k8s.io/v1", "selfsubjectaccessreviews")
# They store nothing. Every authenticated user may ask about itself; the webhook asks about users who request retries.
ASKED = {
    *(("authorization.k8s.io", f"selfsubject{kind}reviews") for kind in ("access", "rules")),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
}
AT_ONCE = 20


def review(target: Target, verb: str) -> Object:
    """Return the question of a token's owner for its own right in SYSTEM, where it has each that it has everywhere."""
    group, resource, name = target
    kind, _, sub = resource.partition("/")
    attributes = {"namespace": SYSTEM, "group": group, "resource": kind, "subresource": sub, "name": name}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {**attributes, "verb": verb}},
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


def named(kubectl: Kubectl) -> set[Target]:
    """Return the objects to which a role of one of the programs is limited: a right to one is none to all."""
    manifests = built(kubectl, INSTALLED)
    rights = granted(manifests, SERVICE_ACCOUNT) | granted(manifests, CONTROLLER_ACCOUNT)
    return {(group, resource, name) for _, group, resource, name, _ in rights if name}


async def everything(kubectl: Kubectl) -> set[Target]:
    """Return every served resource, and the objects to which a role of one of the programs is limited."""
    async with await Api.connect(str(kubectl.kubeconfig)) as admin:
        return {(*one, "") for one in await resources(admin)} | named(kubectl)


async def allowed(kubectl: Kubectl, folder: Path, account: str, targets: set[Target]) -> set[tuple[str, str, str, str]]:
    """Return each target and verb of a write that is allowed everywhere or in SYSTEM."""
    places = asyncio.Semaphore(AT_ONCE)
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(json.dumps(as_service_account(kubectl, account)))
    async with await Api.connect(str(kubeconfig)) as api:

        async def ask(target: Target, verb: str) -> tuple[str, str, str, str] | None:
            async with places:
                answer = await api.create(REVIEWS, review(target, verb))
            return (*target, verb) if answer["status"]["allowed"] else None

        answers = await asyncio.gather(*(ask(*asked) for asked in product(targets, WRITES)))
    return {one for one in answers if one is not None}


@with_operators
def test_rbac_refuses_the_webhook_every_write_of_every_resource(kubectl: Kubectl, tmp_path: Path) -> None:
    targets = asyncio.run(everything(kubectl))
    assert len(targets) > 100
    found = asyncio.run(allowed(kubectl, tmp_path, SERVICE_ACCOUNT, targets))
    assert {one for one in found if one[:2] not in ASKED or one[3] != "create"} == set()


@with_operators
def test_the_same_question_finds_what_the_controller_may_write(kubectl: Kubectl, tmp_path: Path) -> None:
    expected = {
        ("batch", "jobs", "", "patch"),
        ("", "pods/status", "", "patch"),
        ("coordination.k8s.io", "leases", "", "create"),
        ("", "secrets", "retry-policy-webhook-certificates", "update"),
    }
    targets = {(group, resource, name) for group, resource, name, _ in expected}
    assert expected <= asyncio.run(allowed(kubectl, tmp_path, CONTROLLER_ACCOUNT, targets))
