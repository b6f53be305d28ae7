"""A watch that breaks repeatedly: no answer depends on an outdated state."""

import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from tests.admission import answer_of, review_of
from tests.awaiting import until
from tests.cluster.conftest import NewNamespace
from tests.cluster.kubectl import Kubectl
from tests.cluster.manifests import job
from tests.cluster.namespace import PATHS, Namespace
from tests.cluster.objects import noted
from tests.cluster.test_webhook_server import pod_of
from tests.cut import relaying
from tests.documents import document_of
from tests.served import Served, serving
from webhook.kube import names

BREAKS = 20


def through(kubeconfig: Path, port: int, folder: Path) -> Path:
    """Return a kubeconfig for the same API server through another port of this machine."""
    content = document_of(kubeconfig.read_text())
    cluster = content["clusters"][0]["cluster"]
    cluster["tls-server-name"] = urlsplit(cluster["server"]).hostname
    cluster["server"] = f"https://127.0.0.1:{port}"
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(content))
    return file


def watching(served: Served) -> bool:
    """Return True if the caches of namespaces and Jobs are current."""
    lines = served.get("/metrics").body.decode().splitlines()
    return all(f'retry_policy_cache_age_seconds{{list="{one}"}} 0.0' in lines for one in ("namespaces", "jobs"))


def set_failed(team: Namespace, failed: int) -> None:
    """Set the number of failed pods in the status of the Job `train`."""
    path = f"{PATHS['jobs']}/namespaces/{team.name}/jobs/train/status"
    patched = team.api.send("PATCH", path, {"status": {"failed": failed}})
    assert patched["kind"] == "Job", patched


def set_profile(team: Namespace, profile: str) -> None:
    patched = team.api.send(
        "PATCH", f"api/v1/namespaces/{team.name}", {"metadata": {"labels": {names.PROFILE: profile}}}
    )
    assert patched["kind"] == "Namespace", patched


@pytest.mark.first
def test_after_a_watch_breaks_no_answer_is_from_an_outdated_state(
    tmp_path: Path, namespace: NewNamespace, kubectl: Kubectl
) -> None:
    team = namespace({names.PROFILE: "default"})
    owner = team.create(job("train", suspend=True))
    pod = pod_of(owner)
    review = review_of(pod, namespace=team.name)
    server = urlsplit(document_of(kubectl.kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
    with relaying(server.port or 443) as relay:
        kubeconfig = through(kubectl.kubeconfig, relay.port, tmp_path)
        policy = os.environ["RETRY_POLICY_TEST_POLICY"]
        with serving(tmp_path, "--kubeconfig", str(kubeconfig), "--policy", policy) as served:
            until(lambda: watching(served))
            for failed in range(1, BREAKS + 1):
                relay.cut()
                set_failed(team, failed)
                profile = ("require", "default")[failed % 2]
                set_profile(team, profile)
                assert served.post("/mutate", review).status == 503
                relay.mend()
                for _ in range(2):  # by look-ups in the API, and then from the watches
                    answer = answer_of(served.answered("/mutate", review), pod).object
                    seen = noted(answer)["attempt"], answer["metadata"]["labels"][names.PROFILE]
                    assert seen == (str(failed), profile)
                    until(lambda: watching(served))
