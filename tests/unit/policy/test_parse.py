"""The policy file: its values, and all problems at once."""

import json

import pytest
import yaml
from msgspec import Struct

from webhook.objects.problem import Json
from webhook.policy.model import CustomProvider, Duration, Placement, Policy, Profile, Retries
from webhook.policy.parse import parse

ENDS = "letters, digits, -, _ or ., the ends letters or digits"
NAME = f"; must be the value of a Namespace label: 1 to 63 {ENDS}"
KEY = f"; must be a label key: where it has a prefix, a domain name in small letters and /; then 1 to 63 {ENDS}"
VALUE = f"; must be a label value: up to 63 {ENDS}"
DURATION = "; must be whole seconds from 1 to 2147483647, or such as 90s, 1h30m, 24h"
PROVIDERS = "ack, aks, any, auto, castai, custom, eks, gke, karpenter, ocean or openshift"
FIELDS = "key, operator, value, effect or tolerationSeconds"

HEAD = "apiVersion: retry-policy.dev/v1alpha1\nkind: RetryPolicy\n"


def policy(text: str) -> Policy:
    """Parse a text without problems."""
    parsed = parse(text)
    assert isinstance(parsed, Policy), [str(problem) for problem in parsed]
    return parsed


def problems(text: str) -> list[str]:
    """Parse a text with problems."""
    parsed = parse(text)
    assert not isinstance(parsed, Policy)
    return [str(problem) for problem in parsed]


def fields_of(section: type[Struct]) -> str:
    """Return how a problem lists the fields of a section, which tests of other values need not repeat."""
    *others, last = section.__struct_encode_fields__
    return f"{', '.join(others)} or {last}"


def with_profile(text: str) -> str:
    """Return a policy whose profile `default` is a flow mapping."""
    return f"{HEAD}profiles:\n  default: {text}\n"


def profile(text: str) -> Profile:
    return policy(with_profile(text)).profiles["default"]


def profile_problems(text: str) -> list[str]:
    """Return the problems of one profile, their paths from there on."""
    return [problem.removeprefix("profiles.default.") for problem in problems(with_profile(text))]


# Valid policies.


def test_fields_that_are_left_out_have_the_defaults() -> None:
    assert profile("{}") == Profile()
    assert profile("{retries: {onExceed: Clamp}}") == Profile(retries=Retries(on_exceed="Clamp"))


def test_an_empty_section_counts_as_left_out() -> None:
    assert policy(f"{HEAD}profiles:\n  default:\n  other:\n    retries:\n    placement:\n").profiles == {
        "default": Profile(),
        "other": Profile(),
    }


@pytest.mark.parametrize(("limit", "default"), [(0, 0), (2, 2), (3, 3), (10, 3)])
def test_default_retries_that_are_left_out_are_three_or_a_lower_limit(limit: int, default: int) -> None:
    assert profile(f"{{retries: {{limit: {limit}}}}}").retries == Retries(limit=limit, default=default)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1", 1),
        ("90", 90),
        ("90s", 90),
        ("1h30m", 5400),
        ("24h", 86400),
        ("1h0m1s", 3601),
        ("120m", 7200),
        ("2147483647", 2147483647),
        ("6e1", 60),
    ],
)
def test_a_duration_is_read_as_seconds(text: str, seconds: int) -> None:
    timeout = profile(f"{{attemptTimeout: {text}}}").attempt_timeout
    assert timeout == seconds
    assert isinstance(timeout, Duration)


def test_a_custom_provider_is_read() -> None:
    tolerations: list[Json] = [
        {"key": "example.com/spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
        {"operator": "Exists"},
    ]
    labels = {"example.com/capacity": ["spot", ""], "spot": ["1"]}
    written = json.dumps({"spotLabels": labels, "tolerations": tolerations})
    assert profile(f"{{placement: {{provider: custom, custom: {written}}}}}").placement == Placement(
        provider="custom", custom=CustomProvider(spot_labels=labels, tolerations=tolerations)
    )


def config_map(text: str) -> str:
    """Return the manifest of a ConfigMap with a policy."""
    data = {"policy.yaml": text, "other": "x"}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "retry-policy"}, "data": data})


def test_a_policy_is_read_from_its_config_map() -> None:
    assert policy(config_map(with_profile("{allowSkip: false}"))).profiles == {"default": Profile(allow_skip=False)}


