"""What cluster admins edit: a bad policy or namespace label is denied; an edit that repairs one never is."""

from typing import Any

import msgspec
import pytest

from tests.admission import policy, review_of
from webhook.admission import configuration, review
from webhook.admission.review import Response
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.model import Policy, Profile

OURS = ("retry-policy-system", "retry-policy")
GOOD = """
apiVersion: retry-policy.dev/v1alpha1
kind: RetryPolicy
profiles: {default: {}, gpu: {}}
"""


def namespace(**labels: Any) -> Json:
    keys = {key: f"retry-policy.dev/{key}" for key in ("profile", "mode")}
    named = {keys.get(key, key): value for key, value in labels.items()}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml", "labels": named}}


def config_map(text: Any, name: str = "retry-policy") -> Json:
    data = {} if text is None else {"policy.yaml": text}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def response(
    root: Json,
    in_force: Policy | None = None,
    in_use: dict[str, list[str]] | None = None,
    old: Json | None = None,
    uid: str = "",
) -> Response:
    request = review.decode(review_of(root, old=old, namespace=OURS[0], name=root["metadata"]["name"]))
    assert configuration.is_asked_about(request, OURS)
    return configuration.validate(request, in_force, in_use or {}, uid)


def problems(root: Json, in_force: Policy | None = None, **known: Any) -> list[str]:
    return [str(found) for found in response(root, in_force, **known).problems]


def test_a_profile_that_the_policy_knows_is_accepted() -> None:
    assert problems(namespace(profile="gpu", mode="Warn"), policy(gpu=Profile())) == []


def test_the_denial_of_an_unknown_profile_lists_the_known_ones_and_suggests_the_nearest() -> None:
    assert problems(namespace(profile="gpus"), policy(gpu=Profile())) == [
        "metadata.labels[retry-policy.dev/profile]: the policy has no profile 'gpus', it has default, gpu; label it gpu"
    ]


def test_the_denial_of_an_unknown_mode_lists_the_allowed_ones() -> None:
    assert problems(namespace(profile="default", mode="warn"), policy()) == [
        "metadata.labels[retry-policy.dev/mode]: is 'warn'; must be Enforce, Warn or Audit (did you mean Warn?)"
    ]
    assert problems(namespace(profile="default", mode=""), policy()) != []


def test_an_old_mode_label_is_validated_when_the_namespace_opts_in() -> None:
    assert problems(namespace(profile="default", mode="warn"), policy(), old=namespace(mode="warn")) != []


def test_a_wrong_profile_and_a_wrong_mode_are_reported_together() -> None:
    assert len(problems(namespace(profile="x", mode="y"), policy())) == 2


def test_a_namespace_whose_profile_was_removed_can_still_be_edited() -> None:
    old = namespace(profile="gone", mode="old")
    assert problems(namespace(profile="gone", mode="old", team="a"), policy(), old=old) == []
    assert problems(namespace(team="a"), policy(), old=old) == []


@pytest.mark.parametrize("in_force", [None, policy()], ids=["no policy yet", "a policy"])
def test_a_mode_without_a_profile_gives_warnings_with_and_without_a_policy(in_force: Policy | None) -> None:
    request = review.decode(review_of(namespace(mode="enforce")))
    answer = configuration.validate(request, in_force, {}, "")
    assert answer.problems == []
    assert {str(one).partition(";")[0] for one in answer.warnings} == {
        f"metadata.labels[{names.MODE}]: is 'enforce'",
        f"metadata.labels[{names.MODE}]: no effect without the label {names.PROFILE}",
    }


def test_annotations_of_a_wrong_type_are_denied_with_their_path() -> None:
    root = namespace()
    root["metadata"]["annotations"] = {"a": 5}
    assert problems(root)[0].startswith("metadata.annotations.a: is an integer")


def test_labels_are_accepted_if_no_policy_is_in_force() -> None:
    assert problems(namespace(profile="any")) == []


def test_a_good_policy_is_accepted() -> None:
    assert problems(config_map(GOOD)) == []


def test_a_bad_policy_is_denied_with_all_problems_and_their_paths() -> None:
    found = problems(config_map(GOOD.replace("gpu: {}", "gpu: {retries: {limit: 11, defualt: 1}}")))
    assert [text.partition(":")[0] for text in found] == [
        "profiles.gpu.retries.limit",
        "profiles.gpu.retries.defualt",
    ]


