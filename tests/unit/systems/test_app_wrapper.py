"""Where an AppWrapper has its retries, which objects it contains, and the resets in its status."""

from functools import partial

import pytest

from tests.objects import job, job_spec, stored_job
from tests.unit.systems.pods import last_of_four_off_spot, made, owned, place, read
from tests.unit.systems.reading import retries, root_of, wrong
from webhook.objects.problem import Json, field
from webhook.systems import app_wrapper
from webhook.systems.app_wrapper import APP_WRAPPER, RETRY_LIMIT
from webhook.systems.job.spec import JOB
from webhook.systems.kinds import embedded_in
from webhook.systems.pod_source import Level

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


ask = partial(read, of=app_wrapper.levels)

WRAPPER = owned("workload.codeflare.dev/v1beta2", "AppWrapper", "wrapped")


def pod() -> Json:
    """Return a pod that is embedded in an AppWrapper."""
    return made(WRAPPER, name="inside")


def pod_of_job() -> Json:
    return made(owned("batch/v1", "Job", "train"), generateName="train-")


def stored(resets: int | None, limit: str | None = "3") -> Json:
    annotations = {} if limit is None else {RETRY_LIMIT: limit}
    status = {} if resets is None else {"resettingCount": resets}
    return {"kind": "AppWrapper", "metadata": {"name": "wrapped", "annotations": annotations}, "status": status}


def test_the_last_of_four_attempts_leaves_spot() -> None:
    assert [place(pod(), stored(resets)) for resets in range(4)] == last_of_four_off_spot("AppWrapper")


def test_a_job_in_an_app_wrapper_also_counts_its_own_failures() -> None:
    found, _ = read(pod_of_job(), stored_job(job_spec(backoffLimit=3), {"failed": 1}), stored(2))
    assert found == [Level("JobStatus", 1, 3), Level("AppWrapper", 2, 3)]


@pytest.mark.parametrize("limit", [None, "many"])
def test_a_limit_that_is_absent_or_not_a_number_is_the_operators_default(limit: str | None) -> None:
    assert ask(pod(), stored(None, limit)) == ([Level("AppWrapper", 0, 3)], [])


def test_an_app_wrapper_that_does_not_exist_gives_no_level() -> None:
    assert ask(pod()) == ([], [])