def test_empty_documents_beside_the_policy_are_ignored() -> None:
    assert policy(f"---\n---\n{with_profile('{}')}---\n")


# Invalid YAML, and wrong documents.


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "null"])
def test_an_empty_text_is_no_policy(text: str) -> None:
    assert problems(text) == ["has 0 documents; must be one, with apiVersion, kind and profiles"]


def test_a_text_with_several_documents_is_no_policy() -> None:
    assert problems(f"{with_profile('{}')}---\n{with_profile('{}')}") == [
        "has 2 documents; must be one, with apiVersion, kind and profiles"
    ]


@pytest.mark.parametrize(("text", "shown"), [("5", "5"), ("a", '"a"'), ("[]", "a list"), ("x" * 99, f'"{"x" * 59}…')])
def test_a_policy_that_is_not_an_object_is_a_problem(text: str, shown: str) -> None:
    assert problems(text) == [f"is {shown}; must be an object"]


OPEN = "while parsing a flow mapping that begins in line 1; correct the indentation, or close what is still open"


def test_a_syntax_error_has_line_and_column() -> None:
    text = f"{HEAD}profiles: {{default: {{}}\n"
    assert problems(text) == ["line 4, column 1: did not find expected ',' or '}', " + OPEN.replace("1;", "3;")]


def test_problems_of_strict_yaml_are_listed_with_the_others() -> None:
    text = "profiles:\n  a: &a {retries: {limit: 11, limit: 12}}\n  b: *a\n  1: {<<: {allowSkip: !x 1}}\n"
    assert problems(HEAD + text) == [
        "profiles.a.retries.limit: is written twice, again in line 4; keep one",
        "profiles.b: is an alias (line 5); write the value out",
        "profiles.1: is a key that is not a string (line 6); put it in quotes",
        "profiles.1.<<: merges another object (line 6); write its fields out",
        "profiles.1.<<.allowSkip: has a tag (line 6); leave it out",
        "profiles.a.retries.limit: is 12; must be an integer from 0 to 10",
        "profiles.b.retries.limit: is 12; must be an integer from 0 to 10",
        'profiles.1.allowSkip: is "1"; must be true or false',
    ]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("", "data[policy.yaml]: is missing; must be the policy as a text: policy.yaml: |"),
        ("data: {policy.yml: a}", "data[policy.yaml]: is missing; must be the policy as a text: policy.yaml: |"),
        ("data: {policy.yaml: {}}", "data[policy.yaml]: is an object; must be the policy as a text: policy.yaml: |"),
        ("data: {policy.yaml: '5'}", "is 5; must be an object"),
        ("data: {policy.yaml: '{a: 1'}", "line 2, column 1: did not find expected ',' or '}', " + OPEN),
    ],
)
def test_a_config_map_must_hold_a_policy(data: str, problem: str) -> None:
    assert problems(f"apiVersion: v1\nkind: ConfigMap\n{data}\n") == [problem]


def test_paths_in_a_config_map_are_those_in_its_policy() -> None:
    assert problems(config_map(with_profile("{retries: {limit: 11}}"))) == [
        "profiles.default.retries.limit: is 11; must be an integer from 0 to 10"
    ]


def test_a_config_map_in_a_config_map_is_no_policy() -> None:
    text = config_map(config_map(with_profile("{}")))
    assert 'kind: is "ConfigMap"; must be RetryPolicy' in problems(text)


# Invalid fields.


def test_all_problems_are_reported_together() -> None:
    text = """
apiVersion: retry-policy.dev/v1
kind: RetryPolicies
profils: {}
profiles:
  "a b": {}
  default:
    retries: {limit: 11, onExceed: deny, limt: 3}
    failurePolicy: {inject: no, coupled: Settled}
    placement: {provider: gek}
    attemptTimeout: 1m1h
    allowSkip: "true"
  other: {retries: [], disruptions: {limit: -1, action: 5}}
"""
    assert problems(text) == [
        'apiVersion: is "retry-policy.dev/v1"; must be retry-policy.dev/v1alpha1',
        'kind: is "RetryPolicies"; must be RetryPolicy',
        (f"profils: is not a field; must be {fields_of(Policy)} (did you mean profiles?)"),
        f'profiles.a b: is "a b"{NAME}',
        "profiles.default.retries.limit: is 11; must be an integer from 0 to 10",
        'profiles.default.retries.onExceed: is "deny"; must be Clamp or Deny (did you mean Deny?)',
        (f"profiles.default.retries.limt: is not a field; must be {fields_of(Retries)} (did you mean limit?)"),
        "profiles.default.failurePolicy.inject: is false; must be IfAbsent, Merge or Never",
        'profiles.default.failurePolicy.coupled: is "Settled"; must be FailJob, Retry or Settle (did you mean Settle?)',
        f'profiles.default.placement.provider: is "gek"; must be {PROVIDERS} (did you mean gke?)',
        f'profiles.default.attemptTimeout: is "1m1h"{DURATION}',
        'profiles.default.allowSkip: is "true"; must be true or false',
        "profiles.other.retries: is a list; must be an object",
        "profiles.other.disruptions.limit: is -1; must be an integer of at least 0",
        "profiles.other.disruptions.action: is 5; must be Count or Ignore",
    ]


