"""An object beyond a bound has one short problem, and can still be updated without a change of its spec."""

from typing import Any

import msgspec
import pytest

from tests.admission import mutate, policy, validate
from tests.objects import exit_codes, job, job_spec
from webhook.kube import names
from webhook.objects import bounds
from webhook.objects.problem import Json, Problem, field
from webhook.policy.model import FailurePolicy, Profile
from webhook.policy.parse import parse

DENSE: Json = {"example.test": [[]] * bounds.MOST_PARTS}


def job_set(number: int, **metadata: Any) -> Json:
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", **metadata},
        "spec": {
            "replicatedJobs": [{"name": f"job-{index}", "template": {"spec": job_spec()}} for index in range(number)]
        },
    }


TOO_MUCH = [
    pytest.param(job({**job_spec(), **DENSE}), "has more than 100000 objects and lists", id="parts"),
    pytest.param(
        job(job_spec(containers=({},) * 5_001)), "spec.template.spec.containers: has 5001 entries", id="entries"
    ),
    pytest.param(job_set(1_001), "spec.replicatedJobs[1000].template.spec: is one of more than 1000 Jobs", id="Jobs"),
]


@pytest.mark.parametrize(("root", "problem"), TOO_MUCH)
def test_an_object_beyond_a_bound_is_not_edited_and_is_denied_with_one_problem(root: Json, problem: str) -> None:
    denial = validate(root)
    assert not denial.allowed
    assert denial.message.startswith(problem)
    assert "\n" not in denial.message
    untouched = mutate(root)
    assert untouched.patch == []
    assert untouched.warnings[0].startswith(problem[:80])


@pytest.mark.parametrize(("root", "_"), TOO_MUCH)
def test_a_stored_object_beyond_a_bound_can_still_be_labelled(root: Json, _: str) -> None:
    labelled = {**root, "metadata": {**root["metadata"], "labels": {"team": "a"}}}
    assert validate(labelled, old=root).allowed
    assert mutate(labelled, old=root).patch == []
    assert not validate(root, old=job()).allowed


def test_an_object_at_the_bound_is_treated_like_any_other() -> None:
    assert mutate(job_set(bounds.MOST_JOBS)).patch
    assert validate(job_set(bounds.MOST_JOBS)).allowed


def test_objects_that_the_api_server_rejects_get_no_warning() -> None:
    doubtful = exit_codes("Ignore", "In", 7)
    assert validate(job(job_spec(rules=[doubtful]))).warnings
    refused = validate(job(job_spec(rules=[doubtful, exit_codes("Never", "In", 7)])))
    assert not refused.allowed
    assert refused.warnings == []


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([{}] * 21, "has 21 rules; must have at most 20"),
        ([exit_codes("FailJob", "In", *[0] * 256)], "has 256 exit codes; must have 1 to 255"),
        ([{"action": "Count", "onPodConditions": [{}] * 21}], "has 21 patterns; must have at most 20"),
    ],
)
def test_a_list_longer_than_the_api_allows_has_no_other_problem(rules: list[Json], message: str) -> None:
    (line,) = validate(job(job_spec(rules=rules))).message.splitlines()
    assert line.endswith(message)


def test_the_problem_of_an_unknown_container_lists_a_few_known_ones() -> None:
    containers = tuple(f"container-{index}" for index in range(12))
    rules = [exit_codes("FailJob", "In", 7, container="missing")]
    message = validate(job(job_spec(containers=containers, rules=rules))).message
    assert message.endswith("container-8, container-9 and 2 more")


def test_a_hundred_replicated_jobs_can_be_applied_again() -> None:
    under = policy(default=Profile(failure_policy=FailurePolicy(coupled="FailJob")))
    root = job_set(100, annotations={names.MAX_RETRIES: "2", names.INTERRUPTIBLE: "true"})
    stored = mutate(root, under=under).object
    assert mutate(root, under=under, old=stored).object["spec"] == stored["spec"]


def test_edits_that_do_not_fit_into_the_record_are_not_recorded_with_a_warning() -> None:
    answer = mutate(job_set(bounds.MOST_JOBS))
    assert "injected" not in msgspec.json.decode(answer.object["metadata"]["annotations"][names.POLICY])
    assert answer.warnings[-1].startswith(
        "metadata.annotations[retry-policy.dev/policy]: too many injected fields to record"
    )


@pytest.mark.parametrize(
    "record",
    [
        '{"profile":"default","injected":['
        + '{"op":"add","path":"/spec/backoffLimit","now":3},' * 3_000
        + '{"op":"","path":""}]}',
        '{"profile":"' + "x" * bounds.MAX_RECORD + '","injected":[{"op":"add","path":"/spec/backoffLimit","now":3}]}',
        '{"profile":"default","injected":[{"op":"add","path":"/spec/backoffLimit","now":3,"was":'
        + "[" * 20
        + "]" * 20
        + "}]}",
        '{"profile":"default","injected":[{"op":"add","path":"/spec/backoffLimit' + "/" * 1_024 + '","now":3}]}',
    ],
    ids=["operations", "characters", "nesting", "pointer"],
)
def test_a_malformed_or_too_large_record_removes_nothing(record: str) -> None:
    stored = job(job_spec(backoffLimit=3), annotations={names.POLICY: record})
    assert mutate(job(), old=stored).object["spec"] == job()["spec"]


def test_a_long_problem_and_a_long_denial_are_cut() -> None:
    assert field(("metadata", "x" * 1_000, "y")) == f"metadata[{'x' * bounds.MAX_KEY}…].y"
    assert len(str(Problem((), "x" * 5_000, ""))) == bounds.MAX_PROBLEM
    rules = [exit_codes("x" * 40, "y" * 40, *[7] * 255, container="z" * 40) for _ in range(20)]
    message = validate(job(job_spec(containers=("c" * 200,) * 10, rules=rules))).message
    assert len(message) <= bounds.MAX_MESSAGE + bounds.MAX_PROBLEM
    assert message.splitlines()[-1].startswith("and ")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("#" * 300_000, "has 300000 characters; must have at most 262144"),
        ("[" + "a," * 20_000 + "]", "has more than 20000 values; must have at most 200 profiles"),
        (
            "apiVersion: retry-policy.dev/v1alpha1\nkind: RetryPolicy\nprofiles: {"
            + ",".join(f"p{index}: {{}}" for index in range(201))
            + "}",
            "profiles: has 201 entries; must have 200 or fewer",
        ),
    ],
)
def test_a_policy_beyond_a_bound_is_refused_with_one_problem(text: str, problem: str) -> None:
    found = parse(text)
    assert isinstance(found, list)
    assert [str(one) for one in found] == [problem]


def test_a_policy_has_at_most_a_hundred_problems() -> None:
    fields = "".join(f"  field{index}: 1\n" for index in range(1_000))
    found = parse(f"apiVersion: retry-policy.dev/v1alpha1\nkind: RetryPolicy\n{fields.replace('  ', '')}")
    assert isinstance(found, list)
    assert len(found) == bounds.LISTED_PROBLEMS
