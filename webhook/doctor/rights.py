"""Finds the permissions that the two programs need and lack: by asking the API server, else by reading the roles."""

import asyncio
from http import HTTPStatus
from typing import Final

from webhook.doctor.installation import Installation
from webhook.doctor.shipped import NeededRight, rights_of
from webhook.kube.client import Api, ApiError
from webhook.kube.paths import path_of
from webhook.objects.problem import Json

REVIEWS: Final = path_of("authorization.k8s.io/v1", "subjectaccessreviews")
RBAC: Final = "rbac.authorization.k8s.io/v1"
AT_ONCE: Final = 10  # reviews


async def missing(api: Api, installed: Installation, rights: list[NeededRight]) -> list[NeededRight]:
    """Return those of these permissions that the programs do not have; raise as `Api` does."""
    try:
        return await _refused(api, installed, rights)
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
    return await _not_granted(api, installed, rights)


async def _refused(api: Api, installed: Installation, rights: list[NeededRight]) -> list[NeededRight]:
    """Return the permissions that the API server denies to the programs; raise as `Api` does."""
    places = asyncio.Semaphore(AT_ONCE)

    async def is_allowed(right: NeededRight) -> bool:
        async with places:
            answer = await api.create(REVIEWS, _review(installed, right))
        return bool(answer["status"].get("allowed"))

    first = await is_allowed(rights[0])  # alone: a user who may not ask is refused once
    answers = [first, *await asyncio.gather(*map(is_allowed, rights[1:]))]
    return [right for right, allowed in zip(rights, answers, strict=True) if not allowed]


def _review(installed: Installation, right: NeededRight) -> Json:
    resource, _, sub = right.resource.partition("/")
    attributes = {"namespace": right.namespace, "group": right.group, "resource": resource, "verb": right.verb}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": installed.username(right.account),
            "groups": [
                "system:serviceaccounts",
                f"system:serviceaccounts:{installed.namespace}",
                "system:authenticated",
            ],
            "resourceAttributes": {**attributes, "subresource": sub, "name": right.name},
        },
    }


async def _not_granted(api: Api, installed: Installation, rights: list[NeededRight]) -> list[NeededRight]:
    """Return the permissions that no role of the shipped names grants to the programs; raise as `Api` does."""
    granted: set[NeededRight] = set()
    for role, namespace, account in dict.fromkeys((one.role, one.namespace, one.account) for one in rights):
        kind = "roles" if namespace else "clusterroles"
        found = await api.find(path_of(RBAC, kind, namespace or None, role))
        binding = await api.find(path_of(RBAC, kind.replace("roles", "rolebindings"), namespace or None, role))
        if found is not None and binding is not None and _is_bound(binding, installed.namespace, account):
            granted |= {
                right for rule in found.get("rules") or () for right in rights_of(role, namespace, rule, account)
            }
    return [one for one in rights if one not in granted]


def _is_bound(binding: Json, namespace: str, account: str) -> bool:
    subjects = binding.get("subjects") or ()
    return ("ServiceAccount", namespace, account) in {
        (one.get("kind"), one.get("namespace"), one.get("name")) for one in subjects
    }
