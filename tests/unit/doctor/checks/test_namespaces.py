"""What the doctor finds about the labels of Namespaces, and says about the one that the user asks about."""

import pytest

from tests.unit.doctor.healthy import POLICY_TEXT, configuration, deployment, healthy, namespace, told, wrong
from webhook.admission.engine import read_policy
from webhook.doctor.checks.namespaces import check
from webhook.doctor.shipped import MUTATING
from webhook.kube import names
from webhook.objects.problem import Json


def test_a_namespace_that_is_opted_in_is_shown_with_profile_and_mode() -> None:
    (found,) = check(healthy(deployment=deployment("--requested-retries")))
    assert (found.status, found.where) == ("ok", "Namespace ml")
    assert found.what == "profile default, mode Enforce, requested retries"


def test_no_opted_in_namespace_is_a_problem() -> None:
    status, text, fix = told(check, healthy(namespaces=[namespace("web")]))
    assert status == "problem"
    assert "no namespace has the label retry-policy.dev/profile" in text
    assert fix == "kubectl label namespace NAMESPACE retry-policy.dev/profile=default"


def test_only_the_namespace_is_judged_that_the_user_asks_about() -> None:
    status, text, fix = told(check, healthy(asked="web", namespaces=[namespace("web"), namespace(mode="Warn")]))
    assert status == "problem"
    assert (
        text == "Namespace web: lacks the label retry-policy.dev/profile, so the policy does not apply to its objects"
    )
    assert fix == "kubectl label namespace web retry-policy.dev/profile=default"


def test_a_namespace_that_does_not_exist_is_a_problem() -> None:
    assert told(check, healthy(asked="gone"))[1] == "Namespace gone: does not exist"


@pytest.mark.parametrize(("profile", "fix"), [("defualt", "default"), ("zzz", "default")])
def test_an_unknown_profile_is_a_problem_with_the_nearest_known_one(profile: str, fix: str) -> None:
    status, text, command = told(check, healthy(namespaces=[namespace(profile=profile)]))
    assert status == "problem"
    assert f"has the profile {profile!r}, which the policy does not have" in text
    assert command == f"kubectl label --overwrite namespace ml retry-policy.dev/profile={fix}"


@pytest.mark.parametrize(("asked", "status"), [(None, "warning"), ("ml", "problem")])
@pytest.mark.parametrize("mode", ["Warn", "Audit"])
def test_a_mode_that_enforces_nothing_is_a_warning_and_the_answer_to_who_asks(
    mode: str, asked: str | None, status: str
) -> None:
    found = told(check, healthy(asked=asked, namespaces=[namespace(profile="default", mode=mode)]))
    assert found[0] == status
    assert f"has the mode {mode}: nothing is changed or denied" in found[1]
    assert found[2] == "kubectl label namespace ml retry-policy.dev/mode-"


def test_it_says_when_the_mode_was_set() -> None:
    root = namespace(profile="default", mode="Warn")
    fields: Json = {"f:metadata": {"f:labels": {f"f:{names.MODE}": {}}}}
    root["metadata"]["managedFields"] = [{"time": "2026-10-01T00:00:00Z", "fieldsV1": fields}]
    assert "the mode Warn since 2026-10-01T00:00:00Z or earlier" in told(check, healthy(namespaces=[root]))[1]


def test_an_unknown_mode_is_a_problem() -> None:
    assert "has the mode 'warn'" in told(check, healthy(namespaces=[namespace(profile="default", mode="warn")]))[1]


def test_a_misspelt_label_is_a_warning_also_without_opt_in() -> None:
    root: Json = {"metadata": {"name": "web", "labels": {"retry-policy/profile": "default"}}}
    (found,) = wrong(check, healthy(namespaces=[namespace(profile="default"), root]))
    assert (found.status, found.where) == ("warning", "Namespace web")
    assert "retry-policy/profile" in found.what
    assert found.fix == "kubectl label --overwrite namespace web retry-policy/profile- retry-policy.dev/profile=default"


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({names.MODE: "warn"}, f"--overwrite namespace web {names.PROFILE}=default {names.MODE}=Warn"),
        ({names.MODE: "Warn"}, f"--overwrite namespace web {names.PROFILE}=default"),
        ({names.MODE: "quiet"}, f"--overwrite namespace web {names.PROFILE}=default {names.MODE}-"),
        ({"retry-policy.dev/profil": "gpu"}, f"--overwrite namespace web retry-policy.dev/profil- {names.PROFILE}=gpu"),
        (
            {"retry-policy.dev/profil": "x"},
            f"--overwrite namespace web retry-policy.dev/profil- {names.PROFILE}=default",
        ),
        (
            {names.PROFILE: "default", "retry-policy/mode": "audit"},
            f"--overwrite namespace web retry-policy/mode- {names.MODE}=Audit",
        ),
    ],
    ids=str,
)
def test_one_command_sets_the_labels_and_removes_the_misspelt_ones(found: dict[str, str], words: str) -> None:
    policy = read_policy(POLICY_TEXT)[0]
    root: Json = {"metadata": {"name": "web", "labels": found}}
    said = wrong(check, healthy(asked="web", namespaces=[root], policy=policy))
    assert {one.fix for one in said} == {f"kubectl label {words}"}


def test_a_misspelt_annotation_is_removed() -> None:
    root = namespace(profile="default")
    root["metadata"]["annotations"] = {"retry-policy/skip": "true"}
    assert told(check, healthy(namespaces=[root]))[2] == "kubectl annotate namespace ml retry-policy/skip-"


def test_a_namespace_that_the_selector_leaves_out_is_a_problem() -> None:
    root = configuration(MUTATING)
    root["webhooks"][0]["namespaceSelector"] = {"matchLabels": {"team": "batch"}}
    assert "is left out by the namespaceSelector" in told(check, healthy(mutating=[root]))[1]
