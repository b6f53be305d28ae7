"""The rule of the retry limit."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.admission import validate
from tests.objects import container_of, job, job_spec
from webhook.objects.patch import Editor
from webhook.objects.problem import Json
from webhook.policy.model import Profile, Retries
from webhook.policy.settings import Settings
from webhook.rules import in_place, retries
from webhook.systems.job import spec as batch
from webhook.systems.kind_spec import Budget

POD_SPEC = ("spec", "template", "spec")
INDEXED: dict[str, Any] = {"completions": 4, "parallelism": 2, "completionMode": "Indexed", "backoffLimit": 2147483647}


def settings(*, max_retries: int | None = None, skip: bool = False, **fields: object) -> Settings:
    profile = Profile(retries=Retries(**fields))  # type: ignore[arg-type]
    return Settings(profile_name="gpu", profile=profile, max_retries=max_retries, skip=skip)


def edited(spec: Json, given: Settings, *, by_author: bool = True) -> tuple[Json, list[str]]:
    root = job(spec)
    editor = Editor(root)
    own = replace(budget(root), replaceable=not by_author and is_replaceable(root))
    warnings = retries.edit(own, given, editor)
    if given.profile.retries.on_exceed == "Clamp":
        warnings += in_place.edit(POD_SPEC, root["spec"]["template"]["spec"], given, editor, counted=True)
    return root["spec"], [str(warning) for warning in warnings]


def budget(root: Json) -> Budget:
    found = batch.budget_of(next(batch.JOB.jobs(root)), said=True)
    assert found is not None
    return found


def is_replaceable(root: Json) -> bool:
    return budget(root).path[-1] == "backoffLimit"


def problems(spec: Json, given: Settings, old: Json | None = None) -> list[str]:
    root = job(spec)
    found = retries.problems(budget(root), given, None if old is None else budget(job(old)))
    found += in_place.problems(POD_SPEC, spec["template"]["spec"], given, counted=True)
    return [str(problem) for problem in found]


def test_the_problem_of_too_many_retries_names_path_value_limit_and_profile() -> None:
    assert problems(job_spec(backoffLimit=25), settings()) == [
        "spec.backoffLimit: 25 retries exceed the limit of 10 in profile 'gpu'; set 10 or less"
    ]


def test_as_many_retries_as_the_limit_are_accepted() -> None:
    assert problems(job_spec(backoffLimit=10), settings()) == []


def test_an_index_budget_is_held_to_the_limit() -> None:
    assert problems(job_spec(**INDEXED, backoffLimitPerIndex=11), settings()) != []
    assert problems(job_spec(**INDEXED, backoffLimitPerIndex=10), settings()) == []


def test_the_unlimited_backoff_limit_that_the_api_sets_beside_index_budgets_is_accepted() -> None:
    assert problems(job_spec(**INDEXED, backoffLimitPerIndex=1), settings()) == []


def test_a_default_of_the_api_above_the_limit_is_refused() -> None:
    assert len(problems(job_spec(), settings(limit=5))) == 1


def test_all_violations_are_named_at_once() -> None:
    again = {**container_of("again"), "restartPolicy": "OnFailure"}
    assert len(problems(job_spec(containers=(again,), backoffLimit=11), settings())) == 2


def test_an_update_may_keep_or_lower_retries_beyond_the_limit_but_not_raise_them() -> None:
    old = job_spec(backoffLimit=25)
    assert problems(job_spec(backoffLimit=25), settings(), old) == []
    assert problems(job_spec(backoffLimit=20), settings(), old) == []
    assert len(problems(job_spec(backoffLimit=26), settings(), old)) == 1


def test_a_clamping_profile_lowers_retries_with_a_warning() -> None:
    spec, warnings = edited(job_spec(backoffLimit=25), settings(on_exceed="Clamp"))
    assert spec["backoffLimit"] == 10
    assert warnings == ["spec.backoffLimit: 25 lowered to 10; profile 'gpu' allows no more"]


def test_a_denying_profile_lowers_nothing() -> None:
    spec, warnings = edited(job_spec(backoffLimit=25), settings())
    assert (spec["backoffLimit"], warnings) == (25, [])


def test_the_default_replaces_a_value_that_only_the_api_has_set() -> None:
    spec, _ = edited(job_spec(backoffLimit=6), settings(default=2), by_author=False)
    assert spec["backoffLimit"] == 2


def test_the_default_does_not_replace_a_value_of_the_author() -> None:
    spec, _ = edited(job_spec(backoffLimit=6), settings(default=2))
    assert spec["backoffLimit"] == 6


def test_the_default_does_not_replace_an_index_budget() -> None:
    spec, _ = edited(job_spec(**INDEXED, backoffLimitPerIndex=5), settings(default=2), by_author=False)
    assert (spec["backoffLimitPerIndex"], spec["backoffLimit"]) == (5, 2147483647)


def test_the_default_never_raises_the_number_of_retries() -> None:
    spec, _ = edited(job_spec(), settings(default=8), by_author=False)
    assert "backoffLimit" not in spec


def test_the_default_never_exceeds_the_limit() -> None:
    spec, _ = edited(job_spec(), settings(limit=1), by_author=False)
    assert spec["backoffLimit"] == 1


def test_max_retries_replaces_the_value_of_the_field() -> None:
    spec, _ = edited(job_spec(backoffLimit=25), settings(max_retries=4))
    assert spec["backoffLimit"] == 4


def test_max_retries_sets_the_index_budget_if_there_is_one() -> None:
    spec, _ = edited(job_spec(**INDEXED, backoffLimitPerIndex=1), settings(max_retries=4))
    assert (spec["backoffLimitPerIndex"], spec["backoffLimit"]) == (4, 2147483647)


def test_a_skipped_job_gets_no_default_but_is_held_to_the_limit() -> None:
    spec, _ = edited(job_spec(backoffLimit=6), settings(skip=True), by_author=False)
    assert spec["backoffLimit"] == 6
    spec, _ = edited(job_spec(backoffLimit=25), settings(skip=True, on_exceed="Clamp"))
    assert spec["backoffLimit"] == 10


def updated(spec: Json, given: Settings, old: Json, old_settings: Settings) -> Json:
    root = job(spec)
    retries.edit_update(budget(root), given, Editor(root), budget(job(old)), old_settings)
    edited_spec: Json = root["spec"]
    return edited_spec


def test_an_update_that_does_not_touch_retries_is_left_alone() -> None:
    clamping = settings(on_exceed="Clamp", max_retries=3)
    spec = job_spec(backoffLimit=25)
    assert updated(spec, clamping, spec, clamping)["backoffLimit"] == 25


def test_an_update_beyond_the_limit_is_clamped() -> None:
    clamping = settings(on_exceed="Clamp")
    assert updated(job_spec(backoffLimit=30), clamping, job_spec(backoffLimit=6), clamping)["backoffLimit"] == 10


def test_max_retries_that_an_update_adds_sets_backoff_limit() -> None:
    spec = job_spec(backoffLimit=6)
    assert updated(spec, settings(max_retries=2), spec, settings())["backoffLimit"] == 2


def test_max_retries_that_an_update_adds_does_not_set_an_immutable_field() -> None:
    spec = job_spec(**INDEXED, backoffLimitPerIndex=5)
    assert updated(spec, settings(max_retries=2), spec, settings())["backoffLimitPerIndex"] == 5


def of_indexes(**fields: Any) -> Json:
    return job_spec(**{**INDEXED, "completions": 100_000, "backoffLimitPerIndex": 10, **fields})


def sums(spec: Json, given: Settings, old: Json | None = None) -> list[str]:
    embedded = next(batch.JOB.jobs(job(spec)))
    before = None if old is None else next(batch.JOB.jobs(job(old)))
    return [str(problem) for problem in retries.sum_problems(embedded, given, before)]


@pytest.mark.parametrize(
    ("fields", "in_all"),
    [
        pytest.param({}, 1_000_000, id="the budget of every index"),
        pytest.param({"backoffLimit": None}, 1_000_000, id="backoffLimit left out"),
        pytest.param({"backoffLimit": 1001}, 1001, id="backoffLimit"),
        pytest.param({"maxFailedIndexes": 99, "parallelism": 2}, 1010, id="indexes that fail for good"),
        pytest.param({"maxFailedIndexes": 0, "parallelism": 500}, 5000, id="indexes that run at once"),
    ],
)
def test_more_retries_of_all_indexes_together_than_the_limit_are_refused(fields: Json, in_all: int) -> None:
    assert sums(of_indexes(**fields), settings()) == [
        (
            f"spec.backoffLimitPerIndex: allows {in_all} retries of all indexes together, and profile 'gpu' "
            "allows 1000 (retries.total); set spec.backoffLimit, which bounds their sum, to 1000 or less"
        )
    ]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"backoffLimit": 1000}, id="backoffLimit bounds them"),
        pytest.param({"maxFailedIndexes": 9, "parallelism": 91}, id="maxFailedIndexes bounds them"),
        pytest.param({"completions": 100}, id="few indexes"),
        pytest.param({"backoffLimitPerIndex": 0}, id="no retries"),
        pytest.param({"backoffLimitPerIndex": None, "backoffLimit": 6}, id="no index has a budget"),
    ],
)
def test_as_many_retries_of_all_indexes_together_as_the_limit_are_accepted(fields: Json) -> None:
    assert sums(of_indexes(**fields), settings()) == []


def test_an_update_may_keep_but_not_raise_the_retries_of_all_indexes_together() -> None:
    assert sums(of_indexes(), settings(), old=of_indexes()) == []
    assert sums(of_indexes(backoffLimit=5000), settings(), old=of_indexes(backoffLimit=4000))


def test_index_budgets_with_restarts_in_place_need_a_backoff_limit_within_the_limit() -> None:
    assert sums(of_indexes(restart_policy="OnFailure", completions=2, backoffLimitPerIndex=1), settings()) == [
        (
            "spec.template.spec.restartPolicy: OnFailure restarts containers in place, which backoffLimitPerIndex "
            "does not count; use Never, or set spec.backoffLimit, which bounds their sum, to 10 or less"
        )
    ]
    assert sums(of_indexes(restart_policy="OnFailure", completions=2, backoffLimit=10), settings()) == []


@pytest.mark.parametrize(("restart_policy", "limit"), [("Never", 1000), ("OnFailure", 10)])
def test_a_clamping_profile_limits_the_retries_of_all_indexes_together(restart_policy: str, limit: int) -> None:
    root = job(of_indexes(restart_policy=restart_policy))
    editor, given = Editor(root), settings(on_exceed="Clamp")
    warnings = retries.clamp_sum(next(batch.JOB.jobs(root)), given, editor)
    assert root["spec"]["backoffLimit"] == limit
    assert [str(warning) for warning in warnings] == [
        (
            f"spec.backoffLimit: lowered to {limit}, the limit of retries of all indexes together; "
            "profile 'gpu' allows no more"
        )
    ]
    assert retries.clamp_sum(next(batch.JOB.jobs(root)), given, editor) == []


def test_a_null_restart_policy_of_a_container_is_not_removed() -> None:
    spec = job_spec()
    spec["template"]["spec"]["containers"][0] |= {"restartPolicy": None, "restartPolicyRules": [{"action": "Restart"}]}
    edited(spec, settings(on_exceed="Clamp"))
    assert spec["template"]["spec"]["containers"][0].keys() >= {"restartPolicy"}


def test_a_native_sidecar_is_allowed_with_a_warning_that_it_restarts_without_limit() -> None:
    sidecar = {"name": "proxy", "restartPolicy": "Always"}
    spec = job_spec(backoffLimit=3, init_containers=({"name": "setup"}, sidecar, {**sidecar, "name": "logs"}))
    answer = validate(job(spec))
    assert answer.allowed
    assert answer.warnings == [
        "spec.template.spec.initContainers[1]: a sidecar restarts without limit; allowed: costs no retry"
    ]
