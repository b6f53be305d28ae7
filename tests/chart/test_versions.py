"""The last version and this one give the same answers, and read each other's objects and policies."""

from __future__ import annotations

import base64
import json
import subprocess
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonpatch
import pytest
import yaml
from hypothesis import given

from tests.admission import review_of
from tests.chart import last_version
from tests.cluster.helm import ROOT
from tests.served import serving
from tests.strategies import CRON_JOBS, JOBS, PODS, examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kubectl import Object
    from tests.served import Served

FOLDER = ROOT / "manifests" / "samples"
SAMPLES = sorted({*FOLDER.rglob("*.yaml")} - {FOLDER / "cases.yaml"})  # without the tests of a policy
POLICIES = [file for file in SAMPLES if file.name.startswith("policy-")]
Both = tuple["Served", "Served"]


@pytest.fixture(scope="module")
def last(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the sources of the last version."""
    return last_version.unpack(tmp_path_factory.mktemp("versions") / "last")


@pytest.fixture(scope="module")
def both(last: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """Serve with the last version and with this one, by one policy."""
    with ExitStack() as stack:

        def served(sources: Path, name: str) -> Served:
            policy = f"--policy={ROOT / 'manifests' / 'samples' / 'policy-gke.yaml'}"
            program = last_version.program(sources)
            return stack.enter_context(serving(tmp_path_factory.mktemp(name), policy, program=program))

        yield served(last, "last"), served(ROOT, "this")


def answered(server: Served, path: str, body: bytes) -> Object:
    """Return what an answer does, without its texts: the verdict and the patch."""
    reply = server.post(path, body)
    assert reply.status == 200, reply.body
    response = json.loads(reply.body)["response"]
    patch = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
    return {"allowed": response["allowed"], "code": response.get("status", {}).get("code"), "patch": patch}


def compared(both: Both, root: Any, old: Any = None) -> list[Any]:
    """Compare what both versions do with an object; return it as each of them mutates it."""
    body = review_of(root, old=old)
    answers = [[answered(server, path, body) for path in ("/mutate", "/validate")] for server in both]
    assert answers[0] == answers[1]
    mutated = [jsonpatch.apply_patch(deepcopy(root), mutate["patch"]) for mutate, _ in answers]
    judged = [answered(server, "/validate", review_of(mutated[0], old=old)) for server in both]
    assert judged[0] == judged[1]
    return mutated


def documents() -> Iterator[Object]:
    for file in SAMPLES:
        if file not in POLICIES:
            yield from (root for root in yaml.safe_load_all(file.read_text()) if root is not None)


@pytest.mark.parametrize("root", list(documents()), ids=lambda root: f"{root['kind']}-{root['metadata'].get('name')}")
def test_both_versions_do_the_same_with_a_sample_and_with_its_update(root: Object, both: Both) -> None:
    stored, _ = compared(both, root)
    compared(both, root, stored)  # the unchanged manifest, applied again
    changed = {**root, "metadata": {**root["metadata"], "labels": {"team": "batch"}}}
    compared(both, changed, stored)


@pytest.mark.parametrize("objects", [JOBS, CRON_JOBS, PODS], ids=["Job", "CronJob", "Pod"])
def test_both_versions_do_the_same_with_generated_objects(objects: Any, both: Both) -> None:
    @examples(300)
    @given(root=objects)
    def check(root: Any) -> None:
        stored, _ = compared(both, root)
        if root["kind"] != "Pod":
            compared(both, root, stored)

    check()


@pytest.mark.parametrize("file", POLICIES, ids=lambda file: file.name)
def test_both_versions_accept_the_sample_policies(file: Path, last: Path) -> None:
    for sources in (last, ROOT):
        assert is_accepted(sources, file)


def test_each_version_accepts_the_shipped_policy_of_the_other(last: Path) -> None:
    shipped = Path("manifests", "base", "configmap.yaml")
    assert is_accepted(last, ROOT / shipped)  # while an upgrade runs, the old server judges the new policy
    assert is_accepted(ROOT, last / shipped)


def is_accepted(sources: Path, policy: Path) -> bool:
    """Return True if `retry-policy check --policy` of a version finds no problem."""
    command = [*last_version.program(sources), "check", f"--policy={policy}"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_without_the_history_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_version, "COMMIT", "0" * 40)
    with pytest.raises(Exception, match="git fetch --unshallow"):
        last_version.unpack(tmp_path / "last")
