"""The exported policies hold the limits while no replica runs, and the webhooks fail open."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from tests.awaiting import until
from tests.cluster import command_line
from tests.cluster.installation import BASE, built
from tests.cluster.manifests import job
from tests.faults.direct import RefusedError
from tests.faults.installed import called_at
from tests.faults.stage import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cluster.kubectl import Kubectl, Object
    from tests.faults.stage import Stage

FAIL_OPEN = BASE.parent / "overlays" / "fail-open"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"


@pytest.fixture
def export(stage: Stage) -> Iterator[Callable[[], None]]:
    """Return `retry-policy export | kubectl apply -f -`; what it installs is deleted when the test ends."""
    manifests = command_line.run("export").stdout

    def install() -> None:
        done = stage.kubectl.run("apply", "--filename=-", stdin=manifests)
        assert done.returncode == 0, done.stderr

    yield install
    done = stage.kubectl.run("delete", "--ignore-not-found", "--filename=-", stdin=manifests)
    assert done.returncode == 0, done.stderr


def fails_open(kubectl: Kubectl, folder: Path) -> list[Object]:
    """Return the webhook configurations of the base with the component fail-open."""
    kustomization = {
        "resources": [os.path.relpath(BASE, folder)],
        "components": [os.path.relpath(FAIL_OPEN, folder)],
    }
    (folder / "kustomization.yaml").write_text(json.dumps(kustomization))
    return [manifest for manifest in built(kubectl, folder) if "webhooks" in manifest]


def tried(stage: Stage, backoff_limit: int) -> str | Object:
    """Create a Job in a dry run; return it, or why it is refused."""
    try:
        return stage.api.call("POST", f"{JOBS}?dryRun=All", job("train", backoffLimit=backoff_limit))
    except RefusedError as refused:
        return str(refused)


def test_without_a_server_a_job_with_25_retries_is_still_refused(
    stage: Stage, export: Callable[[], None], tmp_path: Path
) -> None:
    for manifest in fails_open(stage.kubectl, tmp_path):
        path = next(path for path in stage.configurations if path.endswith(f"/{manifest['kind'].lower()}s"))
        stage.api.delete(f"{path}/{manifest['metadata']['name']}")
        stage.api.create(path, called_at(stage.url, manifest))
    stage.two_replicas()
    export()
    stage.end_replicas()
    until(lambda: isinstance(tried(stage, 3), dict))  # no replica answers, and nothing is refused for that
    refusal = "spec.backoffLimit: 25 retries exceed the limit of 10 in profile 'default'; set 10 or less"
    until(lambda: refusal in str(tried(stage, 25)))
    assert "ValidatingAdmissionPolicy 'retry-policy-limits-jobs.batch'" in str(tried(stage, 25))
