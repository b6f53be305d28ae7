"""Where RayJobs and RayCronJobs have their retries and pod templates, and which RayClusters are batch work."""

from tests.unit.systems.reading import retries, root_of, templates
from webhook.objects.problem import Json
from webhook.systems.ray.spec import RAY_CLUSTER, RAY_CRON_JOB, RAY_JOB


def pod_template(name: str) -> Json:
    return {"spec": {"containers": [{"name": name, "image": "rayproject/ray:2.52.0"}]}}


def ray_job_spec() -> Json:
    """Return a RayJobSpec with the author's own submitter and, like most, without retries."""
    workers = [
        {"groupName": name, "replicas": 1, "rayStartParams": {}, "template": pod_template("ray-worker")}
        for name in ("cpu", "gpu")
    ]
    return {
        "entrypoint": "python /home/ray/samples/train.py",
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": {
            "rayVersion": "2.52.0",
            "headGroupSpec": {"rayStartParams": {}, "template": pod_template("ray-head")},
            "workerGroupSpecs": workers,
        },
        "submitterPodTemplate": pod_template("submitter"),
    }


def test_a_ray_job_without_a_number_has_no_retries() -> None:
    assert retries(RAY_JOB, root_of(RAY_JOB, ray_job_spec())) == {"spec.backoffLimit": 0}


def test_new_clusters_and_submissions_are_counted_by_two_fields() -> None:
    root = root_of(RAY_JOB, {**ray_job_spec(), "backoffLimit": 3, "submitterConfig": {"backoffLimit": 1}})
    assert retries(RAY_JOB, root) == {"spec.backoffLimit": 3, "spec.submitterConfig.backoffLimit": 1}


def test_a_submitter_config_without_a_limit_is_no_retry_field() -> None:
    root = root_of(RAY_JOB, {**ray_job_spec(), "submitterConfig": {}})
    assert retries(RAY_JOB, root) == {"spec.backoffLimit": 0}


def test_head_every_group_of_workers_and_submitter_have_a_pod_template() -> None:
    assert templates(RAY_JOB, root_of(RAY_JOB, ray_job_spec())) == [
        "spec.rayClusterSpec.headGroupSpec.template",
        "spec.rayClusterSpec.workerGroupSpecs[0].template",
        "spec.rayClusterSpec.workerGroupSpecs[1].template",
        "spec.submitterPodTemplate",
    ]


def test_a_ray_cron_job_has_the_fields_of_a_ray_job_in_its_job_template() -> None:
    root = root_of(RAY_CRON_JOB, {"schedule": "0 3 * * *", "jobTemplate": {**ray_job_spec(), "backoffLimit": 2}})
    assert retries(RAY_CRON_JOB, root) == {"spec.jobTemplate.backoffLimit": 2}
    assert templates(RAY_CRON_JOB, root) == [
        path.replace("spec.", "spec.jobTemplate.", 1) for path in templates(RAY_JOB, root_of(RAY_JOB, ray_job_spec()))
    ]


def test_a_ray_job_counts_attempts_and_its_clusters_control_the_pods() -> None:
    assert (RAY_JOB.counts, RAY_JOB.owns_pods) == (True, False)
    assert (RAY_CLUSTER.counts, RAY_CLUSTER.owns_pods, RAY_CLUSTER.admitted) == (False, True, False)


def test_the_pods_of_a_cluster_are_batch_only_if_a_ray_job_controls_it() -> None:
    assert RAY_CLUSTER.counted_under == "RayJob"
