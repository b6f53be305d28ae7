"""Admission of manifests without an API server, and YAML that kubectl reads back."""

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.admission import mutate, policy, validate
from tests.costs import assert_grows_with_its_input, bytes_of
from tests.objects import cron_job, job, job_spec, pod
from tests.strategies import examples
from tests.unit.objects.test_strict_yaml import plain
from tests.unit.test_properties import CRON_JOBS, JOBS, PODS, POLICIES
from webhook.cli import admission, writing
from webhook.cli.admission import AdmissionVerdict
from webhook.cli.documents import Document
from webhook.kube import names
from webhook.objects import strict_yaml
from webhook.objects.problem import Json, Problem
from webhook.policy.model import Placement, Policy, Profile, Retries
from webhook.policy.parse import load_default
from webhook.rules.pods.protect import PROTECTION

GKE = policy(default=Profile(placement=Placement(provider="gke")))
SERVICE: Json = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"clusterIP": "None"}}


def admit(value: Any, under: Policy | None = None, attempt: int | None = None) -> AdmissionVerdict:
    """Admit all objects of a document; return all problems and warnings."""
    document = Document("-", 1, value, [])
    whole = AdmissionVerdict(warnings=[warning for _, warning in admission.warnings(document)])
    for path, root in document.objects():
        verdict = admission.admit(root, under or policy(), "default", attempt)
        whole.problems += admission.prefixed(path, verdict.problems)
        whole.warnings += admission.prefixed(path, verdict.warnings)
        whole.placed |= verdict.placed
    return whole


def admitted(value: Any, under: Policy | None = None, attempt: int | None = None) -> Any:
    admit(value, under, attempt)
    return value


def problems(value: Any) -> list[str]:
    return [str(problem) for problem in admit(value).problems]


def warnings(value: Any) -> list[str]:
    return [str(warning) for warning in admit(value).warnings]


def annotations(root: Json) -> dict[str, str]:
    found: dict[str, str] = root["metadata"]["annotations"]
    return found


def list_of(*objects: Any) -> Json:
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def test_a_manifest_is_edited_as_by_the_webhook() -> None:
    manifest = job(job_spec(backoffLimit=3))
    assert admitted(manifest) == mutate(job(job_spec(backoffLimit=3))).object


def cluster_scoped_template(**labels: str) -> Json:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "ClusterWorkflowTemplate",
        "metadata": {"name": "steps", "labels": labels},
        "spec": {"templates": [{"name": "main", "retryStrategy": {"limit": 25}, "container": {"image": "a"}}]},
    }


@pytest.mark.parametrize("labels", [{}, {"team": "ml"}, None, [], {names.PROFILE: None}])
def test_a_cluster_scoped_template_without_the_label_is_unchanged_with_a_warning(labels: Any) -> None:
    template = cluster_scoped_template()
    template["metadata"]["labels"] = labels
    before = deepcopy(template)
    said = [
        (
            "metadata.labels[retry-policy.dev/profile]: is missing, so it is left alone; "
            "a template of the whole cluster takes part by its own label"
        )
    ]
    assert (problems(template), warnings(template)) == ([], said)
    assert template == before


def test_a_cluster_scoped_template_is_judged_by_the_profile_in_its_label() -> None:
    strict = policy(gpu=Profile(retries=Retries(limit=2)))
    verdict = admit(cluster_scoped_template(**{names.PROFILE: "gpu"}), strict)
    assert [str(one) for one in verdict.problems] == [
        "spec.templates[0].retryStrategy.limit: 25 retries exceed the limit of 2 in profile 'gpu'; set 2 or less"
    ]
    unknown = admit(cluster_scoped_template(**{names.PROFILE: "gpus"}), strict)
    assert unknown.problems == []
    assert "no profile 'gpus': object left alone" in str(unknown.warnings[0])


@pytest.mark.parametrize("value", [SERVICE, {}, [], "text", 5, {"replicaCount": 3}, {"kindness": "Job"}])
def test_an_unknown_kind_and_what_is_no_kubernetes_object_are_unchanged(value: Any) -> None:
    assert admitted(deepcopy(value)) == value
    assert (problems(value), warnings(value)) == ([], [])


