"""Which stored objects are judged, under which profile, and what it reports about lists that it cannot read."""

import asyncio
from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any, Final, cast

from tests.objects import cron_job, job, job_spec, pod
from webhook.cli.check_cluster import ClusterCheck, ClusterScope
from webhook.cli.policy_file import stored_policy
from webhook.kube import names
from webhook.kube.client import Api, ApiError
from webhook.objects import columns
from webhook.objects.problem import Json
from webhook.policy.model import Policy
from webhook.policy.parse import parse
from webhook.systems.kinds import KINDS

CONFIG_MAPS = "/api/v1/namespaces/retry-policy-system/configmaps"
GREEDY = job_spec(backoffLimit=9)


class Lists:
    """An API with lists alone: for each path the objects or an error; 404 for a path without either."""

    def __init__(self, lists: dict[str, list[Json] | ApiError]) -> None:
        self.lists = lists
        self.asked: list[tuple[str, str]] = []

    async def objects(self, path: str, query: dict[str, str], *_: Any, **__: Any) -> AsyncIterator[Json]:
        self.asked.append((path, ",".join(query.values())))
        found = self.lists.get(path, ApiError(404, "not found"))
        if isinstance(found, ApiError):
            raise found
        for one in found:
            yield one


PROFILES: Final = "{default: {}, strict: {retries: {limit: 2}}}"


def policy(text: str = f"{{apiVersion: retry-policy.dev/v1alpha1, kind: RetryPolicy, profiles: {PROFILES}}}") -> Policy:
    found = parse(text)
    assert isinstance(found, Policy)
    return found


def namespace_of(name: str, **labels: str) -> Json:
    return {"metadata": {"name": name, "labels": {f"retry-policy.dev/{key}": text for key, text in labels.items()}}}


