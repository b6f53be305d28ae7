"""The labels by which a namespace is opted in."""

from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.parse import load_default
from webhook.rules import opt_in

POLICY = load_default()


def namespace(profile: str | None = None, mode: str | None = None) -> Json:
    labels = {names.PROFILE: profile, names.MODE: mode}
    return {"metadata": {"name": "ml", "labels": {key: value for key, value in labels.items() if value is not None}}}


def problems(root: Json, old: Json | None = None) -> list[str]:
    return [str(problem) for problem in opt_in.problems(root, old, POLICY)]


def test_a_known_profile_is_accepted_in_each_mode() -> None:
    for mode in (None, "Enforce", "Warn", "Audit"):
        assert problems(namespace("default", mode)) == []


def test_an_unknown_profile_is_a_problem_that_names_the_nearest_profile() -> None:
    (problem,) = problems(namespace("defualt"))
    assert "the policy has no profile 'defualt'" in problem
    assert problem.endswith("label it default")


def test_a_mode_in_lower_case_is_a_problem_that_names_the_right_mode() -> None:
    (problem,) = problems(namespace("default", "audit"))
    assert problem.endswith("must be Enforce, Warn or Audit (did you mean Audit?)")


def test_an_update_that_leaves_a_wrong_label_unchanged_is_accepted() -> None:
    assert problems(namespace("gone", "sometimes"), namespace("gone", "sometimes")) == []


def test_a_mode_that_was_wrong_before_is_a_problem_when_the_namespace_is_opted_in() -> None:
    (problem,) = problems(namespace("default", "sometimes"), namespace(mode="sometimes"))
    assert "is 'sometimes'" in problem


def warnings(root: Json, old: Json | None = None) -> list[str]:
    return [str(problem) for problem in opt_in.warnings(root, old)]


def test_a_mode_without_a_profile_brings_a_warning_and_no_denial() -> None:
    assert problems(namespace(mode="enforce")) == problems(namespace(mode="Warn")) == []
    without = f"metadata.labels[{names.MODE}]: no effect without the label {names.PROFILE}; add it"
    assert warnings(namespace(mode="Warn")) == [without]
    assert warnings(namespace(mode="enforce")) == [
        f"metadata.labels[{names.MODE}]: is 'enforce'; must be Enforce, Warn or Audit (did you mean Enforce?)",
        without,
    ]


def test_an_update_that_leaves_the_mode_unchanged_brings_no_warning() -> None:
    assert warnings(namespace(mode="enforce"), namespace(mode="enforce")) == []
    assert warnings(namespace("default", "Warn"), namespace(mode="Warn")) == []


def test_a_misspelt_label_brings_a_warning_that_names_the_nearest_key() -> None:
    root = namespace("default")
    root["metadata"]["labels"]["retry-policy.dev/modes"] = "Warn"
    assert warnings(root) == ["metadata.labels[retry-policy.dev/modes]: unknown, no effect; use mode"]