def test_problems_are_those_of_the_object_that_would_be_stored() -> None:
    manifest = job(annotations={names.MAX_RETRIES: "4"}, spec=job_spec(backoffLimit=25))
    assert problems(manifest) == []
    assert manifest["spec"]["backoffLimit"] == 4


def test_each_item_of_a_list_is_admitted_with_its_path() -> None:
    value = list_of(SERVICE, job(job_spec(backoffLimit=25)), list_of(cron_job(job_spec(backoffLimit=11))))
    assert [problem.partition(" ")[0] for problem in problems(value)] == [
        "items[1].spec.backoffLimit:",
        "items[2].items[0].spec.jobTemplate.spec.backoffLimit:",
    ]
    assert value["items"][1]["metadata"]["labels"] == {names.PROFILE: "default"}


def test_warnings_of_admission_have_paths_in_the_document_too() -> None:
    (warning,) = warnings(list_of(job(job_spec(restart_policy="OnFailure"))))
    assert warning.startswith("items[0].spec.template.spec.restartPolicy: OnFailure allows no failure policy")


def test_warnings_from_reading_a_document_are_reported_too() -> None:
    twice = Problem(("spec", "suspend"), "is written twice", "keep one")
    assert list(admission.warnings(Document("-", 1, job(), [twice]))) == [("duplicate_key", twice)]


def test_wrong_types_are_problems_and_not_also_warnings() -> None:
    manifest = job(job_spec(backoffLimit="3"))
    assert problems(deepcopy(manifest)) == ["spec.backoffLimit: is a string; must be an integer"]
    assert warnings(deepcopy(manifest)) == []
    assert admitted(deepcopy(manifest)) == manifest


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"kind": "Job"}, ["apiVersion: is missing, so nothing was looked at; must be a string"]),
        ({"apiVersion": "batch/v1"}, ["kind: is missing, so nothing was looked at; must be a string"]),
        (
            {"apiVersion": 1, "kind": None},
            [
                "apiVersion: is an integer, so nothing was looked at; must be a string",
                "kind: is null, so nothing was looked at; must be a string",
            ],
        ),
        (list_of({"kind": "Job"}), ["items[0].apiVersion: is missing, so nothing was looked at; must be a string"]),
    ],
)
def test_an_object_without_api_version_or_kind_gives_a_warning(value: Any, found: list[str]) -> None:
    assert warnings(value) == found


@pytest.mark.parametrize(("limit", "stored"), [({}, 3), ({"backoffLimit": 6}, 6), ({"backoffLimit": 2}, 2)])
def test_a_backoff_limit_in_a_manifest_counts_as_written_by_its_author(limit: Json, stored: int) -> None:
    assert admitted(job(job_spec(**limit)))["spec"]["backoffLimit"] == stored


@pytest.mark.parametrize("metadata", [{"uid": "u"}, {"managedFields": []}])
def test_a_backoff_limit_of_six_in_a_stored_job_counts_as_the_apis_default(metadata: dict[str, Any]) -> None:
    assert admitted(job(job_spec(backoffLimit=6), **metadata))["spec"]["backoffLimit"] == 3


def test_a_job_without_labels_gets_those_of_its_template_as_in_the_api() -> None:
    spec = job_spec()
    spec["template"]["metadata"] = {"labels": {"team": "a", "kueue.x-k8s.io/queue-name": "q"}}
    rendered = admitted(job(spec))
    assert rendered["metadata"]["labels"] == {"team": "a", "kueue.x-k8s.io/queue-name": "q", names.PROFILE: "default"}
    assert len(rendered["spec"]["podFailurePolicy"]["rules"]) == 1  # it is queued: the ledger judges exit codes
    labelled = admitted(job(deepcopy(spec), labels={"own": "b"}))
    assert labelled["metadata"]["labels"] == {"own": "b", names.PROFILE: "default"}


@pytest.mark.parametrize("labels", [["a"], "abc", 5, {"a": 1}])
def test_malformed_labels_of_a_template_are_not_copied(labels: Any) -> None:
    spec = job_spec()
    spec["template"]["metadata"] = {"labels": labels}
    assert admitted(job(spec))["metadata"]["labels"] == {names.PROFILE: "default"}


