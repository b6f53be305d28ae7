"""One object of one user ends no command: it is named, the others are reported, and the exit code is 2.

The faulty object is one for which a function of ours raises, whatever the reason: the next such reason is not known.
"""

import asyncio
import importlib
import json
import re
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result

from tests.objects import job as manifest
from tests.objects import job_spec
from tests.unit.cli.test_check_cluster import JOBS, NAMESPACES, Connected
from tests.unit.cli.test_check_cluster_lists import CONFIG_MAPS, namespace_of, stored
from tests.unit.cli.test_dashboard import Cluster
from tests.unit.doctor.answers import Answers
from tests.unit.doctor.checks.test_delays import delayed
from tests.unit.doctor.healthy import NOW, healthy
from tests.unit.doctor.test_load import cluster
from tests.unit.explain import test_build
from tests.unit.insight.report.facts import at
from tests.unit.insight.report.test_live import job, pod
from webhook.cli import dashboard as dashboard_command
from webhook.cli.main import main
from webhook.doctor.judge import CHECKS, judge
from webhook.insight.report.load import ReportScope
from webhook.kube.client import Api, ApiError
from webhook.kube.kubeconfig import Kubeconfig
from webhook.objects.left_out import LONGEST, LeftOut, UnfitError, name_of
from webhook.objects.problem import Json

