"""The targets of `retry-policy retry`, and the failed objects of a selection."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from tests.objects import stored_job
from webhook.cli import retry
from webhook.objects.problem import Json
from webhook.retry.kinds import cron_job, job, job_set, pipeline_run
from webhook.retry.kinds.adapter import Adapter

ADAPTERS = [("job", job), ("cronjobs", cron_job), ("JobSet", job_set), ("pipelinerun", pipeline_run)]


@pytest.mark.parametrize(("kind", "adapter"), [(kind, module.ADAPTER) for kind, module in ADAPTERS])
def test_a_kind_is_named_as_kubectl_takes_it(kind: str, adapter: Adapter) -> None:
    target = retry.target_of(f"ml/{kind}/train", None, None)
    assert (target.namespace, target.adapter, target.name) == ("ml", adapter, "train")


def test_several_are_chosen_by_labels_and_by_when_they_failed() -> None:
    target = retry.target_of("ml/job", "team=a", "1h30m")
    assert (target.name, target.selector, target.failed_since) == ("", "team=a", 5400)


@pytest.mark.parametrize(
    ("text", "selector", "since", "keep_finally", "what"),
    [
        ("ml/deployment/web", None, None, False, "no 'deployment' can run again; write NAMESPACE/KIND/NAME"),
        ("train", None, None, False, "'train'"),
        ("ml/job", None, None, False, "names no Job; add /NAME, or choose with -l or --failed-since"),
        ("ml/job/train", "team=a", None, False, "exclude each other; leave one out"),
        ("ml/job", None, "soon", False, "'soon' is no duration; write 90s, 1h30m or 24h"),
        ("ml/job/train", None, None, True, "--keep-finally is of PipelineRuns"),
        ("ml/job/../secrets", None, None, False, "names nothing"),
        ("ML/job/train", None, None, False, "names nothing"),
    ],
)
def test_what_names_nothing_is_said_with_what_would(
    text: str,
    selector: str | None,
    since: str | None,
    keep_finally: bool,  # noqa: FBT001
    what: str,
) -> None:
    with pytest.raises(ValueError, match=re.escape(what)):
        retry.target_of(text, selector, since, keep_finally=keep_finally)


def ended(kind: str, ago: int) -> Json:
    when = (datetime.now(UTC) - timedelta(seconds=ago)).isoformat(timespec="seconds")
    return stored_job(status={"conditions": [{"type": kind, "status": "True", "lastTransitionTime": when}]})


@pytest.mark.parametrize(
    ("root", "within", "failed"),
    [
        (ended("Failed", 60), None, True),
        (ended("Failed", 60), 3600, True),
        (ended("Failed", 7200), 3600, False),
        (ended("Complete", 60), None, False),
        (stored_job(), 3600, False),
    ],
)
def test_only_what_failed_within_the_time_is_chosen(root: Json, within: int | None, failed: bool) -> None:  # noqa: FBT001
    assert retry.has_failed(root, within) is failed
