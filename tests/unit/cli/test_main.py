"""The command line as users and CI run it.

Most tests run it in this process. Those of what a process adds run the installed console script: how the program ends,
encodings, files that the user may not read, what is imported.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.awaiting import LONGEST
from tests.objects import cron_job, job, job_spec, pod
from tests.served import COMMAND
from webhook import __version__
from webhook.cli import writing
from webhook.cli.main import main
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.rules.pods.protect import PROTECTION

GKE_POLICY = """
apiVersion: retry-policy.dev/v1alpha1
kind: RetryPolicy
profiles:
  default: {placement: {provider: gke}}
  strict: {retries: {limit: 2, default: 2}}
"""
BAD_POLICY = """
apiVersion: retry-policy.dev/v1alpha1
kind: RetryPolicy
profiles:
  default:
    retries: {limit: 11, onExcess: Deny}
    placement: {provider: gce}
"""
TEMPLATE = """
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ include "chart.fullname" . }}
spec:
  backoffLimit: {{ .Values.backoffLimit }}
"""
GOOD = job(job_spec(rules=[], backoffLimit=3))
GREEDY = job(job_spec(backoffLimit=25))
TOO_MANY = "25 retries exceed the limit of 10 in profile 'default'; set 10 or less"
NEITHER = "has neither onExitCodes nor onPodConditions; must have one of them"
ON_FAILURE = "OnFailure allows no failure policy; use Never to fail at once on bugs"
AUTO = "is auto, and there are no nodes to look at; name one to see placement"
SERVICE: Json = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"clusterIP": "None"}}


pytestmark = pytest.mark.usefixtures("in_a_folder")


def write(name: str, *documents: Any) -> str:
    """Write documents, a text as it is, to a file in the current folder."""
    file = Path(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    texts = [one if isinstance(one, str) else writing.as_yaml(one) for one in documents]
    file.write_text("---\n".join(texts), encoding="utf-8")
    return name


def invoke(*arguments: str, stdin: str = "") -> Result:
    """Run the command in this process; raise the exceptions that it does not handle."""
    return CliRunner().invoke(main, arguments, input=stdin, prog_name="retry-policy", catch_exceptions=False)


def run(*arguments: str, stdin: str = "", code: int = 0) -> tuple[str, str]:
    """Run the command in this process; return stdout and stderr."""
    done = invoke(*arguments, stdin=stdin)
    assert (done.exit_code, done.stderr) == (code, done.stderr)
    return done.stdout, done.stderr


def run_script(*arguments: str, code: int = 0, before: tuple[str, ...] = ()) -> tuple[str, str]:
    """Run the console script; return stdout and stderr, in which no stack trace may ever be."""
    done = subprocess.run((*before, COMMAND, *arguments), capture_output=True, check=False, timeout=LONGEST)
    out, err = done.stdout.decode(), done.stderr.decode()
    assert "Traceback" not in err
    assert (done.returncode, err) == (code, err)
    return out, err


def check(*arguments: str, stdin: str = "", code: int = 0) -> tuple[str, str]:
    return run("check", *arguments, stdin=stdin, code=code)


def render(*arguments: str, stdin: str = "", code: int = 0) -> tuple[str, str]:
    return run("render", *arguments, stdin=stdin, code=code)


# check


def test_a_good_manifest_is_passed_without_a_word() -> None:
    assert check("-f", write("a.yaml", GOOD)) == ("", "")


def test_each_problem_is_one_line_with_file_document_path_what_and_remedy() -> None:
    broken = job(job_spec(rules=[{"action": "Ignore"}], backoffLimit=25), annotations={names.SKIP: "yes"})
    out, err = check("-f", write("a.yaml", broken), code=1)
    assert out.splitlines() == [
        'a.yaml:1 metadata.annotations[retry-policy.dev/skip]: is \'yes\'; must be "true" or "false" (ml/job/train)',
        f"a.yaml:1 spec.backoffLimit: {TOO_MANY} (ml/job/train)",
        f"a.yaml:1 spec.podFailurePolicy.rules[0]: {NEITHER} (ml/job/train)",
    ]
    assert err == ""


def test_a_key_that_is_written_twice_in_json_is_a_warning_as_in_yaml() -> None:
    text = json.dumps(GOOD)[:-1] + ', "kind": "Job", "spec": {}}'
    for written, where in ((text, "-:1"), (yaml.safe_dump(GOOD) + "kind: Job\n", "-:1")):
        out, err = check("-f", "-", stdin=written)
        assert out == ""
        assert f"{where} warning: kind: is written twice" in err


ODD_NUMBERS = ["1e400", "-1e400", "9" * 5000, "NaN", "18446744073709551616", "1e308", "-0.0", "1_0"]
COMMANDS = ["check", "render", "render -o json", "render -o diff", "explain"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_number_that_no_integer_can_hold_is_an_error_and_no_stack_trace(command: str) -> None:
    in_yaml = ("spec: {backoffLimit: %s}", "status: {failed: %s}", "metadata: {name: a, annotations: {a: %s}}")
    in_json = ('"spec": {"backoffLimit": %s}', '"status": {"failed": %s}', '"a": [%s, "\\ud800"]')
    for index, (number, place) in enumerate(product(ODD_NUMBERS, in_yaml)):
        write(f"yaml/{index}.yaml", f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: a}}\n{place % number}\n")
    for index, (number, place) in enumerate(product(ODD_NUMBERS, in_json)):
        text = f'{{"apiVersion": "batch/v1", "kind": "Job", "metadata": {{"name": "a"}}, {place % number}}}'
        write(f"json/{index}.json", text)
    for folder in ("yaml", "json"):
        done = invoke(*command.split(), "-f", folder)
        assert done.exit_code in {0, 1, 2}
        assert len(done.stderr) < 100_000


def test_a_list_is_unfolded_and_its_items_are_part_of_the_path() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [SERVICE, GREEDY]}
    out, _ = check("-f", write("a.yaml", GOOD, listed), code=1)
    assert out == f"a.yaml:2 items[1].spec.backoffLimit: {TOO_MANY} (ml/job/train)\n"


def test_several_files_are_checked_in_the_order_of_the_command_line() -> None:
    out, _ = check("-f", write("b.yaml", GREEDY), "-f", "-", "-f", write("a.yaml", GREEDY), stdin="a: 1", code=1)
    assert [line.partition(" ")[0] for line in out.splitlines()] == ["b.yaml:1", "a.yaml:1"]


def test_warnings_go_to_stderr_and_are_no_problems() -> None:
    out, err = check("-f", write("a.yaml", "a: 1\na: 2\n", job(job_spec(restart_policy="OnFailure"))))
    assert out == ""
    assert err.splitlines() == [
        "a.yaml:1 warning: a: is written twice, again in line 2; keep one",
        f"a.yaml:2 warning: spec.template.spec.restartPolicy: {ON_FAILURE} (ml/job/train)",
    ]


def test_a_document_without_api_version_is_not_passed_over_in_silence() -> None:
    out, err = check("-f", "-", stdin="kind: Job\nspec: {backoffLimit: 25}\n")
    assert (out, err) == ("", "-:1 warning: apiVersion: is missing, so nothing was looked at; must be a string\n")


def test_input_that_cannot_be_read_is_exit_code_2_and_the_rest_is_checked_all_the_same() -> None:
    out, err = check("-f", "absent.yaml", "-f", write("a.yaml", GREEDY), code=2)
    assert out == f"a.yaml:1 spec.backoffLimit: {TOO_MANY} (ml/job/train)\n"
    assert err == "absent.yaml: cannot be read: No such file or directory; name a file or folder that can be read\n"


def test_documents_before_one_that_cannot_be_read_are_checked() -> None:
    out, err = check("-f", write("a.yaml", GREEDY, "a: [\n"), code=2)
    assert out.startswith("a.yaml:1 spec.backoffLimit")
    assert err.startswith("a.yaml:")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\x7fELF\x02\x01\x01\x00\xff\xfe\xfd", "is not utf-8; save it as UTF-8"),
        (b"a: \x00\n", "the character U+0000 is not allowed; remove it"),
        (b"", "holds no document; must hold one or more"),
        (b"a:\n\tb: 1\n", "indent with spaces, not with tabs"),
        (TEMPLATE.encode(), "render the template first (helm template), or put {{ }} in quotes"),
    ],
    ids=["binary", "zero byte", "empty", "tabs", "Helm template"],
)
def test_what_is_no_manifest_is_refused_with_a_sentence(content: bytes, what: str) -> None:
    Path("a.yaml").write_bytes(content)
    out, err = check("-f", "a.yaml", code=2)
    assert out == ""
    assert err.startswith("a.yaml:")
    assert err.endswith(what + "\n")


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root may read everything")
def test_what_may_not_be_read_is_refused_with_a_sentence() -> None:
    # Without its capabilities root is a user like any other.
    before = ("setpriv", "--bounding-set", "-all") if os.geteuid() == 0 else ()
    Path("file.yaml").touch(0o000)
    write("folder/a.yaml", GREEDY)
    Path("folder").chmod(0o000)
    try:
        places = ("file.yaml", "folder", "folder/a.yaml")
        _, err = run_script("check", *(f"-f{place}" for place in places), code=2, before=before)
        assert err.splitlines() == [
            f"{place}: cannot be read: Permission denied; name a file or folder that can be read" for place in places
        ]
    finally:
        Path("folder").chmod(0o700)


def test_of_a_long_message_beginning_and_end_are_printed() -> None:
    _, err = check("-f", write("a.json", json.dumps({"x" * 9000: 1})[:-1] + ', "b": {"c": 1, "c": 2}}'))
    assert err == "a.json:1 warning: b.c: is written twice; keep one\n"
    out, _ = check("-f", write("b.yaml", job(annotations={names.SKIP: "y" * 90_000})), code=1)
    assert len(out) < 5000
    assert out.startswith("b.yaml:1 metadata.annotations[retry-policy.dev/skip]: is 'yyy")
    assert out.endswith('must be "true" or "false" (ml/job/train)\n')


def test_a_name_beyond_all_measure_is_refused_with_a_sentence() -> None:
    _, err = check("-f", "x" * 5000, code=2)
    assert "cannot be read: File name too long" in err


def test_a_line_stays_a_line_whatever_a_key_or_file_is_named() -> None:
    wrong = job(annotations={"a\nb.yaml:1 x: y\x1b[31m": 5})
    out, _ = check("-f", write("a\n.yaml", json.dumps(wrong)), code=1)
    (line,) = out.splitlines()
    assert line.startswith("a\\n.yaml:1 metadata.annotations")
    assert "\x1b" not in out


def test_a_file_whose_name_is_no_text_is_checked() -> None:
    name = os.fsdecode(b"\xff.yaml")
    out, _ = run_script("check", "-f", write(name, GREEDY), code=1)
    assert out == f"\\udcff.yaml:1 spec.backoffLimit: {TOO_MANY} (ml/job/train)\n"


def test_without_a_file_it_says_how_to_name_one() -> None:
    for command in ("check", "render"):
        out, err = run(command, code=2)
        assert out == ""
        assert "-f is missing; name a file, a folder, or - for stdin" in err


def test_a_file_named_without_f_is_answered_with_the_usage() -> None:
    _, err = check("a.yaml", code=2)
    assert err.startswith("Usage: retry-policy check -f FILE|FOLDER|- | --cluster [OPTIONS]")


def test_an_unknown_profile_is_answered_with_those_that_there_are() -> None:
    manifest, rules = write("a.yaml", GOOD), write("policy.yaml", GKE_POLICY)
    for arguments in (["check", "-f", manifest], ["render", "-f", manifest], ["check"]):
        _, err = run(*arguments, "--policy", rules, "--profile", "strikt", code=2)
        assert err.endswith("the policy has no profile 'strikt'; it has: default, strict\n")


def test_the_named_profile_is_applied() -> None:
    files = ("-f", write("a.yaml", GOOD), "--policy", write("policy.yaml", GKE_POLICY))
    out, _ = check(*files, "--profile", "strict", code=1)
    assert "3 retries exceed the limit of 2 in profile 'strict'" in out
    assert check(*files) == ("", "")


def test_a_policy_is_checked_by_itself() -> None:
    said = ("policy.yaml: policy is valid; profiles: default, strict\n", "")
    assert check("--policy", write("policy.yaml", GKE_POLICY)) == said
    assert check("--policy", "policy.yaml", "--profile", "strict") == said


@pytest.mark.parametrize(
    "written", [BAD_POLICY, {"apiVersion": "v1", "kind": "ConfigMap", "data": {"policy.yaml": BAD_POLICY}}]
)
def test_all_problems_of_a_policy_alone_or_in_a_config_map_are_named_at_once(written: Any) -> None:
    out, err = check("--policy", write("policy.yaml", written), code=1)
    assert [line.split(": ")[:2] for line in out.splitlines()] == [
        ["policy.yaml", "profiles.default.retries.limit"],
        ["policy.yaml", "profiles.default.retries.onExcess"],
        ["policy.yaml", "profiles.default.placement.provider"],
    ]
    assert all("; " in line for line in out.splitlines())
    assert err == ""


def test_with_a_bad_policy_no_manifest_is_judged() -> None:
    rules = write("policy.yaml", BAD_POLICY)
    for command in ("check", "render"):
        out, err = run(command, "-f", write("a.yaml", GREEDY), "--policy", rules, code=2)
        assert out == ""
        assert len(err.splitlines()) == 3


def test_a_policy_that_cannot_be_read_is_refused_with_a_sentence() -> None:
    Path("binary").write_bytes(b"\xff\xfe\xfd")
    _, err = check("--policy", "absent", code=2)
    assert err == "absent: cannot be read: No such file or directory; name a policy file\n"
    _, err = check("--policy", ".", code=2)
    assert err == ".: cannot be read: Is a directory; name a policy file\n"
    _, err = check("--policy", "binary", "-f", "-", code=2)
    assert err == "binary: is not UTF-8; save it as UTF-8\n"


FROM_THE_API = """
apiVersion: v1
kind: List
metadata: {resourceVersion: ""}
items:
- apiVersion: batch/v1
  kind: Job
  metadata:
    annotations: {batch.kubernetes.io/job-tracking: ""}
    creationTimestamp: "2026-01-01T00:00:00Z"
    generation: 1
    labels: {batch.kubernetes.io/controller-uid: 7f2c, job-name: old}
    managedFields:
    - apiVersion: batch/v1
      fieldsType: FieldsV1
      fieldsV1: {"f:spec": {"f:backoffLimit": {}, "f:template": {"f:spec": {}}}}
      manager: kubectl-create
      operation: Update
      time: "2026-01-01T00:00:00Z"
    name: old
    namespace: ml
    ownerReferences:
    - {apiVersion: batch/v1, blockOwnerDeletion: true, controller: true, kind: CronJob, name: nightly, uid: 5d1e}
    resourceVersion: "4711"
    uid: 7f2c
  spec:
    backoffLimit: 25
    completionMode: NonIndexed
    completions: 1
    manualSelector: false
    parallelism: 1
    podReplacementPolicy: TerminatingOrFailed
    selector: {matchLabels: {batch.kubernetes.io/controller-uid: 7f2c}}
    suspend: false
    template:
      metadata: {creationTimestamp: null, labels: {job-name: old}}
      spec:
        containers:
        - {name: main, image: busybox, resources: {}, terminationMessagePath: /dev/termination-log}
        dnsPolicy: ClusterFirst
        restartPolicy: Never
        schedulerName: default-scheduler
        securityContext: {}
        terminationGracePeriodSeconds: 30
  status:
    conditions: [{type: Complete, status: "True", lastProbeTime: "2026-01-01T00:01:00Z"}]
    ready: 0
    startTime: "2026-01-01T00:00:00Z"
    succeeded: 1
    uncountedTerminatedPods: {}
