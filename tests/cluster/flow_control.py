"""Which FlowSchema the API server uses for a request, and a priority level that refuses requests."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.awaiting import LONGEST, until
from tests.cluster.installation import CONTROLLER_ACCOUNT, MOST_TIMEOUT, SERVICE_ACCOUNT, SYSTEM, as_service_account
from tests.unit.kube.test_client import Mute, mute

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.cluster.kubectl import Kubectl, Object

GROUP = "flowcontrol.apiserver.k8s.io/v1"
SCHEMA_HEADER = "x-kubernetes-pf-flowschema-uid"
LEVEL_HEADER = "x-kubernetes-pf-prioritylevel-uid"
JAM = "jam"  # the name of everything that this module creates
REFUSED = http.client.TOO_MANY_REQUESTS
AT_ONCE = 10  # seconds: a request that takes less did not wait for the webhook


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]


class Caller:
    """Calls the API server with a token, by default that of the webhook's ServiceAccount."""

    def __init__(self, kubectl: Kubectl, account: str = SERVICE_ACCOUNT) -> None:
        content = as_service_account(kubectl, account)
        (cluster,), (user,) = content["clusters"], content["users"]
        self.address = urlsplit(cluster["cluster"]["server"])
        authority = base64.b64decode(cluster["cluster"]["certificate-authority-data"]).decode()
        self.context = ssl.create_default_context(cadata=authority)
        self.token = user["user"]["token"]

    def call(self, method: str, path: str, body: Any = None) -> Answer:
        """Send a request on a new connection."""
        host, port = self.address.hostname or "", self.address.port
        with contextlib.closing(
            http.client.HTTPSConnection(host, port, context=self.context, timeout=LONGEST)
        ) as connection:
            data = None if body is None else json.dumps(body)
            headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"}
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            answer.read()
            return Answer(answer.status, {name.lower(): value for name, value in answer.headers.items()})


@dataclass
class Jam:
    """A priority level in which one request of a test stays, so that every other one in it is refused.

    `since`: when that began, in seconds of a monotonic clock.
    """

    kubectl: Kubectl
    since: float = 0.0

    def refused(self) -> int:
        """Return how many requests the level has refused."""
        text = self.kubectl.run("get", "--raw", "/metrics").stdout
        name = "apiserver_flowcontrol_rejected_requests_total"
        lines = [line for line in text.splitlines() if line.startswith(name) and f'flow_schema="{JAM}"' in line]
        return sum(int(float(line.rpartition(" ")[2])) for line in lines)

    @property
    def seconds(self) -> float:
        """How long the level has refused requests."""
        return time.monotonic() - self.since


@contextlib.contextmanager
def jam(kubectl: Kubectl, *, precedence: int) -> Iterator[Jam]:
    """Let the API server refuse the requests of our ServiceAccounts while the block runs, at most MOST_TIMEOUT s.

    `precedence`: of the FlowSchema; those of the manifests with a lower one keep their requests. The level has room for
    one request. That is the creation of a ConfigMap, for which the API server calls a webhook that does not answer.
    """
    with tempfile.TemporaryDirectory() as folder, mute(Path(folder)) as silent:
        manifests = [level(), schema(precedence), silent_webhook(silent), rights()]
        kubectl.apply({"apiVersion": "v1", "kind": "List", "items": manifests})
        caller, found = Caller(kubectl), Jam(kubectl)
        uid = kubectl.get("flowschema", JAM)["metadata"]["uid"]
        pods = "/api/v1/pods?limit=1"
        blocker = threading.Thread(target=block, args=(kubectl,), daemon=True)
        try:
            until(lambda: caller.call("GET", pods).headers.get(SCHEMA_HEADER) == uid)
            blocker.start()
            until(lambda: caller.call("GET", pods).status == REFUSED)
            found.since = time.monotonic()
            yield found
            assert blocker.is_alive(), "the level has room again before the end of the test"
        finally:
            kinds = "flowschema,prioritylevelconfiguration,validatingwebhookconfiguration,clusterrolebinding"
            assert kubectl.run("delete", kinds, JAM).returncode == 0


def block(kubectl: Kubectl) -> None:
    """Create a ConfigMap as the user JAM, which takes as long as its webhook does not answer, once that is called."""
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": JAM, "labels": {JAM: JAM}}}
    how = ("--namespace=default", "--dry-run=server", f"--as={JAM}", "--filename=-")
    begin = time.monotonic()
    while time.monotonic() - begin < AT_ONCE:  # until the API server calls the webhook
        begin = time.monotonic()
        kubectl.run("create", *how, stdin=config_map)


def rights() -> Object:
    """Return the rights of the user JAM, whose group must not be system:masters: that is exempt from all limits."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": JAM}
    api_version = "rbac.authorization.k8s.io/v1"
    metadata = {"name": JAM}
    kind = "ClusterRoleBinding"
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "roleRef": role, "subjects": [subject]}


def level() -> Object:
    limited = {
        "nominalConcurrencyShares": 0,
        "lendablePercent": 0,
        "borrowingLimitPercent": 0,
        "limitResponse": {"type": "Reject"},
    }
    spec = {"type": "Limited", "limited": limited}
    return {"apiVersion": GROUP, "kind": "PriorityLevelConfiguration", "metadata": {"name": JAM}, "spec": spec}


def schema(precedence: int) -> Object:
    accounts = (SERVICE_ACCOUNT, CONTROLLER_ACCOUNT)
    subjects = [
        *({"kind": "ServiceAccount", "serviceAccount": {"name": one, "namespace": SYSTEM}} for one in accounts),
        {"kind": "User", "user": {"name": JAM}},
    ]
    every = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "clusterScope": True, "namespaces": ["*"]}
    spec = {
        "matchingPrecedence": precedence,
        "priorityLevelConfiguration": {"name": JAM},
        "rules": [{"subjects": subjects, "resourceRules": [every]}],
    }
    return {"apiVersion": GROUP, "kind": "FlowSchema", "metadata": {"name": JAM}, "spec": spec}


def silent_webhook(silent: Mute) -> Object:
    url, bundle = f"https://127.0.0.1:{silent.listener.getsockname()[1]}/", base64.b64encode(silent.authority).decode()
    hook = {
        "name": "silent.example.test",
        "clientConfig": {"url": url, "caBundle": bundle},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}],
        "objectSelector": {"matchLabels": {JAM: JAM}},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": MOST_TIMEOUT,
    }
    kind = "ValidatingWebhookConfiguration"
    api_version = "admissionregistration.k8s.io/v1"
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": JAM}, "webhooks": [hook]}