PODS = "/api/v1/pods"
NAMES = ("bad", "good")


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make a function of ours raise if one of its arguments, by default the first, has an object named bad in it."""

    def make(place: str, argument: int = 0) -> None:
        module, _, name = place.rpartition(".")
        owner: Any
        try:
            owner = importlib.import_module(module)
        except ModuleNotFoundError:  # a method
            module, _, kind = module.rpartition(".")
            owner = getattr(importlib.import_module(module), kind)
        real = getattr(owner, name)

        def raising(*arguments: Any, **options: Any) -> Any:
            if re.search(r"\bbad\b", repr(arguments[argument])):  # as a word: the address of an object may have it too
                raise KeyError("\x1b[2Jfirst\nsecond")
            return real(*arguments, **options)

        monkeypatch.setattr(owner, name, raising)

    return make


def run(monkeypatch: pytest.MonkeyPatch, api: Any, folder: Path, *arguments: str) -> Result:
    """Run a command against an API, with a kubeconfig."""

    async def connect(*_: object) -> Any:
        return api

    monkeypatch.setattr(Api, "connect", connect)
    (folder / "config").touch()
    return CliRunner().invoke(main, [*arguments, f"--kubeconfig={folder / 'config'}"], catch_exceptions=False)


def assert_names(done: Result, name: str = "bad") -> None:
    """Assert that stderr has one line about the object, and that the exit code says so."""
    (line,) = [one for one in done.stderr.splitlines() if " is left out: " in one]
    assert line.partition(" is left out: ")[0].endswith(f" ml/{name}")
    assert "unexpected KeyError in test_left_out.py:" in line
    assert line.endswith("; please report this with the command")
    assert "\x1b" not in done.stderr
    assert done.exit_code == 2


def lists() -> Connected:
    """Return a cluster with two Jobs, and a pod of each."""
    jobs = [job(one, status=COMPLETE) for one in ("good", "bad")]
    pods = [pod(f"{one}-1", "Succeeded", of=one) for one in ("good", "bad")]
    return Connected({JOBS: jobs, PODS: pods})


COMPLETE: Json = {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": at(3)}]}
READING = "webhook.pods.pods.read"
IN_REPORTS = [
    ("webhook.insight.report.live.known_of", 0),
    ("webhook.insight.report.live.workload_with", 0),
    ("webhook.insight.report.build.Builder.add", 1),
]


@pytest.mark.parametrize("place", IN_REPORTS, ids=lambda one: one[0])
@pytest.mark.parametrize(
    ("form", "said"), [("text", "1 workload"), ("json", "good"), ("csv", "good"), ("html", "good")]
)
def test_a_report_is_about_all_other_workloads(  # noqa: PLR0917 - what is drawn
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, faulty: Any, place: tuple[str, int], form: str, said: str
) -> None:
    faulty(*place)
    done = run(monkeypatch, lists(), tmp_path, "report", "-o", form)
    assert_names(done)
    assert said in done.stdout


def test_a_report_counts_the_other_pods_and_says_that_something_is_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, faulty: Any
) -> None:
    faulty(READING)
    done = run(monkeypatch, lists(), tmp_path, "report", "-o", "json")
    assert_names(done, "bad-1")
    assert json.loads(done.stdout)["total"]["used"]["attempts"] == 1
    faulty("webhook.insight.report.live.known_of")
    assert "are left out" in str(
        json.loads(run(monkeypatch, lists(), tmp_path, "report", "-o", "json").stdout)["notes"]
    )


def test_a_node_that_cannot_be_judged_leaves_its_workloads_in_the_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, faulty: Any
) -> None:
    faulty("webhook.insight.report.live.facts_of")
    api = lists()
    api.lists["/api/v1/nodes"] = [{"metadata": {"name": "bad"}}, {"metadata": {"name": "spot-1"}}]
    done = run(monkeypatch, api, tmp_path, "report", "-o", "json")
    assert done.exit_code == 2
    assert "Node bad is left out: " in done.stderr
    assert json.loads(done.stdout)["total"]["used"]["attempts"] == 2


@pytest.mark.parametrize(
    "place", [READING, "webhook.insight.report.live.known_of", "webhook.insight.simulate.live.attempts_of"]
)
def test_a_simulation_replays_all_other_workloads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, faulty: Any, place: str
) -> None:
    faulty(place)
    policy = tmp_path / "policy.yaml"
    policy.write_text("{apiVersion: retry-policy.dev/v1alpha1, kind: RetryPolicy, profiles: {default: {}}}")
    few = ("--policy", str(policy), "--replications", "2", "-o", "json")
    done = run(monkeypatch, lists(), tmp_path, "simulate", *few)
    assert_names(done, "bad-1" if place == READING else "bad")
    assert json.loads(done.stdout)["workloads"] == 1
    dump = tmp_path / "dump.json"
    of = {"Job": lists().lists[JOBS], "Pod": lists().lists[PODS]}
    kinds = {"Job": "batch/v1", "Pod": "v1"}
    items = [{"apiVersion": kinds[kind], "kind": kind, **one} for kind, some in of.items() for one in cast("Any", some)]
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    done = run(monkeypatch, None, tmp_path, "simulate", "-f", str(dump), "--from", str(policy), *few)
    assert_names(done, "bad-1" if place == READING else "bad")
    assert json.loads(done.stdout)["workloads"] == 1


@pytest.mark.parametrize("place", [READING, "webhook.accounts.counting.count"])
def test_an_explanation_has_all_other_pods(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, faulty: Any, place: str
) -> None:
    faulty(place, -1 if place == READING else 1)
    pods = [test_build.pod(name, "Failed", 1) for name in ("train-good", "train-bad")]
    dump = test_build.file(tmp_path, test_build.job(), *pods)
    done = run(monkeypatch, None, tmp_path, "explain", "-f", dump)
    assert_names(done, "train-bad")
    assert "train-good" in done.stdout


def test_all_other_workloads_of_a_file_are_explained(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, faulty: Any
) -> None:
    faulty("webhook.explain.build.state_of", 1)
    other = test_build.job()
    other["metadata"] |= {"name": "bad", "uid": "another"}
    done = run(monkeypatch, None, tmp_path, "explain", "-f", test_build.file(tmp_path, other, test_build.job()))
    assert_names(done)
    assert done.stdout.startswith("Job ml/train: ")


def test_the_dashboard_shows_all_other_workloads_and_names_the_object_once(
    monkeypatch: pytest.MonkeyPatch, faulty: Any
) -> None:
    faulty("webhook.insight.report.live.known_of")
    path = "/apis/batch/v1/namespaces/ml/jobs"

    async def connect(*_: object) -> Cluster:
        return Cluster({path: lists().lists[JOBS]})

    monkeypatch.setattr(Api, "connect", connect)
    lines: list[str] = []
    left_out = LeftOut(lines.append)

    async def twice() -> list[Any]:
        async with dashboard_command.DashboardReader(Kubeconfig("", None), ReportScope("ml"), left_out) as read:
            return [await read(), await read()]

    for report in asyncio.run(twice()):
        assert [one.name for one in report.workloads] == ["good"]
        assert any("are left out" in note for note in report.notes)
    assert left_out.number == 2
    assert len(set(lines)) == 1


class Examined(Answers):
    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


def test_the_doctor_finds_the_other_delays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, faulty: Any) -> None:
    faulty("webhook.doctor.checks.leader._late_by")
    bad, good = delayed(-300), delayed(-300)
    bad["metadata"]["name"] = "bad"
    good["metadata"]["name"] = "good"
    done = run(monkeypatch, Examined({**cluster(), PODS: [bad, good]}), tmp_path, "doctor")
    assert_names(done)
    assert "Pod ml/good: is held back by a delay that ended" in done.stdout
    assert "Pod ml/bad: " not in done.stdout


TWO: list[Json] = [
    {"metadata": {"name": name, "labels": {"retry-policy.dev/profile": "default"}}} for name in ("bad", "good")
]


def judged() -> tuple[set[str], list[str]]:
    """Return the sections that the doctor prints about two namespaces, and what is left out."""
    lines: list[str] = []
    sections = judge(healthy(namespaces=TWO, now=NOW, left_out=LeftOut(lines.append)))
    return {one.title for one in sections}, lines


def test_the_doctor_judges_the_other_namespaces(faulty: Any) -> None:
    titles, _ = judged()
    faulty("webhook.doctor.checks.namespaces.judged", 1)
    assert judged()[0] == titles
    (line,) = judged()[1]
    assert line.startswith("Namespace bad is left out: ")


def test_a_check_of_the_doctor_that_fails_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    titles, _ = judged()
    monkeypatch.setitem(CHECKS, "Policy", lambda _: iter([1 // 0]))
    found, (line,) = judged()
    assert found == titles - {"Policy"}
    assert line.startswith("the check Policy is left out: unexpected ZeroDivisionError")


def test_all_other_objects_are_listed_for_a_retry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, faulty: Any) -> None:
    faulty("webhook.cli.retry.has_failed")
    done = run(monkeypatch, Retried({}), tmp_path, "retry", "ml/job", "-l", "team=ml", "--dry-run")
    assert_names(done)
    assert "Job ml/good does not say that it may run twice" in done.stderr


class Retried(Connected):
    """Has two failed Jobs, of which admission allows a retry in a dry run."""

    async def objects(self, path: str, query: dict[str, str], *_: Any, **__: Any) -> Any:
        if path.endswith("/jobs") and "team=ml" in query.values():
            for name in ("bad", "good"):
                yield failed(name)


def failed(name: str) -> Json:
    root = job(name, status={"conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": at(3)}]})
    root["metadata"]["annotations"] = {}
    return root


def test_a_check_of_a_cluster_judges_all_other_objects(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, faulty: Any
) -> None:
    faulty("webhook.cli.check_cluster.judge")
    jobs = [stored({**manifest(job_spec(backoffLimit=9)), "metadata": {"name": name}}) for name in ("bad", "good")]
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    spaces = [namespace_of("ml", profile="default")]
    found: Any = {crds: [], NAMESPACES: spaces, CONFIG_MAPS: [], JOBS: jobs}
    done = run(monkeypatch, Connected(found), tmp_path, "check", "--cluster")
    assert_names(done)
    assert "ml/job/good" in done.stdout


def files(folder: Path) -> str:
    roots = [{**manifest(job_spec(backoffLimit=25)), "metadata": {"name": name, "namespace": "ml"}} for name in NAMES]
    (folder / "jobs.yaml").write_text("\n---\n".join(map(json.dumps, roots)))
    return str(folder / "jobs.yaml")


@pytest.mark.parametrize("form", ["text", "json", "sarif", "junit", "github"])
def test_a_check_judges_all_other_objects(tmp_path: Path, faulty: Any, form: str) -> None:
    faulty("webhook.cli.admission.admit")
    done = CliRunner().invoke(main, ["check", "-f", files(tmp_path), "-o", form], catch_exceptions=False)
    assert_names(done)
    assert "ml/job/good" in done.stdout


@pytest.mark.parametrize("form", ["yaml", "json", "diff"])
def test_what_admission_left_half_done_is_not_rendered(
    tmp_path: Path, faulty: Any, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    faulty("webhook.admission.engine.validate")  # after the mutation
    file = tmp_path / "jobs.yaml"
    roots = [{**manifest(job_spec()), "metadata": {"name": name, "namespace": "ml"}} for name in NAMES]
    file.write_text("\n---\n".join(map(json.dumps, roots)))
    done = CliRunner().invoke(main, ["render", "-f", str(file), "-o", form], catch_exceptions=False)
    assert_names(done)
    assert "bad" not in done.stdout
    assert "podFailurePolicy" in done.stdout


def test_an_object_is_named_whatever_its_name_is() -> None:
    roots: list[Any] = [{}, {"metadata": []}, {"metadata": {"name": []}}, None]
    for root in roots:
        assert name_of("Job", root) == "Job without a name"
    assert name_of("Node", {"metadata": {"name": "a", "namespace": 5}}) == "Node a"
    assert name_of("Pod", lambda: {"metadata": {"name": "a", "namespace": "ml"}}) == "Pod ml/a"


def test_an_error_that_is_not_about_the_object_is_raised() -> None:
    lines: list[str] = []
    left_out = LeftOut(lines.append)
    for error in (BrokenPipeError(), ApiError(500, "etcd is down")):
        with pytest.raises(type(error)), left_out.around("Job", {}, (ApiError,)):
            raise error
    with left_out.around("Job", {}):
        raise UnfitError("its account cannot be read: x; a new one starts")
    with left_out.around("Job", {}):
        raise ValueError("x" * 100_000)
    assert left_out.number == 2
    assert lines[0] == "Job without a name is left out: its account cannot be read: x; a new one starts"
    assert len(lines[1]) < 2 * LONGEST
