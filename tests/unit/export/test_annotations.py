"""CEL for the annotations of ours."""

from webhook.export import annotations
from webhook.kube import names
from webhook.systems import core
from webhook.systems.job.spec import CRON_JOB


def test_the_annotations_of_a_cron_job_of_its_template_and_of_its_pods_are_judged() -> None:
    assert annotations.patterns(CRON_JOB) == [
        ("metadata", "annotations"),
        ("spec", "jobTemplate", "spec", "template", "metadata", "annotations"),
        ("spec", "jobTemplate", "metadata", "annotations"),
    ]


def test_a_pod_has_its_own_annotations_alone() -> None:
    assert annotations.patterns(core.POD) == [("metadata", "annotations")]


def test_every_annotation_that_authors_write_is_judged() -> None:
    text = "".join(annotations.problems())
    assert all(f"[{key}]" in text for key in names.SAID_BY_AUTHORS)