"""


def test_what_kubectl_gets_from_a_cluster_is_checked() -> None:
    out, err = check("-f", "-", stdin=FROM_THE_API, code=1)
    assert (out, err) == (f"-:1 items[0].spec.backoffLimit: {TOO_MANY} (ml/job/old)\n", "")


def test_a_list_of_one_kind_as_the_api_gives_it_is_checked() -> None:
    bare = {key: GREEDY[key] for key in ("metadata", "spec")}
    listed = {"apiVersion": "batch/v1", "kind": "JobList", "metadata": {}, "items": [bare]}
    out, _ = check("-f", "-", stdin=json.dumps(listed), code=1)
    assert out == f"-:1 items[0].spec.backoffLimit: {TOO_MANY} (ml/job/train)\n"


# render


def test_a_manifest_is_printed_as_it_would_be_stored() -> None:
    out, err = render("-f", write("a.yaml", job()))
    stored = yaml.safe_load(out)
    assert stored["spec"]["backoffLimit"] == 3
    assert stored["spec"]["podFailurePolicy"]["rules"][0]["action"] == "Ignore"
    assert stored["metadata"]["labels"] == {names.PROFILE: "default"}
    assert err == ""


def test_documents_are_separated_and_unknown_kinds_are_unchanged() -> None:
    out, _ = render("-f", write("a.yaml", SERVICE, "", GOOD, "replicaCount: 2\n"))
    service, stored, values = yaml.safe_load_all(out)
    assert (service, values) == (SERVICE, {"replicaCount": 2})
    assert names.POLICY in stored["metadata"]["annotations"]


def test_json_is_one_object_a_document() -> None:
    out, _ = render("-f", write("a.yaml", GOOD, SERVICE), "-o", "json")
    first, end = json.JSONDecoder().raw_decode(out)
    assert first["metadata"]["labels"] == {names.PROFILE: "default"}
    assert json.loads(out[end:]) == SERVICE


def test_a_diff_shows_what_admission_changes_and_nothing_where_it_changes_nothing() -> None:
    out, _ = render("-f", write("a.yaml", SERVICE, cron_job()), "-o", "diff")
    lines = out.splitlines()
    assert lines[:2] == ["--- a.yaml:2", "+++ a.yaml:2 as admitted"]
    assert "+      backoffLimit: 3" in lines
    assert not [line for line in lines[2:] if line.startswith("-")]


def test_a_diff_of_an_object_that_is_denied_does_not_say_that_it_is_admitted() -> None:
    root = cron_job()
    root["metadata"]["annotations"] = {names.INTERRUPTIBLE: "maybe"}
    out, _ = render("-f", write("a.yaml", root), "-o", "diff", code=1)
    assert out.splitlines()[:2] == ["--- a.yaml:1", "+++ a.yaml:1 as changed, and then denied"]


def test_a_policy_that_no_config_map_can_hold_is_not_read() -> None:
    file = write("policy.yaml", GKE_POLICY + "# " + "x" * 2**20)
    for arguments in (("--policy", file), ("--policy", file, "-f", write("a.yaml", GOOD))):
        _, err = check(*arguments, code=2)
        assert err == "policy.yaml: is larger than 1 MiB, which no ConfigMap holds; make it smaller\n"


def test_the_items_of_a_list_have_a_diff_each() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [SERVICE, GREEDY, cron_job()]}
    out, _ = render("-f", write("a.yaml", listed), "-o", "diff", code=1)
    assert [line for line in out.splitlines() if line.startswith("---")] == [
        "--- a.yaml:1 items[1]",
        "--- a.yaml:1 items[2]",
    ]


@pytest.mark.parametrize("manifest", [GOOD, cron_job(), pod(annotations={names.ATTEMPT: "2"})])
def test_what_was_rendered_is_rendered_unchanged(manifest: Json) -> None:
    rules = ("--policy", write("policy.yaml", GKE_POLICY))
    once, _ = render("-f", write("a.yaml", manifest), *rules)
    assert render("-f", "-", *rules, stdin=once) == (once, "")
    assert render("-f", "-", *rules, "-o", "diff", stdin=once) == ("", "")


def test_problems_go_to_stderr_and_the_document_is_printed_all_the_same() -> None:
    out, err = render("-f", write("a.yaml", GREEDY), code=1)
    assert yaml.safe_load(out)["spec"]["backoffLimit"] == 25
    assert err == f"a.yaml:1 spec.backoffLimit: {TOO_MANY} (ml/job/train)\n"


def placed(*arguments: str, manifest: Json) -> Json:
    rules = ("--policy", write("policy.yaml", GKE_POLICY))
    out, _ = render("-f", write("a.yaml", manifest), *rules, *arguments)
    found: Json = yaml.safe_load(out)
    return found


@pytest.mark.parametrize(
    "manifest",
    [pod(owner=None), pod(owner=None, annotations={names.ATTEMPT: "0"}), pod()],
    ids=["bare", "own", "owned"],
)
def test_a_pod_is_rendered_as_the_attempt_that_is_named(manifest: Json) -> None:
    last = placed("--attempt", "3", manifest=manifest)
    assert last["metadata"]["annotations"] == {
        names.ATTEMPT: "3",
        names.ATTEMPT_SOURCE: "Annotation",
        names.MAX_RETRIES: "3",
        names.PLACEMENT: "OnDemand",
        **PROTECTION,
    }
    first = placed("--attempt", "0", manifest=manifest)
    assert first["metadata"]["annotations"][names.PLACEMENT] == "Spot"


def test_a_pod_that_takes_no_part_is_printed_as_it_is_and_that_is_said() -> None:
    manifest = pod(owner="DaemonSet")
    out, err = render("-f", write("a.yaml", manifest), "--attempt", "1")
    assert yaml.safe_load(out) == manifest
    assert err == "warning: --attempt: there is no Pod that is placed by it; name a file with one\n"


@pytest.mark.parametrize("attempt", ["-1", "first", "2147483648", "1.5"])
def test_an_attempt_that_is_none_is_refused(attempt: str) -> None:
    _, err = render("-f", write("a.yaml", pod()), f"--attempt={attempt}", code=2)
    assert "--attempt" in err


def test_that_no_provider_is_known_is_said_once_where_a_pod_would_be_placed() -> None:
    manifest = write("a.yaml", pod(), pod(), GOOD)
    _, err = render("-f", manifest)
    assert err == f"warning: profiles.default.placement.provider: {AUTO}\n"
    assert render("-f", manifest, "--policy", write("policy.yaml", GKE_POLICY))[1] == ""
    assert check("-f", manifest) == ("", "")


# how it ends


def start(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        (COMMAND, *arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_a_closed_pipe_ends_it_without_a_message() -> None:
    with start("render", "-f", write("a.yaml", *[GOOD] * 300)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"apiVersion: batch/v1\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == -signal.SIGPIPE


def test_ctrl_c_ends_it_without_a_message() -> None:
    with start("render", "-f", write("a.yaml", *[GOOD] * 300)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"apiVersion: batch/v1\n"  # it waits until more of its output is read
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""
        assert process.wait() == -signal.SIGINT


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is full")
@pytest.mark.parametrize("command", ["check", "render"])
def test_a_full_disk_is_said_in_a_sentence(command: str) -> None:
    manifest = write("a.yaml", GREEDY)
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            (COMMAND, command, "-f", manifest),
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=LONGEST,
        )
    assert done.stderr.splitlines()[-1] == (
        b"the output cannot be written: No space left on device; write it elsewhere"
    )
    assert b"Traceback" not in done.stderr
    assert done.returncode == 2


def in_a_shell(line: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(("sh", "-c", line), capture_output=True, check=False, timeout=LONGEST)


def test_a_closed_stdin_matters_only_if_it_is_read() -> None:
    manifest = write("a.yaml", GOOD)
    done = in_a_shell(f"{COMMAND} check -f {manifest} <&-")
    assert (done.returncode, done.stderr) == (0, b"")
    done = in_a_shell(f"{COMMAND} check -f - <&-")
    assert (done.returncode, done.stderr) == (2, b"-: holds no document; must hold one or more\n")


def test_a_stdin_that_cannot_be_read_is_refused_with_a_sentence() -> None:
    done = in_a_shell(f"{COMMAND} check -f - 0>a.yaml")
    assert done.returncode == 2
    assert done.stderr.startswith(b"-: cannot be read: Bad file descriptor")
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(("arguments", "code"), [("check -f a.yaml", 1), ("render -f a.yaml", 1), ("export", 0)])
def test_with_a_closed_stdout_the_exit_code_still_tells(arguments: str, code: int) -> None:
    write("a.yaml", GREEDY)
    assert in_a_shell(f"{COMMAND} {arguments} >&-").returncode == code


def test_output_is_utf_8_whatever_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    out, _ = run_script("render", "-f", write("a.yaml", job(annotations={"motto": "日本 é"})))
    assert "motto: 日本 é" in out


def test_the_version_is_told() -> None:
    assert run_script("--version") == (f"retry-policy, version {__version__}\n", "")


HELP = """
import sys
from webhook.cli.main import main
for flag in ("-h", "--help"):
    main([flag], prog_name="retry-policy", standalone_mode=False)
    for command in sys.argv[1:]:
        main([command, flag], prog_name="retry-policy", standalone_mode=False)
