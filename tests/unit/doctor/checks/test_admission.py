"""What the doctor concludes from the dry run."""

import pytest

from tests.unit.doctor.healthy import healthy, stored_job, told, wrong
from webhook.doctor.checks.admission import check
from webhook.doctor.shipped import NAMESPACE
from webhook.doctor.snapshot import Probe, Unread
from webhook.kube import names

CALL = 'failed calling webhook "workloads.retry-policy.dev": failed to call webhook: Post "https://x": '
DENIED = f"metadata.annotations[{names.INTERRUPTIBLE}]: is 'doctor'"
CHANGED = stored_job(profile="default")


def refused(message: str) -> Probe:
    return Probe("ml", None, None, message)


def test_nothing_is_wrong_if_one_job_was_changed_and_the_other_one_denied() -> None:
    assert wrong(check, healthy()) == []


@pytest.mark.parametrize(
    ("end", "meaning", "command"),
    [
        ("x509: certificate signed by unknown authority", "does not trust", "rollout restart deployment"),
        ('no endpoints available for service "x"', "no server is ready", "get pods,endpointslices"),
        ("dial tcp 10.0.0.1:443: connect: connection refused", "no server listens", "get deployments,pods"),
        ("context deadline exceeded", "a firewall or a NetworkPolicy", "describe networkpolicies"),
        ('service "retry-policy-webhook" not found', "the Service does not exist", "get services"),
        ("unheard of", "failed (Post", "logs -l app.kubernetes.io/name=retry-policy-webhook"),
    ],
)
def test_a_failed_call_is_a_problem_with_its_meaning(end: str, meaning: str, command: str) -> None:
    status, text, fix = told(check, healthy(probe=refused(CALL + end)))
    assert status == "problem"
    assert meaning in text
    assert fix.startswith(f"kubectl -n {NAMESPACE} {command}")


def test_a_refusal_by_another_plugin_is_a_warning_with_its_message() -> None:
    status, text, _ = told(check, healthy(probe=refused("403 exceeded quota: compute")))
    assert status == "warning"
    assert "refused by something else: 403 exceeded quota: compute" in text


def test_a_job_that_was_stored_unchanged_is_a_problem() -> None:
    status, text, _ = told(check, healthy(probe=Probe("ml", None, stored_job(), "", (), DENIED)))
    assert status == "problem"
    assert "was stored unchanged: the mutating webhook was not called" in text


@pytest.mark.parametrize("denial", ["", CALL + "context deadline exceeded"])
def test_a_wrong_job_that_was_not_denied_is_a_problem(denial: str) -> None:
    assert told(check, healthy(probe=Probe("ml", None, CHANGED, "", (), denial)))[0] == "problem"


@pytest.mark.parametrize(("warnings", "number"), [(("299 - would become 3",), 0), ((), 1)])
def test_in_mode_warn_a_warning_shows_that_the_webhook_was_called(warnings: tuple[str, ...], number: int) -> None:
    probe = Probe("ml", "Warn", stored_job(), "", warnings)
    assert len(wrong(check, healthy(probe=probe))) == number


def test_a_job_that_something_else_changed_afterwards_is_a_warning() -> None:
    root = stored_job(profile="default")
    del root["spec"]["podFailurePolicy"]
    status, text, _ = told(check, healthy(probe=Probe("ml", None, root, "", (), DENIED)))
    assert status == "warning"
    assert "something else changed what this webhook wrote" in text


def test_without_an_opted_in_namespace_there_is_no_dry_run() -> None:
    status, text, fix = told(check, healthy(probe=None))
    assert status == "warning"
    assert "no namespace is opted in" in text
    assert fix == "kubectl label namespace NAMESPACE retry-policy.dev/profile=default"
    assert told(check, healthy(probe=None, asked="web"))[2].startswith("kubectl label namespace web ")


def test_a_dry_run_that_the_user_may_not_make_is_not_judged() -> None:
    unread = [Unread("Admission", "a Job in a dry run", "create jobs.batch in namespace ml", "403")]
    assert wrong(check, healthy(probe=None, unread=unread)) == []