def test_a_skipped_job_without_labels_gets_none() -> None:
    spec = job_spec()
    spec["template"]["metadata"] = {"labels": {"team": "a"}}
    skipped = admitted(job(spec, annotations={names.SKIP: "true"}, labels={}))
    assert skipped["metadata"]["labels"] == {}


@pytest.mark.parametrize("root", [job, cron_job])
def test_backoff_limit_per_index_above_the_limit_is_a_problem_and_not_lowered(root: Any) -> None:
    spec = job_spec(completions=8, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=15)
    (problem,) = problems(root(spec))
    assert "backoffLimitPerIndex: 15 retries" in problem


def test_the_option_attempt_acts_like_an_annotation_of_the_author() -> None:
    manifest = pod(owner=None)
    assert admit(manifest, GKE, 3).placed
    assert annotations(manifest) == {
        names.ATTEMPT: "3",
        names.ATTEMPT_SOURCE: "Annotation",
        names.PLACEMENT: "OnDemand",
        names.MAX_RETRIES: "3",
        **PROTECTION,
    }


def test_the_option_attempt_wins_over_the_pods_own_annotation() -> None:
    manifest = admitted(pod(owner=None, annotations={names.ATTEMPT: "3", "other": "x"}), GKE, 1)
    assert (annotations(manifest)[names.ATTEMPT], annotations(manifest)["other"]) == ("1", "x")
    assert annotations(manifest)[names.PLACEMENT] == "Spot"


def test_the_option_attempt_wins_over_annotations_from_an_earlier_admission() -> None:
    noted = pod(annotations={names.ATTEMPT: "0", names.ATTEMPT_SOURCE: "JobStatus", names.MAX_RETRIES: "2"})
    manifest = admitted(noted, GKE, 2)
    assert annotations(manifest)[names.ATTEMPT] == "2"
    assert annotations(manifest)[names.ATTEMPT_SOURCE] == "Annotation"


def test_without_the_option_attempt_a_pod_without_a_controller_is_unchanged() -> None:
    manifest = pod(owner=None)
    assert not admit(manifest, GKE).placed
    assert manifest == pod(owner=None)


def test_without_the_option_attempt_a_jobs_pod_counts_as_a_first_attempt() -> None:
    manifest = admitted(pod(), GKE)
    assert (annotations(manifest)[names.ATTEMPT], annotations(manifest)[names.ATTEMPT_SOURCE]) == ("0", "Unknown")


@pytest.mark.parametrize(
    "manifest",
    [
        pod(owner="ReplicaSet"),
        pod(owner="DaemonSet"),
        pod({"nodeName": "node-1"}, owner=None),
        pod(owner=None, annotations={names.SKIP: "true"}),
        {"apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": "node-1"}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": None, "spec": {"nodeName": "node-1"}},
        pod(owner=None, annotations=[]),
        {"apiVersion": "v1", "kind": "Pod", "metadata": []},
        {"apiVersion": "example.test/v1", "kind": "Pod", "metadata": {}},
        job(uid="u", annotations={names.SKIP: "true"}),
    ],
)
def test_the_option_attempt_does_not_change_objects_that_are_never_placed(manifest: Json) -> None:
    before = deepcopy(manifest)
    assert not admit(manifest, GKE, 3).placed
    assert manifest == before


@pytest.mark.parametrize("metadata", [{}, {"metadata": None}, {"metadata": {}}, {"metadata": {"annotations": None}}])
def test_the_option_attempt_is_added_to_a_pod_without_annotations(metadata: Json) -> None:
    manifest = {"apiVersion": "v1", "kind": "Pod", **metadata, "spec": {"containers": []}}
    assert admit(manifest, GKE, 1).placed
    assert annotations(manifest)[names.ATTEMPT] == "1"
    assert manifest["spec"]["affinity"]


def defaulted(manifest: Json) -> Json:
    """Return a Job as the API server sends it to a webhook after `kubectl apply --server-side` (SetDefaults_Job)."""
    root = deepcopy(manifest)
    spec = root["spec"]
    if spec.get("backoffLimit") is not None:
        fields: Json = {"f:spec": {"f:backoffLimit": {}}}
        root["metadata"]["managedFields"] = [{"operation": "Apply", "fieldsV1": fields}]
    parallel = spec.get("completions") is None and spec.get("parallelism") is None
    indexed = spec.get("backoffLimitPerIndex") is not None
    defaults = {
        "completions": 1 if parallel else None,
        "parallelism": 1,
        "backoffLimit": 2147483647 if indexed else 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed",
    }
    for field, value in defaults.items():
        if spec.get(field) is None and value is not None:
            spec[field] = value
    return root


