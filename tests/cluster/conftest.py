"""Fixtures on top of the cluster that KUBECONFIG names; `python -m tests.cluster -- pytest tests/cluster` sets it."""

from __future__ import annotations

import math
import os
import re
import secrets
import shutil
from itertools import accumulate, groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from tests.cluster.kubectl import Kubectl
from tests.cluster.namespace import Api, Namespace
from tests.cluster.processes import last_lines
from webhook.kube import names

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

LOG_LINES = 30
NAMES = pytest.StashKey[list[str]]()
OWN_CONTROL_PLANE = (Path(os.environ.get("RETRY_POLICY_TEST_LOGS", ".")) / "kube-apiserver.log").exists()
# Another's cluster may have other versions of these operators, and its CRDs are not ours to replace and to delete.
with_operators = pytest.mark.skipif(not OWN_CONTROL_PLANE, reason="no CRDs are installed in another's cluster")


WITH_SYSTEMS = bool(os.environ.get("RETRY_POLICY_TEST_SYSTEMS")) or not OWN_CONTROL_PLANE
WITH_KUEUE = bool(os.environ.get("RETRY_POLICY_TEST_KUEUE")) or not OWN_CONTROL_PLANE


class NewNamespace(Protocol):
    def __call__(self, labels: Mapping[str, str] | None = None) -> Namespace: ...


def kubectl_of_admin(tests: str) -> Kubectl:
    """Return kubectl for the test cluster, as its admin; without one, fail the tests in a folder."""
    program = shutil.which("kubectl")
    if "RETRY_POLICY_TEST_POLICY" not in os.environ or program is None:
        pytest.fail(f"no test cluster; run: python -m tests.cluster -- pytest {tests}", pytrace=False)
    return Kubectl(Path(program), Path(os.environ["KUBECONFIG"]))


@pytest.fixture(scope="session")
def kubectl() -> Kubectl:
    """kubectl with the permissions of the cluster's admin, and without a namespace."""
    return kubectl_of_admin("tests/cluster")


@pytest.fixture(scope="session")
def api(kubectl: Kubectl) -> Iterator[Api]:
    api = Api.connect(kubectl.kubeconfig)
    yield api
    api.close()


@pytest.fixture
def namespace(request: pytest.FixtureRequest, kubectl: Kubectl, api: Api) -> Iterator[NewNamespace]:
    """Return a function that creates namespaces with labels: `namespace({PROFILE: "default"})`.

    On another's cluster they are deleted when the test ends. On our own control plane they stay until it ends, because
    their deletion, with thirty more kinds to look for in each, would be a quarter of all its work.
    """
    names = request.node.stash.setdefault(NAMES, [])

    def create(labels: Mapping[str, str] | None = None) -> Namespace:
        created = new_namespace(request.node.name.removeprefix("test_"), labels or {}, kubectl, api)
        names.append(created.name)
        return created

    yield create
    if names and not OWN_CONTROL_PLANE:
        kubectl.run("delete", "namespace", *names, "--wait=false")


@pytest.fixture(scope="session")
def dry(kubectl: Kubectl, api: Api) -> Iterator[NewNamespace]:
    """Return a function for namespaces that tests share which create objects in dry runs only; one for each labels."""
    made: dict[tuple[tuple[str, str], ...], Namespace] = {}

    def of(labels: Mapping[str, str] | None = None) -> Namespace:
        key = tuple(sorted((labels or {}).items()))
        if key not in made:
            made[key] = new_namespace("dry runs", labels or {}, kubectl, api)
        return made[key]

    yield of
    if made and not OWN_CONTROL_PLANE:
        kubectl.run("delete", "namespace", *(one.name for one in made.values()), "--wait=false")


def opted_in(namespace: NewNamespace, profile: str = "default") -> Namespace:
    return namespace({names.PROFILE: profile})


def new_namespace(title: str, labels: Mapping[str, str], kubectl: Kubectl, api: Api) -> Namespace:
    """Create a namespace, named after a title; return when pods can be created in it."""
    words = re.sub("[^a-z0-9]+", "-", title.lower())
    name = f"{words[:40].strip('-')}-{secrets.token_hex(3)}"
    metadata = {"name": name, "labels": dict(labels)}
    api.create("api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    created = Namespace(kubectl.program, kubectl.kubeconfig, name, api)
    created.wait_for("serviceaccounts", "default", bool)  # without it no pod can be created
    return created


def _mixed(items: list[pytest.Item]) -> list[pytest.Item]:
    """Spread the files with scenarios evenly among the others."""
    files = [list(file) for _, file in groupby(items, lambda item: item.path)]
    of_scenarios = [file for file in files if file[0].path.parent.name == "scenarios"]
    placed: list[tuple[float, list[pytest.Item]]] = []
    for sort in (of_scenarios, [file for file in files if file not in of_scenarios]):
        ends = list(accumulate(map(len, sort)))
        placed += [(end / ends[-1], file) for end, file in zip(ends, sort, strict=True)]
    return [item for _, file in sorted(placed, key=itemgetter(0)) for item in file]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let each worker begin with some of the tests that take minutes, so that none of them runs alone at the end.

    `--dist worksteal` gives each worker one continuous part of the list. In each part are some of the scenarios, which
    wait most of the time, beside tests that compute.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    first = [item for item in items if item.get_closest_marker("first")]
    others = _mixed([item for item in items if item not in first])
    size = math.ceil(len(others) / workers)
    items[:] = [
        item
        for worker in range(workers)
        for item in (*first[worker::workers], *others[worker * size : (worker + 1) * size])
    ]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test of Kueue at once if Kueue does not run: the test would only wait in vain."""
    if item.get_closest_marker("kueue") and not WITH_KUEUE:
        pytest.fail("Kueue does not run in this cluster; run: make test-operators", pytrace=False)
    if item.get_closest_marker("systems") and not WITH_SYSTEMS:
        pytest.fail("the other systems do not run in this cluster; run: make test-systems", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the report of a failed test the log lines of the cluster's programs about its namespaces."""
    report = yield
    names = item.stash.get(NAMES, [])
    if report.failed and call.when == "call" and names:
        folder = Path(os.environ["RETRY_POLICY_TEST_LOGS"])
        for log in sorted(folder.rglob("*.log")):  # those of real pods are in folders
            if lines := last_lines(log, LOG_LINES, names):
                report.sections.append((str(log.relative_to(folder)), lines))
    return report
