"""The output of `retry-policy render` in each of its formats and for each attempt."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.objects import job, job_spec, pod
from webhook.cli.render import render
from webhook.kube import names
from webhook.objects.problem import Json

pytestmark = pytest.mark.usefixtures("in_a_folder")

SERVICE: Json = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
GKE: Json = {
    "apiVersion": "retry-policy.dev/v1alpha1",
    "kind": "RetryPolicy",
    "profiles": {"default": {"placement": {"provider": "gke"}}},
}


def write(name: str, *documents: Any) -> None:
    Path(name).write_text(yaml.safe_dump_all(documents))


def rendered(*arguments: str, color: bool = False) -> Result:
    return CliRunner().invoke(render, arguments, color=color)


def test_yaml_output_has_all_documents_in_order_with_the_edits() -> None:
    write("all.yaml", SERVICE, job(job_spec(rules=[], backoffLimit=3)))
    found = rendered("-f", "all.yaml")
    service, admitted = yaml.safe_load_all(found.stdout)
    assert (found.exit_code, found.stderr, service) == (0, "", SERVICE)
    assert admitted["metadata"]["labels"] == {names.PROFILE: "default"}
    assert "podFailurePolicy" in admitted["spec"]


def test_a_job_with_a_deadline_says_until_when_its_pods_start_on_spot_nodes() -> None:
    said = {names.WORK: "12h", names.DEADLINE: "18h", names.CHECKPOINT: "30m"}
    write("job.yaml", job(job_spec(rules=[], backoffLimit=3), annotations=said))
    found = rendered("-f", "job.yaml")
    assert found.stderr.startswith("job.yaml:1: created now, the deadline is 2")
    assert "12h0m of work left; on-demand nodes would be done with 5h50m to spare; it allows spot nodes" in found.stderr


def test_json_output_has_one_object_for_each_document() -> None:
    write("all.yaml", SERVICE, job(job_spec(rules=[], backoffLimit=3)))
    text = rendered("-f", "all.yaml", "-o", "json").stdout
    service, end = json.JSONDecoder().raw_decode(text)
    admitted = json.loads(text[end:])
    assert service == SERVICE
    assert list(yaml.safe_load_all(rendered("-f", "all.yaml").stdout))[1] == admitted


def test_a_diff_contains_only_changed_documents() -> None:
    write("all.yaml", SERVICE, job(job_spec(rules=[], backoffLimit=3)))
    found = rendered("-f", "all.yaml", "-o", "diff").stdout.splitlines()
    assert found[:2] == ["--- all.yaml:2", "+++ all.yaml:2 as admitted"]
    assert f"+    {names.PROFILE}: default" in found
    assert not [line for line in found if "Service" in line]


def test_a_diff_is_coloured_only_for_a_terminal() -> None:
    write("job.yaml", job(job_spec(rules=[], backoffLimit=3)))
    assert "\x1b[32m+" in rendered("-f", "job.yaml", "-o", "diff", color=True).stdout
    assert "\x1b[" not in rendered("-f", "job.yaml", "-o", "diff").stdout


def test_an_object_that_would_be_denied_is_printed_and_its_problem_goes_to_stderr() -> None:
    write("job.yaml", job(job_spec(backoffLimit=25)))
    found = rendered("-f", "job.yaml")
    assert found.exit_code == 1
    assert yaml.safe_load(found.stdout)["spec"]["backoffLimit"] == 25
    assert found.stderr.startswith("job.yaml:1 spec.backoffLimit: 25 retries exceed the limit of 10")


def test_the_option_attempt_affects_only_pods() -> None:
    write("policy.yaml", GKE)
    write("pod.yaml", pod(), job(job_spec(rules=[], backoffLimit=3)))
    found = rendered("-f", "pod.yaml", "--policy", "policy.yaml", "--attempt", "2")
    one, other = yaml.safe_load_all(found.stdout)
    assert one["metadata"]["annotations"][names.ATTEMPT] == "2"
    assert names.ATTEMPT not in other["metadata"].get("annotations", {})
    assert (found.exit_code, found.stderr) == (0, "")


def test_the_option_attempt_without_a_pod_gives_a_warning() -> None:
    write("job.yaml", job(job_spec(rules=[], backoffLimit=3)))
    found = rendered("-f", "job.yaml", "--attempt", "1")
    assert found.exit_code == 0
    assert found.stderr == "warning: --attempt: there is no Pod that is placed by it; name a file with one\n"


def test_several_pods_without_a_named_provider_give_one_warning() -> None:
    write("pods.yaml", pod(), pod())
    found = rendered("-f", "pods.yaml", "--attempt", "0")
    assert found.stderr == (
        "warning: profiles.default.placement.provider: is auto, and there are no nodes to look at; "
        "name one to see placement\n"
    )


@pytest.mark.parametrize("attempt", ["-1", "2147483648", "two"])
def test_an_attempt_that_the_annotation_does_not_allow_is_refused(attempt: str) -> None:
    write("pod.yaml", pod())
    found = rendered("-f", "pod.yaml", "--attempt", attempt)
    assert (found.exit_code, found.stdout) == (2, "")
    assert "--attempt" in found.stderr


def test_the_error_about_an_unknown_format_lists_the_known_ones() -> None:
    found = rendered("-f", "x.yaml", "-o", "toml")
    assert found.exit_code == 2
    assert "'yaml', 'json', 'diff'" in found.stderr


RULES: Json = {
    "match": {"cause": "OOMKilled"},
    "next": {"avoid": "Node"},
}


def test_with_the_option_after_a_job_becomes_the_pod_that_follows() -> None:
    write("policy.yaml", {**GKE, "profiles": {"default": {**GKE["profiles"]["default"], "onFailure": [RULES]}}})
    write("job.yaml", job(job_spec(rules=[], backoffLimit=3)), SERVICE)
    found = rendered("-f", "job.yaml", "--policy", "policy.yaml", "--after", "cause=OOMKilled,node=n1")
    one, other = yaml.safe_load_all(found.stdout)
    assert (one["kind"], other) == ("Pod", SERVICE)
    said = json.loads(one["metadata"]["annotations"][names.AFTER_FAILURE])
    assert (said["rule"], said["avoidNodes"]) == (0, ["n1"])


def test_a_diff_with_the_option_after_compares_the_pod_as_its_controller_creates_it() -> None:
    write("policy.yaml", GKE)
    write("job.yaml", job(job_spec(rules=[], backoffLimit=3)))
    found = rendered("-f", "job.yaml", "--policy", "policy.yaml", "--after", "cause=Disruption", "-o", "diff").stdout
    lines = found.splitlines()
    assert f"+    {names.PLACEMENT}: OnDemand" in lines  # the profile allows one disruption
    assert not [line for line in lines[2:] if line.startswith("-")]


def test_the_option_after_makes_a_pod_the_attempt_that_follows() -> None:
    write("policy.yaml", GKE)
    write("pod.yaml", pod(owner=None, annotations={names.INTERRUPTIBLE: "true"}))
    ends = ("--after", "exitCode=1", "--after", "cause=Disruption")
    found = yaml.safe_load(rendered("-f", "pod.yaml", "--policy", "policy.yaml", *ends).stdout)
    assert found["metadata"]["annotations"][names.ATTEMPT] == "1"


def test_the_option_after_without_a_job_or_pod_gives_a_warning() -> None:
    write("service.yaml", SERVICE)
    found = rendered("-f", "service.yaml", "--after", "cause=Disruption")
    assert (found.exit_code, found.stderr) == (
        0,
        "warning: --after: there is no Job or Pod that is placed; name a file with one\n",
    )


def test_a_job_that_is_denied_has_no_pod_that_follows() -> None:
    write("job.yaml", job(job_spec(backoffLimit=25)))
    found = rendered("-f", "job.yaml", "--after", "cause=Disruption")
    assert (found.exit_code, yaml.safe_load(found.stdout)["kind"]) == (1, "Job")


def test_a_malformed_end_is_refused_with_all_its_problems() -> None:
    write("job.yaml", job())
    found = rendered("-f", "job.yaml", "--after", "cuase=OOMKilled,exitCode=x")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "cuase: is not a field" in found.stderr
    assert 'exitCode: is "x"' in found.stderr