def stored(root: Json, namespace: str = "ml", owner: tuple[str, str, str] | None = None, **metadata: Any) -> Json:
    """Return an object as it is in a list of its kind: without apiVersion and kind."""
    found = {**root["metadata"], "namespace": namespace, "uid": f"uid-of-{root['metadata'].get('name')}", **metadata}
    if owner is not None:
        api_version, kind, name = owner
        reference = {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-of-{name}"}
        found["ownerReferences"] = [{**reference, "controller": True}]
    return {"metadata": found, "spec": deepcopy(root["spec"])}


def checked(scope: ClusterScope | None = None, **lists: list[Json] | ApiError) -> ClusterCheck:
    paths = {"/api/v1/namespaces": lists.pop("namespaces", [namespace_of("ml", profile="default")])}
    paths["/apis/apiextensions.k8s.io/v1/customresourcedefinitions"] = lists.pop("crds", [])
    within = f"/namespaces/{scope.namespace}" if scope is not None and scope.namespace else ""
    for row in KINDS.values():
        if row.resource in lists and row.group != "batch.volcano.sh":
            paths[row.path().replace(f"/{row.resource}", f"{within}/{row.resource}")] = lists[row.resource]
    done = ClusterCheck(cast("Api", Lists(paths)), policy(), scope or ClusterScope())
    asyncio.run(done.run())
    return done


def rows(done: ClusterCheck) -> list[str]:
    return [" ".join(line.split()[:2]) for line in columns.lines(done.report.parts()) if line[:1].isupper()][1:]


def test_an_object_is_judged_under_the_profile_of_its_namespace() -> None:
    spaces = [namespace_of("ml", profile="default"), namespace_of("web", profile="strict")]
    jobs = [stored(job(GREEDY), "ml"), stored(job(GREEDY), "web"), stored(job(GREEDY), "kube-system")]
    assert rows(checked(namespaces=spaces, jobs=jobs)) == ["DENIED web/job/train", "CHANGED ml/job/train"]


def test_the_mode_of_a_namespace_makes_no_difference() -> None:
    for mode in ("Warn", "Audit", "Enforce"):
        done = checked(namespaces=[namespace_of("ml", profile="strict", mode=mode)], jobs=[stored(job(GREEDY))])
        assert rows(done) == ["DENIED ml/job/train"]


def test_a_profile_that_is_named_applies_to_all_namespaces() -> None:
    done = checked(ClusterScope(profile="strict"), jobs=[stored(job(GREEDY))])
    assert rows(done) == ["DENIED ml/job/train"]


def test_a_namespace_without_opt_in_is_judged_with_a_warning_if_it_is_named() -> None:
    done = checked(ClusterScope("ml"), namespaces=[namespace_of("ml")], jobs=[stored(job(GREEDY))])
    assert rows(done) == ["CHANGED ml/job/train"]
    assert done.warnings == ["not opted in, judged under profile 'default': ml"]


def test_a_namespace_without_opt_in_needs_a_named_profile_if_the_policy_has_several_and_no_default() -> None:
    named = "{apiVersion: retry-policy.dev/v1alpha1, kind: RetryPolicy, profiles: {lax: {}, strict: {}}}"
    api = cast("Api", Lists({"/api/v1/namespaces": [namespace_of("ml")]}))
    done = ClusterCheck(api, policy(named), ClusterScope("ml"))
    asyncio.run(done.profiles())
    assert done.unread == [
        "not opted in, name a profile for them with --profile: ml",
    ]


def test_a_namespace_with_a_wrong_label_gives_a_warning() -> None:
    spaces = [namespace_of("ml", profile="strikt"), namespace_of("web", profile="strict", mode="enforce")]
    done = checked(namespaces=spaces, jobs=[stored(job(GREEDY))])
    assert rows(done) == []
    assert [line.partition(": ")[0] for line in done.warnings] == ["namespace ml", "namespace web"]
    assert "label it strict" in done.warnings[0]


def test_without_namespaces_to_judge_a_message_says_what_to_do() -> None:
    assert checked(namespaces=[]).warnings == [
        "no namespace is opted in; choose one with -n NAMESPACE, or all with -A",
    ]
    assert checked(ClusterScope("ml"), namespaces=[]).unread == [
        "there is no namespace ml; list them: kubectl get namespaces",
    ]


def test_with_a_named_profile_the_right_to_read_namespaces_is_not_needed() -> None:
    scope = ClusterScope("ml", profile="default")
    done = checked(scope, namespaces=ApiError(403, "forbidden"), jobs=[stored(job(GREEDY))])
    assert rows(done) == ["CHANGED ml/job/train"]


def test_a_job_is_not_reported_if_its_cron_job_has_the_same_verdict() -> None:
    owner = ("batch/v1", "CronJob", "nightly")
    greedy = job_spec(backoffLimit=25)
    child = stored(job(greedy), owner=owner, name="nightly-1")
    assert rows(checked(jobs=[child], cronjobs=[stored(cron_job(greedy))])) == ["DENIED ml/cronjob/nightly"]
    changed = stored(job(GREEDY), owner=owner, name="nightly-1")
    assert rows(checked(jobs=[changed], cronjobs=[stored(cron_job(GREEDY))])) == ["CHANGED ml/cronjob/nightly"]


def test_a_controlled_object_is_reported_if_only_it_would_be_denied() -> None:
    child = stored(job(job_spec(backoffLimit=25)), owner=("batch/v1", "CronJob", "nightly"), name="nightly-1")
    done = checked(jobs=[child], cronjobs=[stored(cron_job(GREEDY))])
    assert rows(done) == ["DENIED ml/job/nightly-1", "CHANGED ml/cronjob/nightly"]


def test_a_job_of_an_unknown_controller_is_reported() -> None:
    child = stored(job(GREEDY), owner=("k6.io/v1", "TestRun", "load"))
    assert rows(checked(jobs=[child])) == ["CHANGED ml/job/train"]


def test_only_pods_without_a_controller_are_reported() -> None:
    wrong = {names.ATTEMPT: "first"}
    owned = stored(pod(annotations=wrong), name="of-job")
    alone = stored(pod(owner=None, annotations=wrong), name="alone")
    assert rows(checked(pods=[owned, alone])) == ["DENIED ml/pod/alone"]


def test_an_object_that_is_being_deleted_is_left_out() -> None:
    done = checked(jobs=[stored(job(GREEDY), deletionTimestamp="2026-01-01T00:00:00Z")])
    assert done.report.numbers.total() == 0


def test_a_cluster_scoped_template_is_judged_if_it_has_the_profile_label() -> None:
    steps = [{"name": "main", "retryStrategy": {"limit": 25}, "container": {}}]
    template = {"metadata": {"name": "build", "uid": "u"}, "spec": {"templates": steps}}
    labelled = {
        "metadata": {"name": "test", "uid": "v", "labels": {names.PROFILE: "default"}},
        "spec": template["spec"],
    }
    assert rows(checked(clusterworkflowtemplates=[template, labelled])) == ["DENIED clusterworkflowtemplate/test"]


def test_a_list_that_is_forbidden_is_named_and_the_others_are_read() -> None:
    done = checked(jobs=ApiError(403, "jobs.batch is forbidden"), cronjobs=[stored(cron_job(GREEDY))])
    assert done.unread == ["jobs.batch cannot be listed: 403 jobs.batch is forbidden"]
    assert rows(done) == ["CHANGED ml/cronjob/nightly"]


def test_crds_that_are_forbidden_are_named() -> None:
    done = checked(crds=ApiError(403, "forbidden"), jobs=[])
    assert done.unread == [
        "the CRD of jobsets cannot be read: 403 forbidden",
        "the CRD of trainjobs cannot be read: 403 forbidden",
    ]


def test_the_policy_in_the_cluster_is_read_with_only_the_right_to_list() -> None:
    api = Lists({CONFIG_MAPS: [{"data": {"policy.yaml": "profiles: {}"}}]})
    assert asyncio.run(stored_policy(cast("Api", api))) == "profiles: {}"
    assert api.asked == [(CONFIG_MAPS, "metadata.name=retry-policy")]
    assert asyncio.run(stored_policy(cast("Api", Lists({CONFIG_MAPS: []})))) is None
