"""CEL for the annotations of ours."""

import pytest

from webhook.export import annotations
from webhook.export.cel import Variables
from webhook.kube import names
from webhook.systems import core
from webhook.systems.job.spec import CRON_JOB
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kinds import KINDS


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


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda row: f"{row.kind}.{row.group}")
def test_the_annotations_of_every_kind_have_paths(kind: KindSpec) -> None:
    variables = Variables(kind.shape, "{}")
    assert "startsWith('retry-policy.dev/')" in annotations.said(variables, kind)
