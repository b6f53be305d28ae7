"""The output and the exit codes of `retry-policy check`."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.objects import cron_job, job, job_spec, pod
from webhook.cli.check import check
from webhook.objects.problem import Json

pytestmark = pytest.mark.usefixtures("in_a_folder")

TOO_MANY = "retries exceed the limit of 10 in profile 'default'; set 10 or less"
POLICY: Json = {
    "apiVersion": "retry-policy.dev/v1alpha1",
    "kind": "RetryPolicy",
    "profiles": {"default": {}, "strict": {"retries": {"limit": 2, "default": 2}}},
}


def write(name: str, *documents: Any) -> None:
    Path(name).write_text(yaml.safe_dump_all(documents))


def team(**labels: str) -> Json:
    named = {f"retry-policy.dev/{key}": value for key, value in labels.items()}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml", "labels": named}}


def checked(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(check, arguments, input=stdin)


def test_a_manifest_without_a_problem_prints_nothing() -> None:
    write("job.yaml", job(job_spec(rules=[], backoffLimit=3)))
    found = checked("-f", "job.yaml")
    assert (found.exit_code, found.output) == (0, "")


def test_each_problem_is_a_line_with_file_number_and_path_of_its_document() -> None:
    write("jobs.yaml", job(job_spec(rules=[], backoffLimit=3)), cron_job(job_spec(backoffLimit=25)))
    items = {"apiVersion": "v1", "kind": "List", "items": [job(job_spec(backoffLimit=11))]}
    found = checked("-f", "jobs.yaml", "-f", "-", stdin=yaml.safe_dump(items))
    assert found.exit_code == 1
    assert found.stdout.splitlines() == [
        f"jobs.yaml:2 spec.jobTemplate.spec.backoffLimit: 25 {TOO_MANY} (ml/cronjob/nightly)",
        f"-:1 items[0].spec.backoffLimit: 11 {TOO_MANY} (ml/job/train)",
    ]


def test_a_named_pipe_is_read_once_and_its_namespaces_are_used() -> None:
    os.mkfifo("pipe")
    documents = yaml.safe_dump_all([job(job_spec(rules=[], backoffLimit=25)), team(profile="strict")])
    with ThreadPoolExecutor() as pool:
        pool.submit(Path("pipe").write_text, documents)
        write("policy.yaml", POLICY)
        found = checked("-f", "pipe", "--policy", "policy.yaml")
    assert found.exit_code == 1
    assert found.stdout.startswith("pipe:1 spec.backoffLimit: 25 retries exceed the limit of 2 in profile 'strict'")


def test_warnings_do_not_change_the_exit_code() -> None:
    write("half.yaml", {"kind": "Job", "spec": {}})
    found = checked("-f", "half.yaml")
    assert (found.exit_code, found.stdout) == (0, "")
    assert found.stderr.startswith("half.yaml:1 warning: apiVersion: is missing")


def test_a_misspelt_key_is_a_warning_and_names_the_nearest() -> None:
    typo = job(job_spec(rules=[], backoffLimit=3), annotations={"retry-policy.dev/max-retrys": "2"})
    bare = pod(owner=None, annotations={"retry-policy.dev/interuptible": "true"})
    write("typos.yaml", typo, bare, team(mode="enforce"), team(proflie="default"))
    found = checked("-f", "typos.yaml")
    assert (found.exit_code, found.stdout) == (0, "")
    job_key = "typos.yaml:1 warning: metadata.annotations[retry-policy.dev/max-retrys]: "
    pod_key = "typos.yaml:2 warning: metadata.annotations[retry-policy.dev/interuptible]: "
    mode = "typos.yaml:3 warning: metadata.labels[retry-policy.dev/mode]: "
    misspelt_label = "typos.yaml:4 warning: metadata.labels[retry-policy.dev/proflie]: "
    assert found.stderr.splitlines() == [
        f"{job_key}unknown, no effect; use max-retries (ml/job/train)",
        f"{pod_key}unknown, no effect; use interruptible (pod/train-*)",
        f"{mode}is 'enforce'; must be Enforce, Warn or Audit (did you mean Enforce?) (namespace/ml)",
        f"{mode}no effect without the label retry-policy.dev/profile; add it (namespace/ml)",
        f"{misspelt_label}unknown, no effect; use profile (namespace/ml)",
    ]


def test_a_wrong_mode_of_a_namespace_is_a_problem_but_an_unknown_profile_is_not() -> None:
    write("team.yaml", team(profile="of-another-policy", mode="enforce"))
    assert checked("-f", "team.yaml").stdout == (
        "team.yaml:1 metadata.labels[retry-policy.dev/mode]: is 'enforce';"
        " must be Enforce, Warn or Audit (did you mean Enforce?) (namespace/ml)\n"
    )
    write("team.yaml", {**team(profile="default"), "metadata": {"labels": {"a": 5}}})
    assert "metadata.labels.a: is an integer" in checked("-f", "team.yaml").stdout


def test_the_option_profile_selects_the_profile() -> None:
    write("policy.yaml", POLICY)
    write("job.yaml", job(job_spec(rules=[], backoffLimit=3)))
    assert checked("-f", "job.yaml", "--policy", "policy.yaml").exit_code == 0
    found = checked("-f", "job.yaml", "--policy", "policy.yaml", "--profile", "strict")
    assert found.exit_code == 1
    assert "3 retries exceed the limit of 2 in profile 'strict'" in found.stdout


def namespace(name: str, **labels: str) -> Json:
    labelled = {f"retry-policy.dev/{key}": text for key, text in labels.items()}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labelled}}


def test_objects_of_a_dump_are_judged_under_the_profile_of_their_namespace() -> None:
    write("policy.yaml", POLICY)
    items = [job(job_spec(backoffLimit=3), namespace=one) for one in ("ml", "web", "other")]
    spaces = [namespace("ml", profile="default"), namespace("web", profile="strict", mode="Audit"), namespace("other")]
    dump = {"apiVersion": "v1", "kind": "List", "items": [*items, *spaces]}
    said = "3 retries exceed the limit of 2 in profile 'strict'; set 2 or less"
    for arguments in (["-f", "-"], ["-f", "jobs.yaml", "-f", "-"]):
        write("jobs.yaml", items[1])
        found = checked(*arguments, "--policy", "policy.yaml", stdin=yaml.safe_dump(dump))
        assert found.exit_code == 1
        assert found.stdout.splitlines()[-1] == f"-:1 items[1].spec.backoffLimit: {said} (web/job/train)"
        assert len(found.stdout.splitlines()) == len(arguments) // 2
    strict = checked("-f", "-", "--policy", "policy.yaml", "--profile", "strict", stdin=yaml.safe_dump(dump))
    assert len(strict.stdout.splitlines()) == 3


def test_objects_in_a_namespace_with_an_unknown_profile_are_judged_with_a_warning() -> None:
    write("policy.yaml", POLICY)
    write("all.yaml", namespace("ml", profile="strikt"), job(job_spec(backoffLimit=25)))
    found = checked("-f", "all.yaml", "--policy", "policy.yaml")
    assert found.exit_code == 1
    assert found.stdout == f"all.yaml:2 spec.backoffLimit: 25 {TOO_MANY} (ml/job/train)\n"
    said = "metadata.labels[retry-policy.dev/profile]: the policy has no profile 'strikt'"
    assert found.stderr.startswith(f"all.yaml:1 warning: {said}")


def test_a_problem_names_its_object_even_without_a_complete_name() -> None:
    unnamed = job(job_spec(backoffLimit=25))
    unnamed["metadata"] = {"generateName": "train-"}
    write("jobs.yaml", unnamed, job(job_spec(backoffLimit=25), name=7))
    assert [line.split()[-1] for line in checked("-f", "jobs.yaml").stdout.splitlines()] == [
        "(job/train-*)",
        "(ml/job)",
    ]


def test_malformed_yaml_is_reported_with_its_document_and_line() -> None:
    Path("jobs.yaml").write_text("a: 1\n---\nb: 2\nc: [\n")
    found = checked("-f", "jobs.yaml")
    assert found.exit_code == 2
    assert found.stderr.startswith("jobs.yaml:2 line 5: ")


def test_without_manifests_the_policy_itself_is_checked() -> None:
    write("policy.yaml", POLICY)
    assert checked("--policy", "policy.yaml").output == "policy.yaml: policy is valid; profiles: default, strict\n"
    write("policy.yaml", {**POLICY, "profiles": {"default": {"retries": {"limit": -1, "most": 3}}}})
    found = checked("--policy", "policy.yaml")
    assert found.exit_code == 1
    assert [line.split(": ")[:2] for line in found.stdout.splitlines()] == [
        ["policy.yaml", "profiles.default.retries.limit"],
        ["policy.yaml", "profiles.default.retries.most"],
    ]


def test_checking_a_policy_fails_if_it_lacks_the_named_profile() -> None:
    write("policy.yaml", POLICY)
    assert checked("--policy", "policy.yaml", "--profile", "strict").exit_code == 0
    found = checked("--policy", "policy.yaml", "--profile", "gpu")
    assert found.exit_code == 2
    assert "the policy has no profile 'gpu'; it has: default, strict" in found.stderr


def test_a_problem_is_one_line_even_if_a_key_contains_a_line_break() -> None:
    write("job.yaml", job(job_spec(rules=[], backoffLimit=3), labels={"a\nb\x1b[31m": 5}))
    found = checked("-f", "job.yaml")
    assert found.exit_code == 1
    assert found.stdout.splitlines() == [
        r"job.yaml:1 metadata.labels.a\nb\x1b[31m: is an integer; must be a string (ml/job/train)",
    ]
