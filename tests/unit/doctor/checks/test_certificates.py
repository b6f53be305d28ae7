"""What the doctor finds about the caBundles and the served certificate."""

from datetime import timedelta

from tests.unit.doctor.healthy import (
    NOW,
    STRANGER,
    base64_of,
    configuration,
    deployment,
    healthy,
    leaf,
    told,
    wrong,
)
from webhook.doctor.checks.certificates import check
from webhook.doctor.shipped import MUTATING, NAMESPACE, VALIDATING
from webhook.objects.problem import Json

OWN = f"{NAMESPACE}/retry-policy-webhook-certificates"
RESTART = f"kubectl -n {NAMESPACE} rollout restart deployment/retry-policy-controller"


def secret(content: bytes) -> list[Json]:
    return [{"metadata": {}, "data": {"tls.crt": base64_of(content)}}]


def mounted() -> Json:
    """Return the Deployment with a certificate in files, as in overlays/cert-manager."""
    root = deployment("--tls-cert=/etc/retry-policy/tls/tls.crt", "--tls-key=/etc/retry-policy/tls/tls.key")
    spec = root["spec"]["template"]["spec"]
    spec["volumes"] = [{"name": "tls", "secret": {"secretName": "retry-policy-webhook-tls"}}]
    spec["containers"][0]["volumeMounts"] = [{"name": "tls", "mountPath": "/etc/retry-policy/tls"}]
    return root


def test_nothing_is_wrong_if_every_ca_bundle_has_the_authority() -> None:
    assert wrong(check, healthy()) == []


def test_a_ca_bundle_of_another_authority_is_a_problem() -> None:
    status, text, fix = told(check, healthy(mutating=[configuration(MUTATING, STRANGER)]))
    assert status == "problem"
    where = "MutatingWebhookConfiguration retry-policy-webhook"
    assert text == f"{where}: every caBundle lacks the CA of the served certificate (CN=ours)"
    assert fix == RESTART


def test_a_single_wrong_ca_bundle_is_named_by_its_webhook() -> None:
    root = configuration(MUTATING)
    root["webhooks"][2]["clientConfig"]["caBundle"] = base64_of(STRANGER.certificate)
    assert "the caBundle of job-pods.retry-policy.dev lacks the CA" in told(check, healthy(mutating=[root]))[1]


def test_an_empty_ca_bundle_is_a_problem_and_names_the_program_that_wrote_it() -> None:
    root = configuration(VALIDATING)
    for hook in root["webhooks"]:
        hook["clientConfig"]["caBundle"] = ""
    root["metadata"]["managedFields"] = [{"manager": "argocd", "fieldsV1": {"f:clientConfig": {"f:caBundle": {}}}}]
    status, text, _ = told(check, healthy(validating=[root]))
    assert status == "problem"
    assert "has no usable caBundle" in text
    assert text.endswith("written by argocd")


def test_the_event_of_a_failed_renewal_is_shown() -> None:
    involved = {"kind": "Secret", "name": OWN.rpartition("/")[2]}
    event = {"involvedObject": involved, "reason": "CertificateNotRenewed", "message": "403 forbidden"}
    found = told(check, healthy(mutating=[configuration(MUTATING, STRANGER)], events=[event]))
    assert found[1].endswith("CertificateNotRenewed: 403 forbidden")


def test_a_secret_that_does_not_exist_is_a_problem() -> None:
    assert told(check, healthy(certificates=[]))[1] == f"Secret {OWN}: does not exist, so the server has no certificate"


def test_a_secret_without_a_certificate_is_a_problem() -> None:
    assert "tls.crt is no certificate" in told(check, healthy(certificates=secret(b"nothing")))[1]


def test_an_expired_certificate_is_a_problem_by_the_clock_of_the_api_server() -> None:
    status, text, _ = told(check, healthy(now=NOW + timedelta(days=31)))
    assert status == "problem"
    assert "the API server's clock says 2026-12-24T12:00:00Z" in text


def test_a_certificate_that_expires_soon_is_a_warning() -> None:
    status, text, _ = told(check, healthy(certificates=secret(leaf(days=3))))
    assert status == "warning"
    assert "was not renewed" in text


def test_a_certificate_for_another_host_is_a_problem() -> None:
    text = told(check, healthy(certificates=secret(leaf(host="retry-policy-webhook.other.svc"))))[1]
    assert "is for retry-policy-webhook.other.svc, and the API server calls retry-policy-webhook.retry-policy" in text


def test_a_certificate_in_files_is_read_from_the_secret_that_is_mounted() -> None:
    snapshot = healthy(deployment=mounted(), mutating=[configuration(MUTATING, STRANGER)])
    assert snapshot.installed.secret == "retry-policy-webhook-tls"  # noqa: S105 - a name
    assert told(check, snapshot)[2].startswith(f"kubectl -n {NAMESPACE} get certificates.cert-manager.io")


def test_two_programs_that_write_the_ca_bundle_are_a_problem() -> None:
    root = configuration(MUTATING)
    root["metadata"]["annotations"] = {"cert-manager.io/inject-ca-from": "x/y"}
    status, text, fix = told(check, healthy(mutating=[root]))
    assert status == "problem"
    assert "the server writes the caBundle itself" in text
    assert fix.endswith("retry-policy-webhook cert-manager.io/inject-ca-from-")
    assert wrong(check, healthy(mutating=[root], deployment=mounted())) == []


def test_without_the_right_to_read_the_secret_only_the_ca_bundles_are_judged() -> None:
    assert wrong(check, healthy(certificates=None)) == []