def test_a_config_map_without_a_policy_is_denied() -> None:
    assert problems(config_map(None))[0].startswith("data[policy.yaml]: is missing")


def stored(text: str, uid: str | None = "its-uid") -> Json:
    root = config_map(text)
    root["metadata"]["uid"] = uid
    return root


def test_the_denial_of_an_edit_that_removes_a_profile_in_use_names_its_namespaces() -> None:
    in_use = {"default": ["ml"], "cpu": [f"t{number}" for number in range(12)], "gpu": ["ml-2"]}
    in_force = policy(cpu=Profile(), gpu=Profile())
    assert problems(config_map(GOOD), in_force, in_use=in_use, old=stored(GOOD), uid="its-uid") == [
        (
            "profiles.cpu: is missing, and in use by t0, t1, t2, t3, t4, t5, t6, t7, t8, t9 and 2 more;"
            " must stay until those namespaces are labelled with another"
        )
    ]


@pytest.mark.parametrize("in_force", [None, policy(gpu=Profile())], ids=["no policy in force", "a policy"])
@pytest.mark.parametrize("old", [GOOD, "profiles: {gpu: {retries: {limit: -3}}}", "no policy"])
def test_an_edit_that_lacks_a_profile_which_is_not_in_force_gives_a_warning_for_each_namespace(
    in_force: Policy | None, old: str
) -> None:
    in_use = {"gpuu": ["badprof", "ml"], "gpu": ["ml-2"]}
    answer = response(config_map(GOOD), in_force, in_use=in_use, old=stored(old), uid="its-uid")
    assert answer.problems == []
    assert [str(one) for one in answer.warnings] == [
        (
            f"profiles.gpuu: is missing, and namespace {name} is labelled with it;"
            f" add it, or: kubectl label namespace {name} retry-policy.dev/profile-"
        )
        for name in ("badprof", "ml")
    ]


def test_an_edit_that_lacks_a_profile_in_force_and_one_that_is_not_is_denied_for_the_first() -> None:
    in_use = {"cpu": ["ml"], "gpuu": ["badprof"]}
    answer = response(config_map(GOOD), policy(cpu=Profile()), in_use=in_use, old=stored(GOOD), uid="its-uid")
    assert [one.path for one in answer.problems] == [("profiles", "cpu")]
    assert [one.path for one in answer.warnings] == [("profiles", "gpuu")]


def test_an_edit_may_remove_a_profile_that_no_namespace_uses() -> None:
    answer = response(config_map(GOOD), policy(cpu=Profile()), old=stored(GOOD), uid="its-uid")
    assert (answer.problems, answer.warnings) == ([], [])


UNNAMED = (
    "profiles: lack a profile that a namespace is labelled with;"
    " see: kubectl get namespaces -L retry-policy.dev/profile"
)


@pytest.mark.parametrize(("claimed", "uid"), [(None, "its-uid"), ("another", "its-uid"), ("", ""), (None, "")])
def test_a_response_names_no_namespaces_unless_the_request_has_the_uid_of_the_stored_config_map(
    claimed: str | None, uid: str
) -> None:
    in_use = {"secret-profile": ["secret-team"]}
    for old in (stored(GOOD, claimed), None):  # a new ConfigMap has no uid to compare
        denied = response(config_map(GOOD), policy(**{"secret-profile": Profile()}), in_use=in_use, old=old, uid=uid)
        assert ([str(one) for one in denied.problems], denied.warnings) == ([UNNAMED], [])
        warned = response(config_map(GOOD), policy(), in_use=in_use, old=old, uid=uid)
        assert (warned.problems, [str(one) for one in warned.warnings]) == ([], [UNNAMED])


def test_only_writes_of_the_policy_config_map_are_validated() -> None:
    for root, request in (
        (config_map("x", "other"), {"namespace": OURS[0], "name": "other"}),
        (config_map("x"), {"namespace": "default", "name": "retry-policy"}),
        (config_map("x"), {"namespace": OURS[0], "name": "retry-policy", "operation": "DELETE"}),
    ):
        decoded = msgspec.convert(request, dict[str, Any])
        assert not configuration.is_asked_about(review.decode(review_of(root, **decoded)), OURS)


def test_labels_of_a_wrong_type_are_denied_with_their_path() -> None:
    assert problems(namespace(profile=5), policy())[0].startswith(f"metadata.labels[{names.PROFILE}]: is an integer")
