"""The context that rules get for a workload, and for each Job in it, before any edit."""

from typing import Any

import pytest

from tests.objects import cron_job, exit_codes, job, job_spec
from tests.unit.systems.job_set.rules.test_job_set import job_set
from tests.unit.systems.pods import evidence, made
from webhook.kube import names
from webhook.objects.patch import Editor
from webhook.objects.problem import Json
from webhook.policy.model import Disruptions, Profile, Retries
from webhook.policy.settings import NamedProfile
from webhook.rules.contexts import JobContext, PodContext, WorkloadContext
from webhook.rules.facts import Facts
from webhook.systems.job.spec import CRON_JOB, JOB
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec

CONTROLLED = [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "n", "uid": "u", "controller": True}]
# A rule that makes nearly every failure free.
FREE: Json = {"action": "Ignore", "onExitCodes": {"operator": "NotIn", "values": [3]}}
WITH_RESTARTS: Json = {"failurePolicy": {"maxRestarts": 3}}


def workload(
    kind: KindSpec, root: Json, profile: Profile | None = None, old: Json | None = None, **facts: Any
) -> WorkloadContext:
    named = NamedProfile("default", profile or Profile())
    return WorkloadContext(kind, old, Facts(profile_name="default", **facts), named, Editor(root))


def first_job(found: WorkloadContext) -> JobContext:
    embedded = found.jobs[0]
    return found.context_of(embedded, found.settings_of(embedded))


def annotations_of(**annotations: str) -> Json:
    return {names.PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}


def test_a_job_has_the_settings_of_its_object_unless_its_template_has_its_own() -> None:
    own = {"annotations": annotations_of(max_retries="1")}
    root = cron_job(template_metadata=own, annotations=annotations_of(max_retries="4"))
    found = workload(CRON_JOB, root)
    assert found.settings.max_retries == 4
    assert found.settings_of(found.jobs[0]).max_retries == 1
    whole = workload(JOB, job(annotations=annotations_of(max_retries="2")))
    assert whole.settings_of(whole.jobs[0]) is whole.settings


@pytest.mark.parametrize("allow_skip", [True, False])
def test_a_workload_is_skipped_if_its_author_says_so_and_the_profile_allows_it(
    allow_skip: bool,  # noqa: FBT001
) -> None:
    found = workload(JOB, job(annotations=annotations_of(skip="true")), Profile(allow_skip=allow_skip))
    assert found.is_skipped is allow_skip


@pytest.mark.parametrize(
    ("on_exceed", "old", "clamps", "denies"),
    [("Deny", None, False, True), ("Deny", job(), False, False), ("Clamp", None, True, False)],
)
def test_a_new_object_is_denied_if_the_profile_does_not_clamp(
    on_exceed: Any,
    old: Json | None,
    clamps: bool,  # noqa: FBT001
    denies: bool,  # noqa: FBT001
) -> None:
    found = workload(JOB, job(), Profile(retries=Retries(on_exceed=on_exceed)), old)
    assert (found.clamps, found.denies_new) == (clamps, denies)


def test_jobs_that_a_controller_created_bring_no_warnings() -> None:
    assert workload(JOB, job(ownerReferences=CONTROLLED)).is_told
    assert not workload(JOB, job()).is_told


def test_a_job_belongs_to_the_job_set_that_was_looked_up_and_a_job_set_to_itself() -> None:
    set_ = job_set(job_spec(), **WITH_RESTARTS)
    alone, inside, whole = workload(JOB, job()), workload(JOB, job(), owner=set_), workload(JOB_SET, set_)
    assert [context.job_set for context in (alone, inside, whole)] == [None, set_, set_]
    assert [context.set_restarts for context in (alone, inside, whole)] == [False, True, True]