def test_the_nearest_value_is_suggested_whatever_its_case() -> None:
    assert profile_problems("{retries: {onExceed: CLAMP}, jobSet: {ondisruption: RestartPod}}") == [
        'retries.onExceed: is "CLAMP"; must be Clamp or Deny (did you mean Clamp?)',
        "jobSet.ondisruption: is not a field; must be onDisruption",
    ]


def test_api_version_kind_and_profiles_are_required() -> None:
    assert problems("{}") == [
        "apiVersion: is missing; must be retry-policy.dev/v1alpha1",
        "kind: is missing; must be RetryPolicy",
        "profiles: is missing; must be an object",
    ]


@pytest.mark.parametrize(
    ("text", "problem"), [("{}", "is empty; must have 1 or more entries"), ("", "is null; must be an object")]
)
def test_at_least_one_profile_is_required(text: str, problem: str) -> None:
    assert problems(f"{HEAD}profiles: {text}\n") == [f"profiles: {problem}"]


@pytest.mark.parametrize("name", ["a", "A.b_c-d", "0", "a" * 63])
def test_a_profile_name_can_be_any_label_value_that_is_not_empty(name: str) -> None:
    assert policy(f'{HEAD}profiles: {{"{name}": {{}}}}').profiles == {name: Profile()}


@pytest.mark.parametrize("name", ["", "-a", "a.", "a/b", "a b", "é", "a" * 64, r"a\n"])
def test_a_profile_name_that_is_no_label_value_is_a_problem(name: str) -> None:
    (problem,) = problems(f'{HEAD}profiles: {{"{name}": {{}}}}')
    assert problem.endswith(NAME)


@pytest.mark.parametrize("text", ["null", "'3'", "3.5", "true", "-1", "11", "[3]", "1e20"])
def test_a_number_of_retries_is_an_integer_from_0_to_10(text: str) -> None:
    (problem,) = profile_problems(f"{{retries: {{limit: {text}}}}}")
    assert problem.startswith("retries.limit: is ")
    assert problem.endswith("; must be an integer from 0 to 10")


def test_default_retries_above_the_limit_are_a_problem() -> None:
    assert profile_problems("{retries: {limit: 2, default: 3}}") == [
        "retries.default: is 3, above the limit; must be at most 2"
    ]


def test_default_retries_are_not_compared_with_an_invalid_limit() -> None:
    assert profile_problems("{retries: {limit: 11, default: 10}}") == [
        "retries.limit: is 11; must be an integer from 0 to 10"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "-1",
        "1.5",
        "true",
        '""',
        "0s",
        "0h0m",
        "'90'",
        "1m1h",
        "1s1s",
        "1d",
        "1h 30m",
        "90S",
        "-1s",
        "1.5h",
        "h",
        "[]",
    ],
)
def test_a_malformed_duration_is_a_problem(text: str) -> None:
    (problem,) = profile_problems(f"{{attemptTimeout: {text}}}")
    assert problem.startswith("attemptTimeout: is ")
    assert problem.endswith(DURATION)


def test_a_message_can_be_a_sentence_with_a_link() -> None:
    sentence = "Ask #batch, https://wiki.example/batch?x=1#y: «été»"
    assert profile(f"{{message: {json.dumps(sentence, ensure_ascii=False)}}}").message == sentence
    assert not profile("{}").message
    assert len(profile(f"{{message: {'x' * 200}}}").message) == 200


