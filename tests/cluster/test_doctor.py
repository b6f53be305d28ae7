"""`retry-policy doctor` on a real API server: a healthy installation, and ten broken ones, each named with its remedy.

It is one test, because each worker would start a control plane of its own for its part of several.
"""

from __future__ import annotations

import base64
import json
import sys
from contextlib import contextmanager
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from certs import issue
from tests.awaiting import until
from tests.cluster.behind_service import NAME, SLICE, TEAM, Cluster, installed
from tests.cluster.command_line import run
from tests.cluster.conftest import OWN_CONTROL_PLANE
from tests.cluster.installation import BASE, CONTROLLER_ACCOUNT, SYSTEM, built
from webhook.kube import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.cluster.kubectl import Object

CERT_MANAGER = BASE.parent / "overlays" / "cert-manager"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SECRET = "retry-policy-webhook-tls"  # noqa: S105 - a name
BINDING = f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{NAME}"

Finding = tuple[str, str, str, str]  # status, object, what, fix; of an expected one, parts of the last two


def examined(cluster: Cluster, *arguments: str, kubeconfig: Path | None = None) -> tuple[int, list[Finding]]:
    """Return the exit code, and the findings that are not ok."""
    file = kubeconfig or cluster.kubectl.kubeconfig
    done = run("doctor", *arguments, "-o", "json", f"--kubeconfig={file}")
    assert done.stdout.startswith("{"), done.output
    found = json.loads(done.stdout)["findings"]
    listed = [(one["status"], one["object"], one["what"], one["fix"]) for one in found if one["status"] != "ok"]
    return done.exit_code, listed


def until_healthy(cluster: Cluster) -> None:
    until_found(cluster, [])


def is_expected(found: Finding, expected: Finding) -> bool:
    return found[:2] == expected[:2] and expected[2] in found[2] and expected[3] in found[3]


def unlike(found: list[Finding], expected: list[Finding]) -> list[Finding]:
    """Return the expected findings that are missing, and those that are not expected."""
    absent = [one for one in expected if not any(is_expected(each, one) for each in found)]
    return [*absent, *(one for one in found if not any(is_expected(one, each) for each in expected))]


def until_found(cluster: Cluster, expected: list[Finding], *arguments: str) -> None:
    """Wait until the findings are the expected ones: the API server follows a change a moment later."""
    last: list[Finding] = []

    def is_found() -> bool:
        last[:] = unlike(examined(cluster, *arguments)[1], expected)
        return not last

    try:
        until(is_found)
    except AssertionError:
        pytest.fail(f"missing or not expected: {last}\nfound: {examined(cluster, *arguments)[1]}", pytrace=False)


@contextmanager
def label_missing(cluster: Cluster) -> Iterator[None]:
    cluster.label(profile=None)
    yield
    cluster.label(profile="default")


@contextmanager
def unknown_profile(cluster: Cluster) -> Iterator[None]:
    """Label the namespace before a server can deny it, and start the server."""
    cluster.label(profile="defualt")
    cluster.start_server()
    cluster.until_trusted()
    yield
    cluster.label(profile="default")


@contextmanager
def warn_forgotten(cluster: Cluster) -> Iterator[None]:
    cluster.label(mode="Warn")
    yield
    cluster.label(mode=None)


@contextmanager
def server_down(cluster: Cluster) -> Iterator[None]:
    cluster.kill_server()
    yield


@contextmanager
def no_endpoints(cluster: Cluster) -> Iterator[None]:
    """Take the endpoint of a server away that runs no more: the API server would use a connection that is open."""
    cluster.route(cluster.api.get(SLICE)["ports"][0]["port"], ready=False)
    yield


@contextmanager
def rbac_missing(cluster: Cluster) -> Iterator[None]:
    binding = cluster.api.get(BINDING)
    cluster.api.delete(BINDING)
    yield
    del binding["metadata"]["resourceVersion"], binding["metadata"]["uid"]
    cluster.api.create(BINDING.rpartition("/")[0], binding)


def named_ours(root: Object) -> bool:
    return bool(root["metadata"]["name"] == NAME)


