"""Which names a shell offers for what is typed; what the API server answers is tested in tests/cluster."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.unit.kube.test_client import mute
from webhook.cli.kubectl import suggestions
from webhook.kinds import volcano
from webhook.kinds.batch import CRON_JOB, JOB
from webhook.kube.client import Api, ApiError
from webhook.kube.kubeconfig import Kubeconfig

KUBECONFIG = "contexts: [{name: lab}, {name: prod}, {name: local}]"
LISTS = {
    "/api/v1/namespaces": ["default", "ml", "ml-test", "web"],
    "/apis/batch/v1/namespaces/ml/jobs": ["train", "test"],
    "/apis/batch/v1/namespaces/ml/cronjobs": ["nightly"],
    "/apis/batch/v1/namespaces/web/cronjobs": [],
    "/apis/batch.volcano.sh/v1alpha1/namespaces/volcanoes/jobs": ["train"],
}


class Stored:
    """An API that has the lists in LISTS, and others not."""

    async def get(self, path: str, _query: Any, _accept: str, kind: Any) -> Any:
        if path not in LISTS:
            raise ApiError(404, "the server could not find the requested resource")
        columns = [suggestions.Column("Age"), suggestions.Column("Name")]
        return kind(columns, [suggestions.Row(["5m", name]) for name in LISTS[path]])


def offered(namespace: str | None, incomplete: str) -> list[str]:
    rows = [JOB, CRON_JOB, volcano.JOB]
    return asyncio.run(suggestions.offered(cast("Api", Stored()), rows, namespace, incomplete))


@pytest.fixture(autouse=True)
def logs() -> Iterator[None]:
    """Let later tests log: a process that completes does nothing else."""
    yield
    logging.disable(logging.NOTSET)


def test_a_kind_with_the_name_of_another_is_offered_with_its_group() -> None:
    assert offered("volcanoes", "") == ["job.batch.volcano.sh/train"]


@pytest.mark.parametrize(
    ("incomplete", "found"),
    [
        ("", ["job/test", "job/train", "cronjob/nightly"]),
        ("job/tr", ["job/train"]),
        ("t", ["test", "train"]),
        ("cron", ["cronjob/nightly"]),
        ("absent", []),
    ],
)
def test_in_a_known_namespace_its_workloads_are_offered(incomplete: str, found: list[str]) -> None:
    assert offered("ml", incomplete) == found


@pytest.mark.parametrize(
    ("incomplete", "found"),
    [
        ("m", ["ml/", "ml-test/"]),
        ("ml/", ["ml/job/test", "ml/job/train", "ml/cronjob/nightly"]),
        ("ml/ni", ["ml/nightly"]),
        ("w", ["web/"]),
        ("web/", []),
        ("absent/", []),
        ("Not A Name/", []),
    ],
)
def test_without_a_namespace_namespaces_are_offered_and_then_their_workloads(incomplete: str, found: list[str]) -> None:
    assert offered(None, incomplete) == found


def test_for_the_only_namespace_that_matches_its_workloads_are_offered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LISTS, "/api/v1/namespaces", ["default", "ml"])
    assert offered(None, "m") == ["ml/job/test", "ml/job/train", "ml/cronjob/nightly"]


def test_of_many_names_the_kinds_are_offered_first() -> None:
    found = {"job": [f"job-{number}" for number in range(200)], "cronjob": ["nightly"], "jobset": []}
    assert suggestions.matching(found, "", "") == ["job/", "cronjob/"]
    assert suggestions.matching(found, "", "job/job-19") == ["job/job-19", *(f"job/job-19{n}" for n in range(10))]


def test_contexts_are_those_of_the_kubeconfig(tmp_path: Path) -> None:
    file = tmp_path / "config"
    kubeconfig = Kubeconfig(str(file))
    assert suggestions.contexts(kubeconfig, "") == []
    file.write_text(KUBECONFIG)
    assert suggestions.contexts(kubeconfig, "l") == ["lab", "local"]
    file.write_text("- no kubeconfig")
    assert suggestions.contexts(kubeconfig, "l") == []


def test_a_cluster_that_does_not_answer_offers_nothing_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(suggestions, "SECONDS", 0.1)
    monkeypatch.setattr(suggestions, "ALL_SECONDS", 60)  # they would end this process
    with mute(tmp_path) as peer:
        (tmp_path / "config").write_text(peer.kubeconfig())
        kubeconfig = Kubeconfig(str(tmp_path / "config"))
        assert suggestions.namespaces(kubeconfig, "") == []
        assert suggestions.workloads(kubeconfig, "", [JOB], "ml") == []
    assert suggestions.namespaces(Kubeconfig("/absent"), "") == []
    assert capfd.readouterr() == ("", "")