"""


def test_help_is_everywhere() -> None:
    offline = ["serve", "control", "render", "check", "export", "test"]
    online = ["doctor", "report", "dashboard", "simulate", "explain", "retry", "suspend", "resume"]
    commands = [*offline, *online]
    # In a process of its own: click keeps the help option of a command's first call.
    done = subprocess.run([sys.executable, "-c", HELP, *commands], capture_output=True, check=True, text=True)
    usages = [line.split()[2] for line in done.stdout.splitlines() if line.startswith("Usage: ")]
    assert usages == ["[OPTIONS]", *commands] * 2
    listed = done.stdout.partition("Commands:\n")[2].partition("Usage: ")[0]
    assert [line.split()[0] for line in listed.splitlines()] == commands


def test_check_and_render_start_without_the_servers_imports() -> None:
    script = (
        "import sys; from webhook.cli.main import main\n"
        "for command in ('check', 'render'):\n"
        "    try: main([command, *sys.argv[1:]])\n"
        "    except SystemExit: pass\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    arguments = (sys.executable, "-c", script, "-f", write("a.yaml", GREEDY))
    done = subprocess.run(arguments, capture_output=True, check=True, timeout=LONGEST, text=True)
    assert done.stdout.startswith(f"a.yaml:1 spec.backoffLimit: {TOO_MANY}")
    loaded = set(done.stdout.splitlines()[-1].split())
    assert loaded >= {"webhook", "yaml"}
    servers = {"aiohttp", "uvloop", "asyncio", "kubernetes", "cryptography", "certs", "structlog"}
    assert loaded.isdisjoint({*servers, "rich"})  # rich: stdout is no terminal


def test_an_error_of_ours_ends_a_command_with_its_place_and_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RecursionError("nested too deeply")

    monkeypatch.setattr("webhook.cli.check.check.callback", broken)
    result = CliRunner().invoke(main, ["check", "-f", "-"], input="{}")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: unexpected RecursionError in test_main.py:")
    assert "Traceback" not in result.output
