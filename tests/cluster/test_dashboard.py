"""`retry-policy dashboard` on a real API server: with the rights of its user, who sees what kubectl would show."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from http.cookiejar import CookieJar
from typing import TYPE_CHECKING
from urllib.request import HTTPCookieProcessor, build_opener

from tests.cluster.conftest import opted_in
from tests.cluster.manifests import exits, job
from tests.cluster.objects import condition
from tests.cluster.test_retry import new_user

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace

LISTS = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": "lists"},
    "rules": [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    ],
}


@contextmanager
def dashboard(*options: str) -> Iterator[str]:
    """Yield the address that the command prints; it ends well when it is interrupted."""
    command = [sys.executable, "-c", "from webhook.cli.main import main; main()", "dashboard", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0


def shown(address: str) -> Object:
    """Return the report that a browser gets that opens the address."""
    browser = build_opener(HTTPCookieProcessor(CookieJar()))
    base, _, _ = address.partition("?")
    browser.open(address).read()
    with browser.open(f"{base}report") as answer:
        packed = answer.read()
    found: Object = json.loads(gzip.decompress(packed))
    return found


def a_complete_job(team: Namespace) -> None:
    team.create(job("good", exits(0), backoffLimit=3))
    team.wait_for("jobs", "good", lambda found: condition(found, "Complete"))


def test_a_user_of_one_namespace_sees_its_workloads_and_what_is_missing(
    namespace: NewNamespace, tmp_path: Path
) -> None:
    team = opted_in(namespace)
    a_complete_job(team)
    team.create(LISTS)
    user = new_user(team, tmp_path, "--role=lists")
    with dashboard("-n", team.name, f"--kubeconfig={user}") as address:
        found = shown(address)
    assert [(row["namespace"], row["name"], row["state"]) for row in found["workloads"]] == [
        (team.name, "good", "Complete")
    ]
    assert any(note.startswith("nodes cannot be listed: ") for note in found["notes"])
