"""How the doctor finds out which permissions the server lacks."""

import asyncio
from typing import Any, cast

import pytest

from tests.unit.doctor.answers import Answer, Answers
from tests.unit.doctor.healthy import deployment
from webhook.doctor.installation import Installation
from webhook.doctor.rights import missing
from webhook.doctor.shipped import NAME, NAMESPACE, NeededRight
from webhook.kube.client import Api, ApiError
from webhook.objects.problem import Json

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
INSTALLED = Installation(NAMESPACE, deployment())
STATUS = NeededRight(NAME, "", "batch", "jobs/status", "", "patch")
SECRET = NeededRight(NAME, NAMESPACE, "", "secrets", "x", "get")
FORBIDDEN: dict[str, Answer] = {REVIEWS: ApiError(403, "forbidden")}


def lacking(api: Answers, *rights: NeededRight) -> list[NeededRight]:
    return asyncio.run(missing(cast("Api", api), INSTALLED, list(rights)))


@pytest.mark.parametrize(("allowed", "expected"), [(True, []), (False, [STATUS, SECRET])])
def test_the_api_server_is_asked_for_each_permission(allowed: bool, expected: list[NeededRight]) -> None:  # noqa: FBT001 - a parameter of a test
    api = Answers({REVIEWS: {"status": {"allowed": allowed}}})
    assert lacking(api, STATUS, SECRET) == expected
    spec = api.created[0][1]["spec"]
    assert spec["user"] == f"system:serviceaccount:{NAMESPACE}:{NAME}"
    assert spec["resourceAttributes"]["resource"] == "jobs"
    assert spec["resourceAttributes"]["subresource"] == "status"
    assert api.created[1][1]["spec"]["resourceAttributes"] == {
        "namespace": NAMESPACE,
        "group": "",
        "resource": "secrets",
        "subresource": "",
        "name": "x",
        "verb": "get",
    }


def roles(rule: Json, subject: str = NAME) -> dict[str, Answer]:
    subjects = [{"kind": "ServiceAccount", "namespace": NAMESPACE, "name": subject}]
    return {
        **FORBIDDEN,
        f"{RBAC}/clusterroles/{NAME}": {"rules": [rule]},
        f"{RBAC}/clusterrolebindings/{NAME}": {"subjects": subjects},
    }


RULE = {"apiGroups": ["batch"], "resources": ["jobs/status"], "verbs": ["get", "patch"]}


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (roles(RULE), []),
        (roles({**RULE, "verbs": ["get"]}), [STATUS]),
        (roles(RULE, "other"), [STATUS]),
        (FORBIDDEN, [STATUS]),
    ],
    ids=["granted", "a verb is missing", "bound to another account", "no role"],
)
def test_a_user_who_may_not_ask_reads_the_roles(paths: dict[str, Answer], expected: list[NeededRight]) -> None:
    assert lacking(Answers(paths), STATUS) == expected


def test_a_user_who_may_not_read_the_roles_either_gets_the_error() -> None:
    with pytest.raises(ApiError):
        lacking(Answers(FORBIDDEN, ApiError(403, "forbidden")), STATUS)


def test_a_server_with_a_mounted_certificate_needs_no_secrets() -> None:
    def resources(*args: Any) -> set[str]:
        return {one.resource for one in Installation(NAMESPACE, deployment(*args)).rights}

    assert "secrets" in resources()
    assert "secrets" not in resources("--tls-cert=/tls/tls.crt")
    assert "subjectaccessreviews" not in resources()
    assert "subjectaccessreviews" in resources("--requested-retries")