@pytest.mark.parametrize(
    ("defaulted", "limit", "replaceable"),
    [(True, 6, True), (True, 5, False), (True, None, True), (False, 6, False), (False, None, True)],
)
def test_a_backoff_limit_is_replaceable_if_it_is_absent_or_may_be_the_default_of_the_api(
    defaulted: bool,  # noqa: FBT001
    limit: int | None,
    replaceable: bool,  # noqa: FBT001
) -> None:
    budget = first_job(workload(JOB, job(job_spec(backoffLimit=limit)), defaulted=defaulted)).budget
    assert budget is not None
    assert budget.replaceable is replaceable


def test_jobs_of_a_job_set_that_restarts_in_place_have_no_budget() -> None:
    in_place = job_set(job_spec(), failurePolicy={"restartStrategy": "InPlaceRestart"})
    assert first_job(workload(JOB_SET, in_place)).budget is None


def test_disruptions_fail_the_jobs_of_a_job_set_only_if_its_crd_has_message_patterns() -> None:
    root = job_set(job_spec())
    assert workload(JOB_SET, root).disruption_action == "FailJob"
    assert workload(JOB_SET, root, message_patterns=False).disruption_action == "Ignore"
    counting = Profile(disruptions=Disruptions(action="Count"))
    assert workload(JOB_SET, root, counting, message_patterns=False).disruption_action == "Count"
    assert workload(JOB, job()).disruption_action == "Ignore"


def test_indexes_of_rules_are_kept_if_a_rule_of_the_job_set_reads_messages() -> None:
    rules = [{"action": "FailJobSet", "onJobFailureMessagePatterns": ["at index 0"]}]
    assert workload(JOB_SET, job_set(job_spec(), failure_policy={"rules": rules})).keeps_indexes
    assert not workload(JOB_SET, job_set(job_spec())).keeps_indexes


def test_a_new_job_whose_rules_make_most_failures_free_will_be_denied() -> None:
    assert first_job(workload(JOB, job(job_spec(rules=[FREE])))).will_be_denied
    assert not first_job(workload(JOB, job(job_spec(rules=[exit_codes("Ignore", "In", 75)])))).will_be_denied
    assert not first_job(workload(JOB, job())).will_be_denied


def test_an_update_and_a_clamped_job_will_not_be_denied() -> None:
    root = job(job_spec(rules=[FREE]))
    old = first_job(workload(JOB, root, old=root))
    clamped = first_job(workload(JOB, root, Profile(retries=Retries(on_exceed="Clamp"))))
    assert [context.has_free_restarts for context in (old, clamped)] == [True, True]
    assert [context.will_be_denied for context in (old, clamped)] == [False, False]


def of_set(replicated_job: str) -> Json:
    return job(labels={"jobset.sigs.k8s.io/replicatedjob-name": replicated_job})


def test_a_bug_fails_a_job_unless_its_job_set_would_restart_after_it() -> None:
    rules = [{"action": "RestartJobSet", "targetReplicatedJobs": ["r1"]}]
    restarting = job_set(job_spec(), job_spec(), failure_policy={"maxRestarts": 3, "rules": rules})
    found = workload(JOB_SET, restarting)
    contexts = [found.context_of(embedded, found.settings_of(embedded)) for embedded in found.jobs]
    assert [context.fails_on_bugs for context in contexts] == [True, False]
    assert first_job(workload(JOB, job())).fails_on_bugs
    assert first_job(workload(JOB, of_set("r0"), owner=restarting)).fails_on_bugs is False
    assert first_job(workload(JOB, of_set("r0"), owner=job_set(job_spec()))).fails_on_bugs is True


def test_the_placement_of_a_pod_is_known_before_any_rule_edits_it() -> None:
    root = made(name="a")
    named = NamedProfile("default", Profile())
    found = PodContext(
        evidence(root), Facts(profile_name="default"), named, Editor(root), is_of_job=False, belongs_to=("ml", "")
    )
    assert (found.decision.off_spot, found.plan.placement, root) == (False, "None", made(name="a"))
