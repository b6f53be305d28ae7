"""The server as the API server uses it: a process, TLS, HTTP/1.1."""

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from tests.admission import answer_of, review_of
from tests.awaiting import LONGEST, until
from tests.merge_cases import bug
from tests.objects import DISRUPTION, cron_job, job, job_spec, pod
from tests.served import COMMAND, SERVE, Served, raw, request, serving
from webhook import __version__
from webhook.cli.main import main
from webhook.kube import names
from webhook.program import logs, memory


def test_a_job_is_mutated(served: Served) -> None:
    reply = served.post("/mutate", review_of(job()))
    assert (reply.status, reply.headers["Content-Type"]) == (200, "application/json")
    answer = answer_of(reply.body, job())
    assert answer.object["spec"]["podFailurePolicy"]["rules"] == [DISRUPTION, bug()]


def test_a_job_with_25_retries_is_denied(served: Served) -> None:
    reply = served.post("/validate?timeout=5s", review_of(job(job_spec(backoffLimit=25))))
    response = json.loads(reply.body)["response"]
    assert (reply.status, response["allowed"], response["status"]["code"]) == (200, False, 422)


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not JSON",
        b"[]",
        b"null",
        b"{}",
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}',
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}',
        review_of(job(), uid=""),
        review_of(job(), uid=5),
        review_of(job(), operation="PATCH"),
        review_of(job()).replace(b"0c5a-uid", b"\xff\xfe"),
        review_of(job()).replace(b'"namespace":"ml"', b'"options":"\xff","namespace":"ml"'),
        review_of(job()).replace(b"admission.k8s.io/v1", b"admission.k8s.io/v1beta1"),
        review_of(job()).replace(b'"AdmissionReview"', b'"ConversionReview"'),
        b"[" * 100_000,
        b'{"apiVersion":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        review_of(job()).replace(b'"suspend"', b"").replace(b'"oldObject":null', b'"oldObject":' + b"[" * 100_000),
    ],
    ids=lambda body: repr(body[:60]),
)
def test_a_body_that_is_not_an_admission_review_gets_400_with_a_message(served: Served, path: str, body: bytes) -> None:
    reply = served.post(path, body)
    assert reply.status == 400
    assert b"Traceback" not in reply.body
    assert reply.body.decode().strip()
    assert served.get("/healthz").status == 200


def test_an_object_with_too_many_levels_gets_400(served: Served) -> None:
    body = review_of("HERE").replace(b'"HERE"', b'{"a":' * 100_000 + b"1" + b"}" * 100_000)
    assert served.post("/mutate", body).status == 400


def test_the_last_value_of_a_duplicate_key_is_used_as_by_the_api_server(served: Served) -> None:
    body = review_of(job(job_spec(backoffLimit=25))).replace(
        b'"backoffLimit":25', b'"backoffLimit":1,"backoffLimit":25'
    )
    assert not json.loads(served.post("/validate", body).body)["response"]["allowed"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/mutate", 405),
        ("PUT", "/validate", 405),
        ("POST", "/", 404),
        ("POST", "/mutate/", 404),
        ("POST", "/healthz", 404),
    ],
)
def test_a_wrong_path_gets_404_and_a_wrong_method_405(served: Served, method: str, path: str, status: int) -> None:
    assert served.post(path, b"{}", method).status == status


def test_a_body_over_seven_mebibytes_gets_413(served: Served) -> None:
    assert served.post("/mutate", b" " * (8 * 1024 * 1024)).status == 413
    assert served.get("/healthz").status == 200


def test_two_objects_of_three_mebibytes_are_answered(served: Served) -> None:
    big = job(annotations={"big": "x" * (3 * 1024 * 1024)})
    assert served.post("/mutate", review_of(big, old=big)).status == 200


@pytest.mark.parametrize("root", [None, [], 5, "text", {"kind": 3}, {"apiVersion": None, "kind": "Job"}])
def test_a_value_that_is_not_an_object_is_not_edited_and_is_denied(served: Served, root: Any) -> None:
    kind = {"group": "batch", "version": "v1", "kind": "Job"}
    mutated = served.post("/mutate", review_of(root, kind=kind))
    validated = json.loads(served.post("/validate", review_of(root, kind=kind)).body)["response"]
    assert mutated.status == 200
    if not isinstance(root, dict):
        assert json.loads(mutated.body)["response"]["warnings"]
        assert (validated["allowed"], validated["status"]["code"]) == (False, 422)