@contextmanager
def two_installations(cluster: Cluster) -> Iterator[None]:
    """Install the Deployment and the mutating webhooks once more, in another namespace under another name."""
    (deployment,) = (deepcopy(one) for one in cluster.shipped if one["kind"] == "Deployment" and named_ours(one))
    (mutating,) = (deepcopy(one) for one in cluster.shipped if one["kind"] == "MutatingWebhookConfiguration")
    deployment["metadata"]["namespace"] = "batch"
    mutating["metadata"]["name"] = "batch-policy"
    for hook in mutating["webhooks"]:
        hook["clientConfig"]["service"]["namespace"] = "batch"
        hook["failurePolicy"] = "Ignore"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "batch"}}
    cluster.kubectl.apply({"apiVersion": "v1", "kind": "List", "items": [namespace, deployment, mutating]})
    yield
    cluster.api.delete("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/batch-policy")
    cluster.api.delete(f"/apis/apps/v1/namespaces/batch/deployments/{NAME}")


@contextmanager
def old_crd(cluster: Cluster) -> Iterator[None]:
    """Install the CRD of JobSets in a version from before the known ones."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": schema}
    spec: Object = {
        "group": "jobset.x-k8s.io",
        "names": {"kind": "JobSet", "plural": "jobsets"},
        "scope": "Namespaced",
        "versions": [version],
    }
    annotations = {"api-approved.kubernetes.io": "unapproved, in a test"}
    name = "jobsets.jobset.x-k8s.io"
    cluster.api.create(CRDS, {"metadata": {"name": name, "annotations": annotations}, "spec": spec})
    until(lambda: "jobset.x-k8s.io" in json.dumps(cluster.api.get("/apis")))
    yield
    cluster.api.delete(f"{CRDS}/{name}")
    until(lambda: "jobset.x-k8s.io" not in json.dumps(cluster.api.get("/apis")))


@contextmanager
def clock_skew(cluster: Cluster) -> Iterator[None]:
    """Run a replica whose clock is four minutes ahead."""
    clock = cluster.folder / "behind"
    clock.write_text("-240")
    cluster.start_server(program=(sys.executable, "-m", "tests.faults.replica", f"--clock={clock}", "--"))
    yield
    cluster.kill_server()


@contextmanager
def wrong_ca_bundle(cluster: Cluster) -> Iterator[None]:
    """Run a server whose certificate another program issues, which then injects the wrong CA."""
    now = datetime.now(UTC)
    authority, stranger = (issue.new_authority(one, now=now, lifetime=timedelta(days=30)) for one in ("ours", "other"))
    host = f"{NAME}.{SYSTEM}.svc"
    leaf = issue.issue(authority, NAME, now=now, lifetime=timedelta(days=20), hosts=[host])
    files = [cluster.folder / "tls.crt", cluster.folder / "tls.key"]
    for file, content in zip(files, (leaf.certificate, leaf.key), strict=True):
        file.write_bytes(content)
    overlay = [
        one for one in built(cluster.kubectl, CERT_MANAGER) if one["kind"] in {"ClusterRole", "Role", "Deployment"}
    ]
    data = {file.name: base64.b64encode(file.read_bytes()).decode() for file in files}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": SYSTEM}, "data": data}
    cluster.kubectl.apply({"apiVersion": "v1", "kind": "List", "items": [*overlay, secret]})
    cluster.start_server(f"--tls-cert={files[0]}", f"--tls-key={files[1]}", controlled=("--no-certificates",))
    cluster.trust(authority.certificate)
    until_healthy(cluster)
    cluster.trust(stranger.certificate)
    yield


SERVICE = f"Service {SYSTEM}/{NAME}"
DRY_RUN = f"Job in a dry run in namespace {TEAM}"
NO_DRY_RUN = ("warning", "Job in a dry run", "no namespace is opted in", "kubectl label namespace")
NO_LEADER = ("warning", f"Lease {SYSTEM}/{NAME}-ledger", "no replica has ever led", "logs")
SPACE = f"Namespace {TEAM}"
CRD = "CustomResourceDefinition jobsets.jobset.x-k8s.io"
ACCOUNTS = [f"ServiceAccount {SYSTEM}/{one}" for one in (NAME, CONTROLLER_ACCOUNT)]
SECOND = "MutatingWebhookConfiguration batch-policy"
ENDPOINTS = "has no ready endpoint, so the API server reaches no server, although 2 pods are ready"

# What the ClusterRole `edit` consists of; no controller runs here that puts it together.
EDIT = ("system:aggregate-to-edit", "system:aggregate-to-view")

# Each broken installation: what breaks it, and all findings about it.
BROKEN: dict[str, tuple[Callable[[Cluster], AbstractContextManager[None]], list[Finding]]] = {
    "profile unknown": (
        unknown_profile,
        [
            ("problem", SPACE, "profile 'defualt', which the policy does not have", f"{TEAM} {names.PROFILE}=default"),
            NO_DRY_RUN,
        ],
    ),
    "label missing": (
        label_missing,
        [
            ("problem", "Namespaces", f"no namespace has the label {names.PROFILE}", "kubectl label namespace"),
            NO_DRY_RUN,
        ],
    ),
    "Warn forgotten": (
        warn_forgotten,
        [("warning", SPACE, "has the mode Warn", f"kubectl label namespace {TEAM} {names.MODE}-")],
    ),
    "RBAC missing": (
        rbac_missing,
        [
            ("problem", one, f"lacks permissions of the role {NAME}", "kubectl apply -k manifests/base")
            for one in ACCOUNTS
        ],
    ),
    "two installations": (
        two_installations,
        [
            ("problem", f"Deployment batch/{NAME}", "second installation", f"-n batch delete deployment {NAME}"),
            ("problem", SECOND, "calls namespace batch", "kubectl delete mutatingwebhookconfiguration batch-policy"),
        ],
    ),
    "old CRD": (
        old_crd,
        [("problem", CRD, "served only as v1alpha1, and the webhook knows v1alpha2", "kubectl get crd jobsets")],
    ),
    "server down": (
        server_down,
        [
            ("problem", DRY_RUN, "no server listens behind the Service", "get deployments,pods"),
            NO_LEADER,
        ],
    ),
    "no endpoints": (
        no_endpoints,
        [
            ("problem", SERVICE, ENDPOINTS, "get endpointslices"),
            ("problem", DRY_RUN, "no server is ready behind the Service", "get pods,endpointslices"),
            NO_LEADER,
        ],
    ),
    "clock skew": (
        clock_skew,
        [("problem", f"Lease {SYSTEM}/{NAME}-ledger", "s ahead of the API server's clock", "get pod")],
    ),
    "wrong caBundle": (
        wrong_ca_bundle,
        [
            *(
                ("problem", f"{kind}WebhookConfiguration {NAME}", "lacks the CA of the served", "get certificates")
                for kind in ("Mutating", "Validating")
            ),
            ("problem", DRY_RUN, "the API server does not trust the server's certificate", "get certificates"),
        ],
    ),
}


@pytest.mark.first
@pytest.mark.skipif(not OWN_CONTROL_PLANE, reason="the programs of a control plane are not built for another's cluster")
def test_the_doctor_names_what_is_wrong_with_each_of_ten_broken_installations(tmp_path: Path) -> None:
    with installed(tmp_path) as cluster:
        for name, (broken, expected) in BROKEN.items():
            with broken(cluster):
                until_found(cluster, expected)
                check_answer(cluster, broken)
            if name == "profile unknown":
                until_healthy(cluster)
                check_users(cluster)


def check_answer(cluster: Cluster, broken: object) -> None:
    """Ask why nothing happens in the namespace, where that is the question."""
    if broken is label_missing:
        code, found = examined(cluster, "-n", TEAM)
        expected = ("problem", SPACE, f"lacks the label {names.PROFILE}", f"namespace {TEAM} {names.PROFILE}=default")
        assert code == 1
        assert any(is_expected(one, expected) for one in found)
    if broken is warn_forgotten:
        assert examined(cluster)[0] == 0
        assert examined(cluster, "-n", TEAM)[0] == 1


def check_users(cluster: Cluster) -> None:
    """Ask as users with few permissions: each missing right is named, and nothing else is wrong."""
    code, found = examined(cluster, kubeconfig=cluster.user("stranger"))
    assert code == 2
    assert {status for status, *_ in found} == {"warning"}
    assert any("you lack the right to list namespaces" in what for _, _, what, _ in found)
    code, found = examined(cluster, "-n", TEAM, kubeconfig=cluster.user("author", *EDIT))
    assert code == 0
    assert {status for status, *_ in found} == {"warning"}
    assert not any(where.startswith(("Job", "Namespace ")) for _, where, _, _ in found)
