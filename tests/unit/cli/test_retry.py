"""The targets of `retry-policy retry`, and the failed objects of a selection."""

import asyncio
import io
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import click
import pytest

from tests.objects import job_spec, stored_job
from webhook.cli import retry
from webhook.kube.client import Api
from webhook.objects.problem import Json
from webhook.systems.adapter import Adapter
from webhook.systems.job import rerun as job
from webhook.systems.job import rerun as of_job
from webhook.systems.job.rerun import OF_CRON_JOB
from webhook.systems.job_set import rerun as job_set
from webhook.systems.tekton import rerun as pipeline_run

ADAPTERS = [
    ("job", job.ADAPTER),
    ("cronjobs", OF_CRON_JOB),
    ("JobSet", job_set.ADAPTER),
    ("pipelinerun", pipeline_run.ADAPTER),
]


@pytest.mark.parametrize(("kind", "adapter"), ADAPTERS)
def test_a_kind_can_be_written_as_for_kubectl(kind: str, adapter: Adapter) -> None:
    target = retry.target_of(f"ml/{kind}/train", None, None)
    assert (target.namespace, target.adapter, target.name) == ("ml", adapter, "train")


def test_objects_can_be_chosen_by_labels_and_by_the_time_of_their_failure() -> None:
    target = retry.target_of("ml/job", "team=a", "1h30m")
    assert (target.name, target.selector, target.failed_since) == ("", "team=a", 5400)


def test_the_kind_can_be_left_out() -> None:
    target = retry.target_of("ml/train", None, None)
    assert (target.namespace, target.adapter, target.name) == ("ml", None, "train")


@pytest.mark.parametrize(
    ("text", "selector", "since", "what"),
    [
        ("job/ml/train", None, None, "; if 'ml' is a namespace: -n ml train"),
        ("ml/deployment/web", None, None, "'deployment' is no kind of this command; write NAMESPACE/KIND/NAME"),
        ("train", None, None, "'train' names no namespace; write NAMESPACE/train or NAMESPACE/KIND/train, or use -n"),
        ("ml/job", None, None, "names no Job; write ml/job/NAME, or choose with -l or --failed-since"),
        (
            "ml/job/train",
            "team=a",
            None,
            "choose from NAMESPACE/KIND, and 'ml/job/train' is none; KIND is one of job",
        ),
        ("ml/job", None, "soon", "'soon' is not a duration; write 90s, 1h30m or 24h"),
        ("ml/job/../secrets", None, None, "'job/..' is no kind"),
        ("ml/job/..", None, None, "names no object"),
        ("ML/job/train", None, None, "names no object"),
    ],
)
def test_a_malformed_target_is_an_error_that_says_what_to_write(
    text: str, selector: str | None, since: str | None, what: str
) -> None:
    with pytest.raises(click.UsageError, match=re.escape(what)):
        retry.target_of(text, selector, since)


def test_keep_finally_is_refused_for_other_kinds_than_pipeline_run() -> None:
    with pytest.raises(click.UsageError, match="--keep-finally is for PipelineRuns, and this is a Job; leave it out"):
        retry.target_of("ml/job/train", None, None, keep_finally=True)
    assert retry.target_of("ml/train", None, None, keep_finally=True).keep_finally


@pytest.mark.parametrize("stdin", [io.StringIO(""), None], ids=["empty", "closed"])
def test_a_confirmation_that_stdin_cannot_give_names_the_option_to_use(
    monkeypatch: pytest.MonkeyPatch, stdin: io.StringIO | None
) -> None:
    monkeypatch.setattr("sys.stdin", stdin)
    with pytest.raises(click.UsageError, match="nothing was changed: stdin has no answer; use --yes"):
        retry.is_confirmed(["Job ml/train would run again"])


class Terminal(io.StringIO):
    """A terminal on which Ctrl-D was typed."""

    def isatty(self) -> bool:
        return True


def test_the_end_of_input_on_a_terminal_aborts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(""))
    with pytest.raises(click.Abort):
        retry.is_confirmed(["Job ml/train would run again"])


@pytest.mark.parametrize(("answer", "agreed"), [("y", True), ("n", False)])
def test_a_confirmation_can_be_piped_in(monkeypatch: pytest.MonkeyPatch, answer: str, *, agreed: bool) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{answer}\n"))
    assert retry.is_confirmed(["Job ml/train would run again"]) is agreed


class WithPlaceholders:
    """An API with placeholders only."""

    async def objects(self, *_: Any) -> AsyncIterator[Json]:
        yield of_job.placeholder_for(stored_job(job_spec()), "somebody", "2026-01-01T00:00:00Z")


def test_a_job_that_its_retry_has_deleted_is_found_by_its_placeholder() -> None:
    target = retry.target_of("ml/train", None, None)
    assert asyncio.run(retry.adapter_of(cast("Api", WithPlaceholders()), target)) is of_job.ADAPTER


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
def test_only_objects_that_failed_within_the_given_time_are_chosen(
    root: Json,
    within: int | None,
    failed: bool,  # noqa: FBT001
) -> None:
    assert retry.has_failed(root, within) is failed
