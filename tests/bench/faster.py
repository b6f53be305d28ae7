"""A control plane in which simulated time runs faster: a simulated minute takes seconds."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tests.cluster import binaries, control_plane, installation, nodes
from tests.cluster.binaries import FASTER_CONTROLLER_MANAGER
from tests.cluster.kubectl import Kubectl
from tests.cluster.processes import Processes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from webhook.kube.client import Api
    from webhook.objects.problem import Json

CONTROLLER_MANAGER = "kube-controller-manager"


@contextmanager
def faster_cluster(policy: str, probe: Json, minute: float, *options: str) -> Iterator[Kubectl]:
    """Start a control plane whose Job controller waits as much shorter as a minute is, and the webhook with a policy.

    `probe`: a Namespace that names a profile of the policy, by which to see that the policy is in force. `minute`: the
    seconds that a simulated minute takes. `options`: further ones of the controller.
    """
    programs = binaries.build([*binaries.own_cluster(), FASTER_CONTROLLER_MANAGER])
    programs[CONTROLLER_MANAGER] = programs[FASTER_CONTROLLER_MANAGER.name]
    os.environ["FASTER"] = str(round(60 / minute))
    with tempfile.TemporaryDirectory(prefix="retry-policy-faster-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        processes = Processes(folder / "logs")
        processes.logs.mkdir()
        try:
            kubectl = Kubectl(programs["kubectl"], control_plane.start(programs, processes, folder))
            nodes.start(programs, processes, kubectl, foreign=False)
            file = installation.start(processes, kubectl, folder, for_tests=True, options=options)
            file.write_text(policy)
            namespace = {"apiVersion": "v1", "kind": "Namespace", **probe}
            dry_run = ("create", "--dry-run=server", "--filename=-")
            processes.wait_until(
                lambda: kubectl.run(*dry_run, stdin=namespace).returncode == 0, "the policy", log=installation.SERVER
            )
            yield kubectl
        finally:
            processes.stop()


async def events(api: Api, path: str, query: dict[str, str]) -> AsyncIterator[tuple[str, Json]]:
    """Yield each event's type and object; a watch that the API server ends is begun again where it ended."""
    following = {**query, "watch": "1", "timeoutSeconds": "3600"}
    while True:
        async with api.stream(path, following, "application/json") as lines:
            async for line in lines:
                event = msgspec.json.decode(line)
                following["resourceVersion"] = event["object"]["metadata"]["resourceVersion"]
                yield event["type"], event["object"]
