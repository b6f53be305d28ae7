"""Paths of the API: that of each kind, and no path for a name that is not valid."""

import pytest

from webhook.kube.paths import path_of
from webhook.systems import core
from webhook.systems.job.spec import JOB
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kinds import KINDS

NO_NAMES = ["", ".", "..", "a/b", "../secrets", "a?watch=1", "a%2fb", "A", "a b", "a\n", "-a", "a" * 254]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (path_of("v1", "nodes"), "/api/v1/nodes"),
        (path_of("v1", "namespaces", name="ml"), "/api/v1/namespaces/ml"),
        (path_of("v1", "secrets", "ml", "keys.v1"), "/api/v1/namespaces/ml/secrets/keys.v1"),
        (core.POD.path(), "/api/v1/pods"),
        (JOB.path(), "/apis/batch/v1/jobs"),
        (JOB.path("ml"), "/apis/batch/v1/namespaces/ml/jobs"),
        (JOB.path("ml", "train"), "/apis/batch/v1/namespaces/ml/jobs/train"),
    ],
)
def test_an_object_has_the_path_of_the_kubernetes_api(path: str, expected: str) -> None:
    assert path == expected


@pytest.mark.parametrize("text", NO_NAMES)
def test_an_invalid_name_has_no_path(text: str) -> None:
    with pytest.raises(ValueError, match="is not the name of an object"):
        JOB.path("ml", text)
    with pytest.raises(ValueError, match="is not the name of an object"):
        JOB.path(text)


@pytest.mark.parametrize("text", ["", "v1/..", "batch/", "/v1", "batch/v1/namespaces", "../v1", "batch/v1?x=1"])
def test_an_invalid_api_version_has_no_path(text: str) -> None:
    with pytest.raises(ValueError, match="is not an apiVersion"):
        path_of(text, "jobs", "ml", "train")


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda row: row.kind)
def test_every_known_kind_has_a_path(kind: KindSpec) -> None:
    assert kind.path("ml", "train").endswith(f"/namespaces/ml/{kind.resource}/train")