@pytest.mark.parametrize(
    "text",
    [
        "'Ask'",
        f"'{'x' * 201}'",
        '"two lines:\\none, two"',
        '"a bell: \\a\\a\\a\\a\\a"',
        '"an escape \\e[31m"',
        '"a separator \\L of lines"',
        "' begins with a space'",
        "'ends with a space '",
        "[a, list]",
    ],
)
def test_a_message_that_is_not_one_line_of_10_to_200_characters_is_a_problem(text: str) -> None:
    (problem,) = profile_problems(f"{{message: {text}}}")
    assert problem.startswith("message: is ")
    assert "one line of 10 to 200 characters" in problem


def test_the_problem_of_a_message_cut_at_a_comment_says_to_quote_it() -> None:
    (problem,) = problems(f"{HEAD}profiles:\n  default:\n    message: Ask #batch, https://wiki.example\n")
    assert problem.startswith('profiles.default.message: is "Ask"; must be ')
    assert problem.endswith('in quotes: in YAML a comment begins at " #"')


@pytest.mark.parametrize("text", ["", " #batch, https://wiki.example", " null"])
def test_a_message_without_a_text_is_a_problem_because_yaml_may_have_read_it_as_a_comment(text: str) -> None:
    (problem,) = problems(f"{HEAD}profiles:\n  default:\n    message:{text}\n")
    assert problem.startswith("profiles.default.message: is null; must be one line of 10 to 200 characters")
    assert problem.endswith('in quotes: in YAML a comment begins at " #"')


@pytest.mark.parametrize("text", ["2147483648", "99999999999999999999s", "596524h", "\u0663s"])
def test_a_duration_above_the_maximum_of_the_api_is_a_problem(text: str) -> None:
    (problem,) = profile_problems(f"{{attemptTimeout: {text}}}")
    assert problem.endswith(DURATION)


@pytest.mark.parametrize("code", ["0", "-1", "2147483648", "'143'", "1.5", "null"])
def test_an_exit_code_is_an_integer_from_1(code: str) -> None:
    (problem,) = profile_problems(f"{{failurePolicy: {{retriableExitCodes: [1, {code}]}}}}")
    assert problem.startswith("failurePolicy.retriableExitCodes[1]: is ")
    assert problem.endswith("; must be an integer from 1 to 2147483647")


def test_a_duplicate_exit_code_is_a_problem() -> None:
    assert profile_problems("{failurePolicy: {retriableExitCodes: [1, 2, 0, 0, 2, 1, 3]}}")[-1] == (
        "failurePolicy.retriableExitCodes: has 1, 2 more than once; must have each code once"
    )


def test_a_crash_is_decided_within_an_hour() -> None:
    assert profile("{failurePolicy: {settleWithin: 1h}}").failure_policy.settle_within == 3600
    assert profile_problems("{failurePolicy: {settleWithin: 61m}}") == [
        "failurePolicy.settleWithin: is 3660 seconds; must be at most 3600, an hour"
    ]


def test_exit_codes_are_at_most_254_so_that_a_rule_has_room_for_137() -> None:
    codes = list(range(1, 255))
    assert profile(f"{{failurePolicy: {{retriableExitCodes: {codes}}}}}").failure_policy.retriable_exit_codes == (
        *codes,
    )
    assert profile_problems(f"{{failurePolicy: {{retriableExitCodes: {[*codes, 255]}}}}}") == [
        "failurePolicy.retriableExitCodes: has 255 entries; must have 254 or fewer"
    ]


def test_spot_cannot_be_required_with_provider_any() -> None:
    assert profile("{placement: {provider: any}}")
    assert profile_problems("{placement: {provider: any, spot: Require}}") == [
        "placement.spot: is Require with provider any; must be Prefer or Allow, or name the provider"
    ]


CUSTOM = "custom: {spotLabels: {a: [b]}}"


def test_a_custom_provider_must_be_described() -> None:
    assert profile_problems("{placement: {provider: custom}}") == [
        "placement.custom: is missing; must describe the spot nodes for provider custom: spotLabels, tolerations"
    ]


@pytest.mark.parametrize("provider", ["gke", "auto"])
def test_a_description_with_another_provider_is_a_problem(provider: str) -> None:
    assert profile_problems(f"{{placement: {{provider: {provider}, {CUSTOM}}}}}") == [
        f"placement.custom: has no effect with provider {provider}; remove it, or set provider to custom"
    ]