@given(JOBS, POLICIES)
@examples(300)
def test_check_reports_the_problems_for_which_the_webhook_would_deny_a_job(manifest: Json, under: Policy) -> None:
    sent = defaulted(manifest)
    said = [str(problem) for problem in admit(manifest, under).problems]
    answer = validate(mutate(sent, under=under).object, under=under)
    assert answer.allowed or said
    assert answer.message.splitlines() == said


@given(JOBS | CRON_JOBS | PODS, POLICIES, st.none() | st.integers(0, 5))
@examples(300)
def test_rendering_twice_changes_nothing_more(manifest: Json, under: Policy, attempt: int | None) -> None:
    once = writing.as_yaml(admitted(written_and_read(manifest), under, attempt))
    ((read, _),) = strict_yaml.read(once)
    assert writing.as_yaml(admitted(read, under)) == once


def written_and_read(value: Any) -> Any:
    ((read, _),) = strict_yaml.read(writing.as_yaml(value))
    return read


AMBIGUOUS = [
    "1e3",
    "1E-2",
    "1:30",
    "12:30:45",
    "yes",
    "No",
    "on",
    "y",
    "N",
    "true",
    "0x1F",
    "0o17",
    "017",
    "08",
    "1_000",
    "-0b11",
    "+.5",
    "1.",
    ".5",
    "6.0",
    "2026-01-01",
    "2001-12-14T21:59:43Z",
    "null",
    "~",
    "",
    " ",
    "=",
    "<<",
    ".inf",
    "-.INF",
    ".nan",
    "1e400",
    "18446744073709551616",
    "- a",
    "a: b",
    "a #b",
    "#",
    "{{ .Values.a }}",
    "*a",
    "&a",
    "!a",
    "%a",
    "@a",
    "---",
    "...",
    "two\nlines",
    "two\nlines\n",
    "\nfirst is empty",
    "  indented\nless",
    "trailing \nspace",
    "\n",
    "\n\n",
    "a\n\n\n",
    "\ttab",
    "tab\t\nline",
    "a\r\nb",
    "a\rb",
    "日本 é 😀",
    "\u2028\u2029\x85\xa0\ufeff",
    "\x00\x07\x1b\x7f",
    "'",
    '"',
    'it\'s "so"',
    "\\n",
    "x" * 200 + " " + "y" * 200,
]


def assert_read_back(value: Any) -> None:
    ((read, found),) = strict_yaml.read(writing.as_yaml(value), strict=True)
    assert found == []
    assert json.dumps(read) == json.dumps(plain(value))


def test_an_ambiguous_string_is_read_back_as_the_same_string() -> None:
    for text in AMBIGUOUS:
        assert_read_back({"a": text, "b": [text, [text]], "c": {text: text}})
        assert_read_back(text)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
YAML_TEXTS = st.lists(st.sampled_from([*"a1 \n\t-:#{}[]'\"|>&*!%@`~\\=.,_xe+", "  ", "\n\n"])).map("".join)
NUMBER_TEXTS = st.text(st.sampled_from("0123456789.+-_:eExXobaA"))
STRINGS = TEXTS | YAML_TEXTS | NUMBER_TEXTS | st.sampled_from(AMBIGUOUS)
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | STRINGS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STRINGS, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
@example({"a": -0.0})
@examples(1000)
def test_every_value_is_the_same_after_writing_and_reading_yaml(value: Any) -> None:
    assert_read_back(value)


@pytest.mark.parametrize("text", ["y", "N", "1e3", "08", "0o17", "-_0", "1:30", "2026-01-01", "yes", "~"])
def test_strings_that_some_readers_take_for_another_type_are_quoted(text: str) -> None:
    assert writing.as_yaml({"a": text}) == f"a: '{text}'\n"


def test_a_text_of_several_lines_is_written_as_a_block() -> None:
    assert writing.as_yaml({"a": "one\ntwo\n"}) == "a: |\n  one\n  two\n"


