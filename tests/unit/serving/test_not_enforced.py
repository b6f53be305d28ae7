"""Denials, and objects that would be denied or changed in modes Warn and Audit, are counted by namespace."""

import asyncio
from functools import partial
from typing import Any

import pytest

from tests.admission import lacking, policy, review_of
from tests.metrics import counted
from tests.objects import job, job_spec, pod
from webhook.admission import engine
from webhook.admission.object_name import ObjectName
from webhook.admission.review import Response
from webhook.admission.subject import read
from webhook.objects.problem import Json, Problem
from webhook.policy.model import Placement, Profile
from webhook.program.logs import LogLines
from webhook.serving.endpoints import OTHER, PAIRS, Endpoints, NotEnforced
from webhook.tracking.cluster import Cluster
from webhook.tracking.policy_source import PolicySource

POLICY = policy(default=Profile(placement=Placement(provider="gke", spot="Require")))
WOULD_DENY = Response(would_deny=[("retries", Problem(("spec",), "is a secret", "mend it"))])
total = partial(counted, "retry_policy_requests_not_enforced_total")


def endpoints(mode: str | None) -> Endpoints:
    """Return the endpoints of a server that knows the namespace `ml`."""
    api: Any = None
    cluster = Cluster(api)
    cluster.namespaces.items["", "ml"] = ("default", mode)
    cluster.namespaces.live = True
    return Endpoints(PolicySource(POLICY), cluster)


def ask(server: Endpoints, root: Json, path: str = "/validate", **request: Any) -> None:
    answer = asyncio.run(server.admission().by_path[path][1](review_of(root, **request)))
    assert answer.status == 200


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().out.splitlines() if "not enforced" in line]


@pytest.mark.parametrize("mode", ["Warn", "Audit"])
def test_an_object_that_enforce_would_deny_or_change_is_logged_with_its_names_and_counted(
    mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, would_be, rule in (("/validate", "denied", "retries"), ("/mutate", "changed", "failure_policy")):
        before = total(namespace="ml", profile="default", would_be=would_be)
        ask(endpoints(mode), lacking(job(job_spec(backoffLimit=25)), ("spec", "podFailurePolicy")), path)
        (line,) = lines(capsys)
        where = ("namespace=ml", "kind=Job", "name=train", "profile=default", f"mode={mode}")
        for field in (*where, f"would_be={would_be}", f"rules=['{rule}']"):
            assert field in line
        assert total(namespace="ml", profile="default", would_be=would_be) == before + 1


def test_the_pods_of_a_job_are_logged_once_and_counted_each(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = NotEnforced(LogLines())
    before = total(namespace="ml", profile="default", would_be="changed")
    for number in range(3):
        name = ObjectName("Pod", "ml", f"train-{number}", "Job/train")
        reporter.report(name, Response(would_change=[("placement", Problem(("spec",), "", ""))]), "default", "Audit")
    (line,) = lines(capsys)
    assert "controller=Job/train" in line
    assert total(namespace="ml", profile="default", would_be="changed") == before + 3


def test_the_log_line_contains_only_names_and_rules(capsys: pytest.CaptureFixture[str]) -> None:
    NotEnforced(LogLines()).report(ObjectName("Job", "ml", "train"), WOULD_DENY, "default", "Audit")
    assert "secret" not in "".join(lines(capsys))


@pytest.mark.parametrize(
    ("mode", "root", "request_"),
    [
        (None, job(job_spec(backoffLimit=25)), {}),
        ("Enforce", job(job_spec(backoffLimit=25)), {}),
        ("Audit", job(job_spec(backoffLimit=25)), {"dryRun": True}),
        ("Audit", job(job_spec(backoffLimit=3)), {}),
    ],
    ids=["no mode", "Enforce", "dry run", "nothing to deny"],
)
def test_nothing_is_reported_in_mode_enforce_for_a_dry_run_or_without_a_denial(
    mode: str | None, root: Json, request_: Json, capsys: pytest.CaptureFixture[str]
) -> None:
    before = total(namespace="ml", profile="default", would_be="denied")
    ask(endpoints(mode), root, **request_)
    assert lines(capsys) == []
    assert total(namespace="ml", profile="default", would_be="denied") == before


def test_the_metric_names_a_limited_number_of_namespaces_and_sums_up_the_others() -> None:
    reporter = NotEnforced(LogLines())
    before = total(namespace=OTHER, profile="default", would_be="denied")
    for number in [*range(PAIRS + 5), 0, 1]:
        reporter.report(ObjectName("Job", f"team-{number}", "train"), WOULD_DENY, "default", "Audit")
    assert total(namespace="team-0", profile="default", would_be="denied") == 2
    assert total(namespace=f"team-{PAIRS - 1}", profile="default", would_be="denied") == 1
    assert total(namespace=f"team-{PAIRS}", profile="default", would_be="denied") == 0
    assert total(namespace=OTHER, profile="default", would_be="denied") == before + 5


def test_the_number_of_series_is_limited_even_if_a_namespace_often_changes_its_profile() -> None:
    reporter = NotEnforced(LogLines())
    labels = {reporter.label("hostile", f"profile-{number}") for number in range(1000)}
    assert (labels, len(reporter.pairs)) == ({"hostile", OTHER}, PAIRS)


@pytest.mark.parametrize(
    ("mode", "backoff_limit", "request_", "denied"),
    [
        (None, 25, {}, 1),
        ("Enforce", 25, {}, 1),
        (None, 25, {"dryRun": True}, 0),
        (None, 3, {}, 0),
        ("Audit", 25, {}, 0),
    ],
    ids=["no mode", "Enforce", "dry run", "nothing to deny", "Audit"],
)
def test_a_denial_is_counted_for_its_namespace_and_profile(
    mode: str | None, backoff_limit: int, request_: Json, denied: int
) -> None:
    before = counted("retry_policy_requests_denied_total", namespace="ml", profile="default")
    ask(endpoints(mode), job(job_spec(backoffLimit=backoff_limit)), **request_)
    assert counted("retry_policy_requests_denied_total", namespace="ml", profile="default") == before + denied


def test_a_pod_that_is_decoded_in_part_is_reported_too() -> None:
    body = review_of(pod(owner=None, name="alone", annotations={"retry-policy.dev/interruptible": "maybe"}))
    server = endpoints("Audit")
    before = total(namespace="ml", profile="default", would_be="denied")
    answer = asyncio.run(server.answer(body, "validate", read, partial(server.judge, engine.validate)))
    assert answer.status == 200
    assert total(namespace="ml", profile="default", would_be="denied") == before + 1
