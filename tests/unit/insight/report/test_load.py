"""What a report reads from the API, and what it does without the rights to read it."""

import asyncio
from typing import Any, cast

import pytest

from tests.accounts import stored
from tests.unit.cli.test_check_cluster_lists import Lists
from tests.unit.insight.report.test_live import child, job, job_set, pod
from webhook.accounts.account import Account
from webhook.insight.report.load import Loaded, Loader, NothingReadError, ReportScope
from webhook.kube.client import Api, ApiError
from webhook.objects.problem import Json
from webhook.systems.account_object import ACCOUNT
from webhook.systems.accounts import WITHOUT_JOBS
from webhook.systems.argo import spec as argo

FORBIDDEN = ApiError(403, "jobs is forbidden")
OTHERS = [ACCOUNT, *WITHOUT_JOBS]
PATHS = {
    "jobs": "/apis/batch/v1{}/jobs",
    "sets": "/apis/jobset.x-k8s.io/v1alpha2{}/jobsets",
    "pods": "/api/v1{}/pods",
    "nodes": "/api/v1/nodes",
    "accounts": "/apis/retry-policy.dev/v1alpha1{}/accounts",
}


def loaded(scope: ReportScope | None = None, **lists: list[Json] | ApiError) -> tuple[Loaded, list[tuple[str, str]]]:
    scope = scope or ReportScope()
    within = f"/namespaces/{scope.namespace}" if scope.namespace else ""
    api = Lists({path.format(within): lists.get(name, []) for name, path in PATHS.items()})
    if "sets" not in lists:
        del api.lists[PATHS["sets"].format(within)]  # JobSet is not installed
    found = asyncio.run(Loader(cast("Api", api), scope, lambda _: None).load())
    return found, api.asked


def names_of(found: list[Any]) -> list[str]:
    return [one["metadata"]["name"] for one in found]


def test_jobs_job_sets_their_pods_and_the_nodes_are_read() -> None:
    found, asked = loaded(
        jobs=[job()], sets=[job_set()], pods=[pod("a", "Running")], nodes=[{"metadata": {"name": "n"}}]
    )
    assert (names_of(found.jobs), names_of(found.job_sets), names_of(found.nodes)) == (["train"], ["set"], ["n"])
    assert [one.name for one in found.pods] == ["a"]
    assert found.notes == []
    others = {PATHS["nodes"], *(row.path() for row in OTHERS)}
    assert {selector for path, selector in asked if path not in others} == {"retry-policy.dev/profile"}


def test_the_scope_is_asked_for_and_not_filtered_afterwards() -> None:
    _, asked = loaded(ReportScope("ml", "strict", "team=x"))
    profile = "retry-policy.dev/profile=strict"
    assert asked == [
        ("/apis/jobset.x-k8s.io/v1alpha2/namespaces/ml/jobsets", f"{profile},team=x"),
        ("/apis/batch/v1/namespaces/ml/jobs", f"{profile},team=x"),
        ("/api/v1/namespaces/ml/pods", profile),
        *((row.path("ml"), "" if row is ACCOUNT else "team=x") for row in OTHERS),
        ("/api/v1/nodes", ""),
    ]


def test_the_jobs_of_a_selected_job_set_are_read_although_they_lack_its_labels() -> None:
    _, asked = loaded(ReportScope(selector="team=x"), sets=[job_set()], jobs=[child()])
    assert ("/apis/batch/v1/jobs", "retry-policy.dev/profile,jobset.sigs.k8s.io/jobset-name") in asked


@pytest.mark.parametrize("missing", ["sets", "pods", "nodes", "accounts"])
def test_a_right_that_the_user_lacks_is_a_note(missing: str) -> None:
    lists: dict[str, Any] = {"jobs": [job()], "sets": [], "pods": [], "nodes": [], missing: FORBIDDEN}
    found, _ = loaded(**lists)
    (note,) = found.notes
    assert note.startswith(f"{'jobsets' if missing == 'sets' else missing} cannot be listed: ")
    assert note.endswith("(403 jobs is forbidden)")
    assert names_of(found.jobs) == ["train"]


@pytest.mark.parametrize(
    ("scope", "remedy"),
    [(ReportScope(), "name a namespace with -n"), (ReportScope("ml"), "ask for the right to list them")],
)
def test_without_the_right_to_list_jobs_there_is_no_report(scope: ReportScope, remedy: str) -> None:
    with pytest.raises(NothingReadError, match=remedy):
        loaded(scope, jobs=FORBIDDEN)


def test_an_api_that_fails_is_no_missing_right() -> None:
    with pytest.raises(ApiError):
        loaded(pods=ApiError(500, "etcd is down"))


def test_pods_that_no_job_controls_are_left_out_and_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.insight.report.load.MOST_PODS", 2)
    alone = pod("alone", "Running")
    alone["metadata"]["ownerReferences"] = []
    found, _ = loaded(pods=[alone, *(pod(f"p{number}", "Running") for number in range(3))])
    assert [one.name for one in found.pods] == ["p0", "p1"]
    assert found.notes == ["there are more than 2 pods: name a namespace with -n; others are missing"]


def test_of_other_kinds_the_workloads_with_an_account_or_pods_are_read() -> None:
    owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "new", "uid": "u", "controller": True}
    metadata = {"namespace": "ml", "uid": "u", "annotations": {}}
    api = Lists(
        {
            "/apis/batch/v1/jobs": [],
            "/api/v1/pods": [
                {**pod("a", "Running"), "metadata": {**metadata, "name": "a", "ownerReferences": [owner]}}
            ],
            "/apis/argoproj.io/v1alpha1/workflows": [
                {"metadata": {**metadata, "name": "new"}},
                {"metadata": {**metadata, "name": "counted", "uid": "v"}},
                {"metadata": {**metadata, "name": "not opted in", "uid": "w"}},
            ],
            PATHS["accounts"].format(""): [
                stored(argo.WORKFLOW, {"metadata": {"name": "counted", "uid": "v"}}, Account())
            ],
        }
    )
    found = asyncio.run(Loader(cast("Api", api), ReportScope(), lambda _: None).load())
    assert {row: names_of(some) for row, some in found.others.items()} == {argo.WORKFLOW: ["new", "counted"]}


def test_a_kind_without_pods_need_not_be_allowed_to_be_listed() -> None:
    api = Lists({"/apis/batch/v1/jobs": [], "/apis/argoproj.io/v1alpha1/workflows": FORBIDDEN})
    found = asyncio.run(Loader(cast("Api", api), ReportScope(), lambda _: None).load())
    assert found.others == {}
    assert [note for note in found.notes if "workflows" in note] == []