def test_fields_keep_their_order_and_no_line_is_folded() -> None:
    assert writing.as_yaml({"z": "x " * 100 + "x", "a": 1}).splitlines() == ["z: " + "x " * 100 + "x", "a: 1"]


def test_a_value_that_occurs_twice_is_written_twice_without_an_alias() -> None:
    rule = {"action": "Ignore"}
    assert "&" not in writing.as_yaml([rule, rule])


@given(VALUES)
def test_every_value_is_the_same_after_writing_and_reading_json(value: Any) -> None:
    pieces: list[str] = []
    writing.write_json(value, pieces.append)
    assert json.loads("".join(pieces)) == value


def test_an_object_too_large_for_a_request_has_one_problem() -> None:
    manifest = job(job_spec(backoffLimit=25), annotations={"large": "x" * 3 * 2**20})
    assert problems(manifest) == ["is 3.0 MiB as JSON, more than the 3 MiB of a request; make it smaller"]
    assert problems(list_of(manifest))[0].startswith("items[0]: is 3.0 MiB as JSON")
    assert problems({**SERVICE, "data": "x" * 3 * 2**20}) == []  # not a kind of the policy


def many_jobs(size: int) -> list[Json]:
    return [job(job_spec(backoffLimit=25), name=f"train-{number}") for number in range(size)]


def test_the_cost_of_admitting_and_writing_a_list_grows_in_proportion_to_it() -> None:
    assert_grows_with_its_input(lambda size: admitted(list_of(*many_jobs(size))), int, 5)
    assert_grows_with_its_input(lambda value: writing.write_yaml(value, len), many_jobs, 4)
    assert_grows_with_its_input(lambda value: writing.write_json(value, len), many_jobs, 20)


@pytest.mark.parametrize("write", [writing.write_yaml, writing.write_json])
def test_the_memory_for_writing_does_not_grow_with_the_value(write: Any) -> None:
    small, large = many_jobs(200), many_jobs(800)
    write(large, len)  # fills the caches
    assert bytes_of(lambda: write(large, len)) < 1.5 * bytes_of(lambda: write(small, len))


def test_the_packaged_policy_gives_pods_the_placement_none() -> None:
    manifest = pod(annotations={names.ATTEMPT: "3"})
    assert admit(manifest, load_default()).placed
    assert annotations(manifest)[names.PLACEMENT] == "None"


def rules_of(value: Any) -> set[str]:
    verdict = admission.admit(value, policy(), "default", None)
    found = [*verdict.problems, *verdict.warnings]
    assert found
    return {verdict.rule_of(problem) for problem in found}


@pytest.mark.parametrize(
    ("value", "rules"),
    [
        (job(job_spec(backoffLimit=25)), {"retries"}),
        (job(job_spec(backoffLimit="3")), {"shape"}),
        (job(job_spec(backoffLimit=2, restart_policy="OnFailure")), {"failure_policy"}),
        (job(job_spec(backoffLimit=2, rules=[]), annotations={"retry-policy.dev/skipp": "true"}), {"unknown_keys"}),
        (job(job_spec(backoffLimit=2), annotations={names.SKIP: "yes"}), {"annotations"}),
        (job(job_spec(backoffLimit=2, rules=[{"action": "Ignore"}])), {"schema"}),
        ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"labels": {names.MODE: "Warn"}}}, {"opt_in"}),
    ],
)
def test_each_problem_and_warning_has_the_name_of_its_rule(value: Any, rules: set[str]) -> None:
    assert rules <= rules_of(value)


def test_a_warning_about_several_jobs_of_a_set_and_about_a_rendered_object_has_its_rule_too() -> None:
    template = {"spec": job_spec(backoffLimit=2, restart_policy="OnFailure")}
    replicated = [{"name": name, "replicas": 2, "template": template} for name in ("a", "b")]
    job_set = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "a"}}
    both = {**job_set, "spec": {"replicatedJobs": replicated}}
    once = deepcopy(both)
    assert "failure_policy" in rules_of(once)
    assert "failure_policy" in rules_of(once)
    verdict = admission.admit(both, policy(), "default", None)
    assert [verdict.rule_of(one) for one in verdict.warnings if "in 2 of the set's Jobs" in one.what]
