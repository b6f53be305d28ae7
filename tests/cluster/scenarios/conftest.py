"""The environment of a scenario: a namespace with a profile, and nodes on which only its pods run."""

from __future__ import annotations

import fcntl
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest

from tests.cluster.conftest import OWN_CONTROL_PLANE, NewNamespace
from tests.cluster.disruptions import OwnNodes, own_nodes, place, preempt
from tests.cluster.manifests import (
    CANNOT_START,
    CONTAINER,
    DELETION_EXIT_CODE,
    DELETION_SECONDS,
    EXIT_CODES,
    NEEDS_MEMORY,
    OTHERS_EXIT_CODE,
)
from tests.documents import document_of
from webhook.kube.names import PROFILE
from webhook.objects.times import written

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TextIO

    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.namespace import Namespace

MANIFESTS = Path(__file__).parent / "manifests"
BETWEEN: Final = 11.5  # seconds from one pod of a recorded night to the next (pytorch/ci-infra#1058)


def program(
    *exits: int | None,
    at_sigterm: int | None = None,
    after: int | None = None,
    container: str | None = None,
    others: int | None = None,
    needs: str | None = None,
    cannot_start: str | None = None,
) -> dict[str, str]:
    """Return the annotations that define how the containers of a pod end (stages/pod.yaml).

    `exits`: the exit code of `container` (default: the first) at each attempt; for None, and at later attempts, it does
    not end.
    `at_sigterm`: the exit code of all containers when their pod is deleted; by default they are killed, 137.
    `after`: the seconds from SIGTERM to this end.
    `others`: the exit code of the other containers when `container` ends.
    `needs`: the memory without which `container` is killed, one amount or one for each completion index.
    `cannot_start`: the kubelet's reason for which the containers do not start, one for each pod, separated by commas.
    """
    said = {
        EXIT_CODES: ",".join("" if code is None else str(code) for code in exits) or None,
        DELETION_EXIT_CODE: at_sigterm,
        DELETION_SECONDS: after,
        CONTAINER: container,
        OTHERS_EXIT_CODE: others,
        NEEDS_MEMORY: needs,
        CANNOT_START: cannot_start,
    }
    return {key: str(value) for key, value in said.items() if value is not None}


class Scene:
    """A namespace for one scenario, and nodes of both pools."""

    def __init__(self, kubectl: Kubectl, team: Namespace, nodes: OwnNodes) -> None:
        self.kubectl = kubectl
        self.team = team
        self.nodes = nodes

    def create(
        self,
        file: str,
        does: Mapping[str, str] | None = None,
        *,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Object:
        """Create the object of a manifest on this scene's nodes; `does` are annotations of its pods from `program`."""
        manifest = document_of((MANIFESTS / file).read_text())
        metadata = manifest["metadata"]
        metadata |= {"name": name or metadata["name"], "labels": {**metadata.get("labels", {}), **(labels or {})}}
        for template in pod_templates(manifest):
            of_pods = template.setdefault("metadata", {})
            of_pods["annotations"] = {**of_pods.get("annotations", {}), **(does or {})}
            place(self.nodes, template["spec"])
        return self.team.create(manifest)

    def evict(self, pod: Object) -> None:
        self.team.evict(pod["metadata"]["name"])

    def preempt(self, *pods: Object) -> None:
        """Let the scheduler preempt pods that share a node; each requests most of what it has."""
        preempt(self.kubectl, self.team, *pods, cpu="60")


BY_SCHEDULER_AND_EVICTION = pytest.mark.parametrize(
    ("disrupt", "reason"),
    [(Scene.preempt, "PreemptionByScheduler"), (Scene.evict, "EvictionByEvictionAPI")],
    ids=("preempt", "evict"),
)


def pod_templates(part: Any) -> Iterator[Object]:
    """Yield all pod templates in a manifest."""
    if isinstance(part, list):
        for one in part:
            yield from pod_templates(one)
    elif isinstance(part, dict):
        if "containers" in (part.get("spec") or {}):
            yield part
        else:
            yield from pod_templates(list(part.values()))


class NewScene(Protocol):
    def __call__(
        self, profile: str = "default", *, spot: int = 2, on_demand: int = 1, labels: Mapping[str, str] | None = None
    ) -> Scene: ...


@pytest.fixture
def scene(namespace: NewNamespace, kubectl: Kubectl) -> Iterator[NewScene]:
    """Return a function that creates scenes: `scene("require", spot=1)`.

    At the end what runs in them is deleted: else its pods would be created again, and the scheduler would try for each
    node of another test whether it takes them.
    """
    with ExitStack() as stack:

        def create(
            profile: str = "default", *, spot: int = 2, on_demand: int = 1, labels: Mapping[str, str] | None = None
        ) -> Scene:
            nodes = stack.enter_context(own_nodes(kubectl, spot=spot, on_demand=on_demand))
            team = namespace({**(labels or {}), PROFILE: profile})
            if OWN_CONTROL_PLANE:  # on another's cluster the namespace is deleted
                for resource in ("jobs", "jobsets", "cronjobs"):
                    stack.callback(team.delete, resource)
            return Scene(kubectl, team, nodes)

        yield create


class Turn:
    """The turn of a test that makes a node bad: the cluster avoids the last one alone, if it has less than forty.

    `times`: when the attempts end that make it bad, later than those of the turns before, and as far from each other
    as the pods of that night.
    """

    def __init__(self, file: TextIO) -> None:
        self.file = file

    def time(self) -> str:
        """Return the next of these times, RFC 3339."""
        self.file.seek(0)
        last = max(time.time(), float(self.file.read() or 0) + BETWEEN)
        self.file.truncate(0)
        self.file.write(str(last))
        self.file.flush()
        return written(last)


@pytest.fixture
def turn(kubectl: Kubectl) -> Iterator[Turn]:
    with kubectl.kubeconfig.with_name("bad-nodes.lock").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # closing the file releases it
        yield Turn(file)
