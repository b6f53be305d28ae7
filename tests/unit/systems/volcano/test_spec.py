"""Where Volcano's Jobs, CronJobs and JobTemplates have their retries and pod templates."""

import pytest

from tests.unit.systems.reading import places, retries, root_of, templates
from webhook.objects.problem import Json
from webhook.systems.kind_spec import KindSpec
from webhook.systems.volcano.spec import CRON_JOB, JOB, JOB_TEMPLATE, KINDS


def task(name: str, **fields: int) -> Json:
    pod = {"restartPolicy": "OnFailure", "containers": [{"name": name, "image": "volcanosh/example-mpi:0.0.3"}]}
    return {"name": name, "replicas": 1, "template": {"spec": pod}, **fields}


def spec(*tasks: Json, **fields: int) -> Json:
    """Return a JobSpec with a master that ends the Job, like MPI Jobs on Volcano."""
    policies = [{"event": "PodEvicted", "action": "RestartJob"}]
    return {"schedulerName": "volcano", "minAvailable": 2, "policies": policies, "tasks": list(tasks), **fields}


@pytest.mark.parametrize("kind", [JOB, JOB_TEMPLATE])
@pytest.mark.parametrize(("runs", "allowed"), [(0, 0), (1, 0), (2, 1), (4, 3)])
def test_a_job_counts_runs_and_the_first_run_is_not_a_retry(kind: KindSpec, runs: int, allowed: int) -> None:
    assert retries(kind, root_of(kind, spec(task("main"), maxRetry=runs))) == {"spec.maxRetry": allowed}


def test_a_job_without_max_retry_has_three_runs() -> None:
    assert retries(JOB, root_of(JOB, spec(task("main")))) == {"spec.maxRetry": 2}


@pytest.mark.parametrize(("restarts", "allowed"), [(0, 0), (3, 3), (-1, None), (-7, None)])
def test_a_task_counts_restarts_of_its_containers_and_may_have_no_limit(restarts: int, allowed: int | None) -> None:
    root = root_of(JOB, spec(task("master"), task("worker", maxRetry=restarts), maxRetry=1))
    assert retries(JOB, root) == {"spec.maxRetry": 0, "spec.tasks[1].maxRetry": allowed}


def test_each_task_has_a_pod_template() -> None:
    root = root_of(JOB, spec(task("master"), task("worker")))
    assert templates(JOB, root) == ["spec.tasks[0].template", "spec.tasks[1].template"]


def test_a_cron_job_has_the_fields_of_a_job_in_its_job_template() -> None:
    root = root_of(CRON_JOB, {"schedule": "0 3 * * *", "jobTemplate": {"spec": spec(task("report"), maxRetry=2)}})
    assert retries(CRON_JOB, root) == {"spec.jobTemplate.spec.maxRetry": 1}
    assert templates(CRON_JOB, root) == ["spec.jobTemplate.spec.tasks[0].template"]
    assert places(CRON_JOB.made_annotations, root) == ["spec.jobTemplate.metadata.annotations"]


def test_the_annotations_of_a_job_template_are_not_copied_to_its_jobs() -> None:
    assert JOB_TEMPLATE.made_annotations == ()


def test_only_a_job_runs_pods_and_is_immutable() -> None:
    assert [kind.kind for kind in KINDS if kind.owns_pods and kind.immutable] == ["Job"]
    assert not any(kind.owns_pods or kind.immutable for kind in (CRON_JOB, JOB_TEMPLATE))