def test_a_time_for_disruptions_that_have_no_limit_is_a_problem() -> None:
    assert profile_problems("{disruptions: {action: Count, per: 24h}}") == [
        "disruptions.per: has no effect with action Count; remove it, or set action to Ignore"
    ]


def test_with_an_invalid_provider_only_the_provider_is_a_problem() -> None:
    (problem,) = profile_problems(f"{{placement: {{provider: custim, {CUSTOM}}}}}")
    assert problem.startswith("placement.provider: ")


def test_an_invalid_description_with_another_provider_is_two_problems() -> None:
    assert profile_problems("{placement: {provider: gke, custom: {}}}") == [
        "placement.custom.spotLabels: is missing; must be an object",
        "placement.custom: has no effect with provider gke; remove it, or set provider to custom",
    ]


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ("{}", ": is empty; must have 1 or more entries"),
        ("null", ": is null; must be an object"),
        ("{a: []}", ".a: is empty; must have 1 or more entries"),
        ("{a: b}", '.a: is "b"; must be a list'),
        ("{a: [true]}", '.a[0]: is true; must be a string: "true"'),
        ("{a: [b, 5]}", '.a[1]: is 5; must be a string: "5"'),
        ("{a: [null]}", f".a[0]: is null{VALUE}"),
        ("{a: [b.]}", f'.a[0]: is "b."{VALUE}'),
        ("{-a: [b]}", f'.-a: is "-a"{KEY}'),
        ("{a/b/c: [b]}", f'[a/b/c]: is "a/b/c"{KEY}'),
        ("{A.b/c: [b]}", f'[A.b/c]: is "A.b/c"{KEY}'),
        ("{/c: [b]}", f'[/c]: is "/c"{KEY}'),
        ("{a/: [b]}", f'[a/]: is "a/"{KEY}'),
    ],
)
def test_spot_labels_that_no_node_can_have_are_problems(labels: str, problem: str) -> None:
    found = profile_problems(f"{{placement: {{provider: custom, custom: {{spotLabels: {labels}}}}}}}")
    assert found == [f"placement.custom.spotLabels{problem}"]


@pytest.mark.parametrize("length", [253, 254])
def test_the_prefix_of_a_label_has_at_most_253_characters(length: int) -> None:
    text = f"{{placement: {{provider: custom, custom: {{spotLabels: {{{'a' * length}/b: [c]}}}}}}}}"
    assert isinstance(parse(with_profile(text)), Policy) == (length == 253)


@pytest.mark.parametrize(
    ("toleration", "problem"),
    [
        ("5", ": is 5; must be an object"),
        ("{}", ".key: is missing; must be a label key, or the operator Exists"),
        ("{value: a}", ".key: is missing; must be a label key, or the operator Exists"),
        ("{key: a b}", f'.key: is "a b"{KEY}'),
        ("{key: a, value: true}", '.value: is true; must be a string: "true"'),
        ("{key: a, value: b c}", f'.value: is "b c"{VALUE}'),
        ("{key: a, operator: exists}", '.operator: is "exists"; must be Equal or Exists (did you mean Exists?)'),
        ("{key: a, operator: Exists, value: b}", ".value: is set with operator Exists; remove it"),
        (
            "{key: a, effect: NoScheduling}",
            '.effect: is "NoScheduling"; must be NoExecute, NoSchedule or PreferNoSchedule (did you mean NoSchedule?)',
        ),
        (
            "{key: a, effect: NoSchedule, tolerationSeconds: 5}",
            ".tolerationSeconds: is set without effect NoExecute; remove it, or set effect to NoExecute",
        ),
        ("{key: a, effect: NoExecute, tolerationSeconds: 5s}", '.tolerationSeconds: is "5s"; must be an integer'),
        ("{key: a, effects: NoExecute}", f".effects: is not a field; must be {FIELDS} (did you mean effect?)"),
        ("{key: a, none: 5}", f".none: is not a field; must be {FIELDS}"),
    ],
)
def test_a_toleration_that_no_pod_can_have_is_a_problem(toleration: str, problem: str) -> None:
    custom = f"{{spotLabels: {{a: [b]}}, tolerations: [{toleration}]}}"
    assert profile_problems(f"{{placement: {{provider: custom, custom: {custom}}}}}") == [
        f"placement.custom.tolerations[0]{problem}"
    ]
