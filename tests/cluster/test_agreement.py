"""The rules agree with the API server, and the command line with the webhook, on generated objects.

RETRY_POLICY_EXAMPLES: how many objects each test generates (default 500, always the same ones).
"""

from __future__ import annotations

import json
import os
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.cluster.conftest import new_namespace
from tests.strategies import CRON_JOBS, JOBS, PODS, judged_jobs
from webhook.admission.subject import request_to_create, subject_of
from webhook.cli import admission
from webhook.kube import names
from webhook.objects.problem import field
from webhook.policy.model import Policy
from webhook.policy.parse import parse
from webhook.systems.job.rules import schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.namespace import Api, Namespace

Test = TypeVar("Test", bound="Callable[..., None]")
DEFAULT = 500
EXAMPLES = int(os.environ.get("RETRY_POLICY_EXAMPLES", DEFAULT))
PARTS = 4  # of each test, which generate objects at the same time

pytestmark = [pytest.mark.generated, pytest.mark.first, pytest.mark.parametrize("part", range(PARTS))]


def generated(part: int) -> Callable[[Test], Test]:
    """Return a decorator that gives a test its part of the objects."""
    drawn = settings(
        max_examples=EXAMPLES // PARTS,
        derandomize=False,  # with True each part would be the same
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    return lambda test: drawn(seed(part)(test) if EXAMPLES == DEFAULT else test)


@pytest.fixture(scope="module")
def plain(kubectl: Kubectl, api: Api) -> Namespace:
    """A namespace that is not opted in."""
    return new_namespace("agreement-plain", {}, kubectl, api)


@pytest.fixture(scope="module")
def opted_in(kubectl: Kubectl, api: Api) -> Namespace:
    return new_namespace("agreement-opted-in", {names.PROFILE: "default"}, kubectl, api)


def dry_run(team: Namespace, root: Object) -> Object:
    path = {"Pod": "api/v1", "Job": "apis/batch/v1", "CronJob": "apis/batch/v1"}[root["kind"]]
    return team.api.dry_run(f"{path}/namespaces/{team.name}/{root['kind'].lower()}s", root)


def is_refused(answer: Object) -> bool:
    if answer["kind"] != "Status":
        return False
    assert answer["code"] in {400, 403, 422}, answer  # other codes say nothing about the object
    return True


def fields(status: Object) -> set[str]:
    return {cause["field"] for cause in status.get("details", {}).get("causes", [])}


def test_the_schema_rule_rejects_exactly_what_the_api_server_rejects(plain: Namespace, part: int) -> None:
    @generated(part)
    @given(judged_jobs())
    def agree(root: Object) -> None:
        answer = dry_run(plain, root)
        subject = subject_of(request_to_create(root), root)
        assert subject is not None
        problems = subject.malformed or schema.problems(root["spec"], ("spec",))
        assert bool(problems) == is_refused(answer), (problems, answer)
        if not subject.malformed:  # for a malformed object only wrong types are reported
            assert fields(answer) <= {field(problem.path) for problem in problems}, (problems, answer)

    agree()


def test_the_webhook_makes_the_same_edits_as_render(plain: Namespace, opted_in: Namespace, part: int) -> None:
    policy = parse(Path(os.environ["RETRY_POLICY_TEST_POLICY"]).read_text())
    assert isinstance(policy, Policy)

    @generated(part)
    @given(JOBS | CRON_JOBS | PODS)
    def agree(root: Object) -> None:
        stored = dry_run(opted_in, root)
        made = deepcopy(root)
        verdict = admission.admit(made, policy, "default", None)
        if not is_refused(stored):
            assert comparable(stored) == comparable(dry_run(plain, made))
            assert not verdict.problems
        elif not is_refused(dry_run(plain, root)):
            assert "denied the request" in stored["message"]
            assert verdict.problems

    agree()


def comparable(answer: Object) -> Any:
    """Return the part of an answer that is equal if the same object is created twice.

    Without the value of the annotation `policy`: the webhook sees a defaulted object, and `render` does not. Without
    `proof`: `render` has no key. Without the order of a pod's tolerations: the API server adds its own before it calls
    a webhook.
    """
    spec = answer.get("spec", {})
    if "tolerations" in spec:
        spec = {**spec, "tolerations": sorted(spec["tolerations"], key=str)}
    metadata = {key: answer["metadata"].get(key) for key in ("name", "labels", "annotations", "finalizers")}
    if annotations := metadata["annotations"]:
        known = {key: value for key, value in annotations.items() if key != names.PROOF}
        metadata["annotations"] = known | ({names.POLICY: "there"} if names.POLICY in known else {})
    text = json.dumps({"metadata": metadata, "spec": spec, "message": answer.get("message")})
    return json.loads(text.replace(answer["metadata"].get("uid", "no uid"), "UID"))
