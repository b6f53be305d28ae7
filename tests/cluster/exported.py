"""The exported policies in a test cluster, for namespaces with labels of this test.

The labels of opted-in namespaces are replaced by labels of the test, so that the webhook of the cluster is not called
for namespaces of the policies alone.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from tests.awaiting import until
from tests.cluster import command_line
from tests.cluster.conftest import new_namespace
from tests.cluster.manifests import job, pod
from tests.documents import document_of
from webhook.kube import names
from webhook.kube.paths import path_of
from webhook.systems.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.namespace import Api, Namespace

PROFILE = "example.test/profile"
MODE = "example.test/mode"
PROFILES = ("default", "one-retry", "clamp", "fail-job", "count", "require")
DENIED = " denied request: "


def exported(folder: Path) -> list[Object]:
    """Return what `retry-policy export` prints for PROFILES of the cluster tests' policy, written to a folder.

    Each exported policy names all its profiles four times. The API server compiles each name twice.
    """
    policy = document_of(Path(os.environ["RETRY_POLICY_TEST_POLICY"]).read_text())
    policy["profiles"] = {name: policy["profiles"][name] for name in PROFILES}
    file = folder / "exported.yaml"
    file.write_text(json.dumps(policy))  # JSON is YAML too
    done = command_line.run("export", f"--policy={file}", "-o", "json")
    assert done.exit_code == 0, done.stderr
    return list(json.loads(done.stdout)["items"])


def for_test(objects: list[Object]) -> list[Object]:
    """Return exported objects that apply to namespaces with the labels of the test instead."""
    text = json.dumps(objects)
    found: list[Object] = json.loads(text.replace(names.PROFILE, PROFILE).replace(names.MODE, MODE))
    return found


def install(kubectl: Kubectl) -> None:
    """Apply the objects for the test, once for all workers: the API server takes seconds to compile them."""
    logs = Path(os.environ["RETRY_POLICY_TEST_LOGS"])
    with (logs / "exported.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (logs / "exported").exists():
            # In the reverse order: once the first ones have an effect, as `is_effective` sees, all others have one.
            items = [*reversed(for_test(exported(logs)))]
            whole = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
            # To validate, kubectl would ask for a schema, which the API server makes late while it compiles.
            done = kubectl.run("apply", "--server-side", "--validate=false", "--filename=-", stdin=whole)
            assert done.returncode == 0, done.stderr
            (logs / "exported").touch()


def namespace(title: str, kubectl: Kubectl, api: Api, labels: Mapping[str, str]) -> Namespace:
    """Return a new namespace in which the policies have an effect."""
    made = new_namespace(title, labels, kubectl, api)
    if labels.get(MODE, "Enforce") == "Enforce" and PROFILE in labels:
        until(lambda: is_effective(made))
    return made


def is_effective(team: Namespace) -> bool:
    """Return True if policies of the test refuse objects of the first and of the second kind."""
    forged = pod("probe", annotations={names.MAX_RETRIES: "25"}), job("probe", backoffLimit=25)
    answers = (team.api.dry_run(path(root, team.name), root) for root in forged)
    return all(DENIED in str(answer.get("message")) for answer in answers)


def path(root: Object, team: str) -> str:
    """Return the path to which an object is posted."""
    row = KINDS[root["apiVersion"].rpartition("/")[0], root["kind"]]
    return path_of(root["apiVersion"], row.resource, team if row.namespaced else None).removeprefix("/")


def create(team: Namespace, root: Object) -> Object:
    """Create an object in a dry run; return it, or the Status that rejects it, without what differs each time."""
    answer = team.api.dry_run(path(root, team.name), root)
    assert answer.get("code") not in {404, 500, 503}, answer
    return answer


def is_refused(answer: Object) -> bool:
    return bool(answer["kind"] == "Status")


def said(answer: Object) -> str:
    """Return the problems in a refusal by an exported policy."""
    assert DENIED in answer["message"], answer["message"]
    return str(answer["message"]).split(DENIED, 1)[1]
