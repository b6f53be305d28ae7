"""Where an AppWrapper has its retries, and which objects it contains."""

import pytest

from tests.objects import job
from tests.unit.systems.reading import retries, root_of, wrong
from webhook.objects.problem import Json, field
from webhook.systems.app_wrapper import APP_WRAPPER, RETRY_LIMIT
from webhook.systems.job.spec import JOB
from webhook.systems.kinds import embedded_in

LIMIT = "metadata.annotations[workload.codeflare.dev.appwrapper/retryLimit]"


def wrapper(*objects: Json, limit: str | None = None) -> Json:
    annotations = {} if limit is None else {RETRY_LIMIT: limit}
    return root_of(APP_WRAPPER, {"components": [{"template": one} for one in objects]}, annotations=annotations)


@pytest.mark.parametrize(
    ("limit", "allowed"), [("0", 0), ("2", 2), ("+2", 2), ("-1", 0), (None, 3), ("", 3), ("many", 3), ("1.5", 3)]
)
def test_the_annotation_limits_resets_and_a_malformed_value_means_three(limit: str | None, allowed: int) -> None:
    assert retries(APP_WRAPPER, wrapper(job(), limit=limit)) == {LIMIT: allowed}


def test_a_wrapper_without_annotations_has_three_resets_too() -> None:
    assert retries(APP_WRAPPER, root_of(APP_WRAPPER, {"components": []})) == {LIMIT: 3}


def test_only_objects_of_known_kinds_in_a_wrapper_are_read() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "train"}, "spec": {"ports": 1}}
    root = wrapper(service, job())
    assert wrong(APP_WRAPPER, root) == []
    ((path, inner, kind),) = embedded_in(APP_WRAPPER, root)
    assert (field(path), inner, kind) == ("spec.components[1].template", job(), JOB)


def test_a_wrapper_in_a_wrapper_contains_objects_too() -> None:
    found = [field(path) for path, _, _ in embedded_in(APP_WRAPPER, wrapper(wrapper(job())))]
    assert found == ["spec.components[0].template", "spec.components[0].template.spec.components[0].template"]