def test_a_dry_run_gets_the_same_answer(served: Served) -> None:
    assert served.post("/mutate", review_of(job(), dryRun=True)).body == served.post("/mutate", review_of(job())).body


@pytest.mark.parametrize("root", [job(), cron_job(), pod(), {"apiVersion": "v1", "kind": "Secret"}])
def test_every_request_is_answered_with_its_uid(served: Served, root: Any) -> None:
    for path in ("/mutate", "/validate"):
        assert json.loads(served.post(path, review_of(root)).body)["response"]["uid"] == "0c5a-uid"


def test_one_connection_serves_many_requests(served: Served) -> None:
    with closing(served.connect()) as connection:
        for _ in range(3):
            reply = request(connection, "POST", "/mutate", review_of(job()))
            assert (reply.status, reply.headers.get("Connection")) == (200, None)


def test_an_older_version_of_tls_is_refused(served: Served) -> None:
    old = served.context
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        closing(http.client.HTTPSConnection("127.0.0.1", served.https_port, context=old)) as connection,
        pytest.raises(ssl.SSLError),
    ):
        connection.connect()


def test_after_garbage_instead_of_tls_others_are_served(served: Served) -> None:
    with closing(socket.create_connection(("127.0.0.1", served.https_port), timeout=LONGEST)) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        until(lambda: not plain.recv(1024))
    assert served.get("/healthz").status == 200


def test_after_a_client_disconnects_in_a_request_others_are_served(served: Served) -> None:
    with raw(served) as connection:
        connection.sendall(b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
    assert served.post("/mutate", review_of(job())).status == 200


@pytest.mark.skipif(not memory.RESIDENT.exists(), reason="this system does not say how much memory a process has")
def test_memory_and_open_connections_are_reported(served: Served) -> None:
    def reported(name: str) -> float:
        lines = served.get("/metrics").body.decode().splitlines()
        (line,) = [line for line in lines if line.startswith(f"retry_policy_{name} ")]
        return float(line.rpartition(" ")[2])

    assert reported("resident_memory_bytes") > 2**20
    until(lambda: reported("connections") == 0)  # those of the tests before are closed
    with raw(served):
        until(lambda: reported("connections") == 1)
    until(lambda: reported("connections") == 0)


def test_readiness_and_metrics_are_served(served: Served) -> None:
    served.post("/mutate", review_of(job()))
    assert served.get("/readyz").status == 200
    metrics = served.get("/metrics").body.decode()
    assert f'retry_policy_build_info{{version="{__version__}"}} 1.0' in metrics
    assert (
        'retry_policy_admission_requests_total{kind="Job",operation="CREATE",path="mutate",result="patched"}' in metrics
    )


def test_the_name_of_an_unknown_kind_is_no_label_value_of_a_metric(served: Served) -> None:
    served.post("/mutate", review_of({"apiVersion": "x.test/v1", "kind": "Wonder"}))
    assert "Wonder" not in served.get("/metrics").body.decode()


def test_a_denial_is_logged_and_the_body_is_not(served: Served) -> None:
    served.post("/validate", review_of(job(job_spec(backoffLimit=25), annotations={"token": "s3cret"})))
    log = served.log_text()
    assert "25 retries" in log
    assert "s3cret" not in log


def test_stdout_has_one_line_with_the_addresses_and_outside_a_cluster_a_namespace_has_no_effect(tmp_path: Path) -> None:
    with serving(tmp_path, env={**os.environ, "POD_NAMESPACE": "retry-policy-system"}) as running:
        assert running.get("/readyz").status == 200
        assert running.post("/mutate", review_of(job())).status == 200
        assert set(running.addresses) == {"https", "http", "ca"}
        assert running.addresses["https"].startswith("https://127.0.0.1:")
        running.process.send_signal(signal.SIGINT)
        assert running.process.stdout is not None
        assert running.process.stdout.read() == b""
        assert running.process.wait() == 0
    assert not Path(running.addresses["ca"]).exists()


def test_after_sigterm_the_server_is_not_ready_still_serves_and_closes_connections(tmp_path: Path) -> None:
    with serving(tmp_path) as running, closing(running.connect()) as connection:
        assert request(connection, "POST", "/mutate", review_of(job())).headers.get("Connection") is None
        running.process.send_signal(signal.SIGTERM)
        until(lambda: running.get("/readyz").status != 200)
        reply = request(connection, "POST", "/mutate", review_of(job()))
        assert (reply.status, reply.headers["Connection"]) == (200, "close")
        assert running.get("/readyz").body == b"shutting down; ask another replica\n"
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait() == 0


POLICY = """
apiVersion: retry-policy.dev/v1alpha1
kind: RetryPolicy
profiles: {default: {retries: {limit: LIMIT}}}
"""


def refused_limit(running: Served) -> bool:
    body = review_of(job(job_spec(backoffLimit=5), annotations={names.MAX_RETRIES: "5"}))
    return not json.loads(running.post("/validate", body).body)["response"]["allowed"]


def test_a_server_is_ready_once_its_policy_file_is_good_and_the_last_good_one_stays(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY.replace("LIMIT", "99"))
    with serving(tmp_path, "--policy", str(file)) as running:
        ready = running.get("/readyz")
        assert ready.status == 503
        assert b"profiles.default.retries.limit" in ready.body
        reply = running.post("/mutate", review_of(job()))
        assert (reply.status, reply.headers["Retry-After"], reply.headers["Connection"]) == (503, "1", "close")
        file.write_text(POLICY.replace("LIMIT", "10"))
        until(lambda: running.get("/readyz").status == 200)
        assert not refused_limit(running)
        file.write_text(POLICY.replace("LIMIT", "4"))
        until(lambda: refused_limit(running))
        refused = running.log_text().count("profiles.default.retries.limit")
        file.write_text(POLICY.replace("LIMIT", "99"))
        until(lambda: running.log_text().count("profiles.default.retries.limit") > refused)
        assert refused_limit(running)
        assert running.get("/readyz").status == 200


def test_a_server_that_cannot_start_prints_the_reason_without_a_stack_trace() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = (COMMAND, *SERVE, "--port", str(taken.getsockname()[1]))
        done = subprocess.run(command, capture_output=True, check=False, timeout=LONGEST)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"choose another host or port" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--kubeconfig", "absent"], "the kubeconfig"),
        (["--port", "70000"], "65535"),
        (["--tls-cert", "x"], "go together"),
        (["--tls-cert", "absent", "--tls-key", "absent"], "certificate"),
        (["--policy-configmap", "retry-policy"], "NAMESPACE/NAME"),
        (["--policy-configmap", "a/b", "--policy", "x"], "exclude each other"),
        (["--policy-configmap", "a/b"], "needs an API server"),
        (["--requested-retries"], "--requested-retries needs a cluster; add --kubeconfig"),
    ],
)
def test_each_reason_why_a_server_cannot_start_is_printed(
    arguments: list[str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logs, "to_stderr", lambda: None)  # it would configure the log of all tests
    done = CliRunner().invoke(main, [*SERVE, *arguments], catch_exceptions=False)
    assert done.exit_code != 0
    assert reason in done.stderr
    assert done.stdout == ""


@pytest.fixture(scope="module")
def imported() -> frozenset[str]:
    """The modules that the program imports to serve."""
    code = "import sys, webhook.serving.app; print(*sys.modules)"
    done = subprocess.run((sys.executable, "-c", code), check=True, capture_output=True, text=True)
    return frozenset(done.stdout.split())


def test_without_requested_retries_their_modules_are_not_imported(imported: frozenset[str]) -> None:
    assert "webhook.serving.app" in imported
    assert "webhook.retry" not in imported


def test_without_an_api_the_kubernetes_client_is_not_imported(imported: frozenset[str]) -> None:
    assert "kubernetes" not in imported


def test_a_review_with_all_fields_that_the_api_server_sends_is_read(served: Served) -> None:
    full = msgspec.json.decode(review_of(job()))
    full["request"] |= {
        "requestKind": {"group": "batch", "version": "v1", "kind": "Job"},
        "resource": {"group": "batch", "version": "v1", "resource": "jobs"},
        "userInfo": {"username": "kubernetes-admin", "groups": ["system:masters"], "extra": {"k": ["v"]}},
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "kubectl-create"},
        "dryRun": None,
    }
    assert served.post("/mutate", msgspec.json.encode(full)).status == 200
