"""What a report knows of a live cluster: accounts of what is gone, and the pods that exist, each counted once."""

from typing import Any

import msgspec
import pytest

from tests.accounts import held, holding
from tests.unit.insight.report.facts import GIB, HOUR, MONDAY, at, reported
from webhook.accounts.account import Account, Attempt, Left, id_of
from webhook.history.usage import UsedRow
from webhook.insight.report import live, sums
from webhook.insight.report.known import Known, Price, Window
from webhook.insight.report.live import PricedNode, nodes_of
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.pods.pods import read
from webhook.policy.model import Prices, Rate, RateMatch
from webhook.systems.argo import spec as argo
from webhook.systems.argo.spec import NODE_NAME
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET

NODES = {"spot-1": PricedNode("z1", "Spot", {}), "od-1": PricedNode("z2", "OnDemand", {})}
PRICES = Prices(
    currency="USD",
    rates=(Rate(match=RateMatch(capacity="Spot"), per_hour={"cpu": 0.25}), Rate(per_hour={"cpu": 1.0})),
)
ALL = Window()


def job(name: str = "train", account: Account | None = None, **fields: Any) -> Json:
    metadata = {"namespace": "ml", "name": name, "uid": f"uid-of-{name}", "labels": {names.PROFILE: "default"}}
    spec = {"backoffLimit": 3, **fields.pop("spec", {})}
    root = {"metadata": {**metadata, "annotations": {}, "creationTimestamp": at(0)}, "spec": spec}
    root["metadata"] |= fields.pop("metadata", {})
    return holding(fields.pop("row", batch.JOB), {**root, "status": {}, **fields}, account)


def pod(
    name: str, phase: str, *, of: str = "train", end: float = 2.0, code: int = 0, node: str = "spot-1", **more: Any
) -> Json:
    """Return a pod with one core that ran for an hour."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": of, "uid": f"uid-of-{of}", "controller": True}
    status: Json = {"phase": phase, "startTime": at(end - 1)}
    if phase != "Running":
        terminated = {"exitCode": code, "finishedAt": at(end)}
        status["containerStatuses"] = [{"name": "main", "state": {"terminated": terminated}}]
    return {
        "metadata": {"namespace": "ml", "name": name, "uid": f"uid-of-{name}", "ownerReferences": [owner], **more},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}],
        },
        "status": status,
    }


def detail(name: str, cause: str = "ExitCode", **fields: Any) -> Attempt:
    known: dict[str, Any] = {"attempt": 0, "pod": name, "node": "spot-1", "start": at(1), "end": at(2), "cost": "retry"}
    return Attempt(**{**known, "cause": cause, **fields})


def known_of(
    root: Json, *pods: Json, window: Window = ALL, job_sets: tuple[Json, ...] = (), prices: Prices | None = PRICES
) -> tuple[Known, list[str]]:
    accounts = held(root, *job_sets)
    (workload,) = live.grouped([root], job_sets, [read(one) for one in pods], accounts=accounts)
    return live.known_of(workload, NODES, window, sums.row_by_policy(prices))


def report_of(root: Json, *pods: Json, **options: Any) -> Any:
    known, _ = known_of(root, *pods, **options)
    return reported(known, price_of=sums.by_policy(PRICES))


def test_pods_that_succeeded_run_or_failed_uncounted_are_counted_from_the_pods() -> None:
    fails = [{"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [143]}}]
    made = report_of(
        job(spec={"podFailurePolicy": {"rules": fails}}),
        pod("ok", "Succeeded"),
        pod("bad", "Failed", code=1),
        pod("runs", "Running", end=24),
    )
    assert (made.total.used.attempts, made.total.used.seconds) == (3, 3 * HOUR)
    assert (made.total.spot.attempts, made.total.used.price) == (3, 0.75)
    assert made.total.causes == {"Succeeded": 1, "ExitCode": 1}
    rows = {one.pod: one for one in made.workloads[0].attempts}
    assert (rows["bad"].cause, rows["bad"].cost, rows["bad"].rule) == (
        "ExitCode",
        "fatal",
        "podFailurePolicy rule 0: FailJob",
    )
    assert (rows["runs"].cause, rows["ok"].zone) == (None, "z1")
    assert made.workloads[0].state == "Running"


def account_of_five() -> Account:
    """Return an account that has counted five pods, of which it has details of one and resource-seconds of four."""
    row = UsedRow(4, 4 * HOUR, 4, 1.0, [4 * HOUR, 8 * HOUR])
    return Account(
        ended=5,
        causes={"ExitCode": {"main 143": 5}},
        cost={"retry": 5},
        last=[detail("gone", left=Left(retries=0, disruptions=1), rule=1, action="Ignore")],
        resources=["cpu", "memory"],
        currency="USD",
        lost={"ExitCode": {"Spot": row}},
    )


def test_what_an_account_has_counted_is_taken_from_its_sums_and_its_details_are_listed() -> None:
    made = report_of(job(account=account_of_five()))
    assert (made.total.lost.attempts, made.total.lost.seconds, made.total.lost.price) == (5, 4 * HOUR, 1.0)
    assert made.total.lost.resources == {"cpu": 4 * HOUR, "memory": 8 * HOUR}
    assert (made.total.spot.attempts, made.total.lost_to["Bugs"].attempts) == (4, 5)
    (row,) = made.workloads
    assert [(one.pod, one.rule, one.retries_left) for one in row.attempts] == [
        ("gone", "podFailurePolicy rule 1: Ignore", 0)
    ]
    assert (row.attempts_not_listed, row.retries_left, made.near_limit) == (4, 0, ["uid-of-train"])


@pytest.mark.parametrize("how", ["by its detail", "by its id", "by its annotation"])
def test_a_pod_that_exists_and_is_counted_already_is_not_counted_again(how: str) -> None:
    account = account_of_five()
    marks: dict[str, Any] = {}
    existing = pod("gone", "Failed", code=143)
    if how != "by its detail":
        account.last = []
    if how == "by its id":
        account.recent = [id_of(read(existing))]
    if how == "by its annotation":
        marks = {"annotations": {names.COUNTED: "2026-01-01T00:00:00Z proof"}}
    made = report_of(job(account=account), pod("gone", "Failed", code=143, **marks))
    assert made.total.lost.attempts == 5
    assert [one.pod for one in made.workloads[0].attempts] == ["gone"]


def test_disruptions_without_capacity_are_told_from_the_others_by_their_reasons() -> None:
    account = Account(
        ended=5,
        causes={"Disruption": {"PreemptionByScheduler": 2, "SpotUnavailable": 2}, "NeverStarted": {"ErrImagePull": 1}},
        resources=["cpu"],
        lost={
            "Disruption": {"Spot": UsedRow(2, 2 * HOUR, 0, 0.0, [2 * HOUR]), "": UsedRow(2)},
            "NeverStarted": {"Spot": UsedRow(1, HOUR, 0, 0.0, [HOUR])},
        },
    )
    total = report_of(job(account=account)).total
    assert {loss: (one.attempts, one.seconds) for loss, one in total.lost_to.items()} == {
        "Bugs": (0, 0.0),
        "Disruptions": (2, 2 * HOUR),
        "Capacity": (2, 0.0),
        "NeverStarted": (1, HOUR),
        "Other": (0, 0.0),
    }
    assert (total.used.attempts, total.causes) == (5, {"Disruption": 4, "NeverStarted": 1})


def test_an_account_from_before_resource_seconds_counts_its_attempts_without_usage() -> None:
    total = report_of(job(account=Account(ended=2, causes={"OOMKilled": {"main": 2}}))).total
    assert (total.lost.attempts, total.lost.seconds, total.lost.price) == (2, 0.0, 0.0)


def test_what_unused_retries_would_have_used_is_taken_from_the_account() -> None:
    account = Account(
        resources=["cpu"], currency="USD", saved={"ExitCode": {"Spot": UsedRow(3, 3 * HOUR, 3, 0.75, [3 * HOUR])}}
    )
    saved = report_of(job(account=account)).total.saved_retries
    assert (saved.attempts, saved.seconds, saved.price) == (3, 3 * HOUR, 0.75)


@pytest.mark.parametrize(
    ("row", "currency", "prices", "price"),
    [
        (UsedRow(2, HOUR, 2, 0.5, [HOUR]), "USD", PRICES, Price(0.5, 1.0)),
        (UsedRow(2, HOUR, 1, 0.3, [HOUR]), "USD", PRICES, Price(0.25, 1.0)),  # not all have one: by today's prices
        (UsedRow(2, HOUR, 2, 0.5, [HOUR]), "EUR", PRICES, Price(0.25, 1.0)),  # in another currency
        (UsedRow(2, HOUR, 2, 0.5, [HOUR]), "USD", None, Price(None, None)),
        (UsedRow(2, 0.0, 0, 0.0, []), "", None, Price(0.0, 0.0)),  # none of them ran
    ],
)
def test_the_price_of_sums_is_the_one_of_their_time_or_else_that_of_today(
    row: UsedRow, currency: str, prices: Prices | None, price: Price
) -> None:
    assert sums.row_by_policy(prices)(row, "Spot", ["cpu"], currency) == price


def test_with_a_window_only_attempts_whose_times_are_known_count_and_a_note_says_so() -> None:
    window = Window(MONDAY.timestamp(), MONDAY.timestamp() + 5 * HOUR)
    known, notes = known_of(
        job(account=account_of_five()), pod("ok", "Succeeded", end=3), pod("late", "Succeeded", end=6), window=window
    )
    assert sorted(one.pod for one in known.attempts) == ["gone", "ok"]
    assert (known.counted, known.told, notes) == ([], [], [live.TOTALS])
    assert live.is_in(known, window)
    assert not live.is_in(known_of(job(), window=window)[0], window)


def test_in_a_window_a_pod_that_is_gone_costs_what_another_pod_of_its_workload_would() -> None:
    made = report_of(job(account=account_of_five()), pod("ok", "Succeeded", end=3), window=Window(MONDAY.timestamp()))
    assert (made.total.used.attempts, made.total.lost.resources["cpu"], made.total.lost.price) == (2, HOUR, 0.25)
    assert made.notes == []


def test_a_pod_of_which_no_other_exists_requested_what_the_template_of_its_job_says() -> None:
    template = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}}
    made = report_of(job(account=account_of_five(), spec={"template": template}), window=Window(MONDAY.timestamp()))
    assert (made.total.lost.resources["cpu"], made.total.lost.price) == (HOUR, 0.25)


def test_in_a_window_a_pod_that_is_gone_has_no_price_if_nothing_says_what_it_requested() -> None:
    made = report_of(job(account=account_of_five()), window=Window(MONDAY.timestamp()))
    assert (made.total.lost.attempts, made.total.lost.seconds, made.total.lost.price) == (1, HOUR, None)
    assert [note.partition(":")[0] for note in made.notes] == [
        "the price of 1 attempt is not known; sums with them have no price"
    ]


def test_a_pod_of_a_job_set_that_is_gone_requested_what_the_pods_of_its_job_do() -> None:
    labels: dict[str, Any] = {"labels": {"jobset.sigs.k8s.io/jobset-name": "set"}}
    driver = pod("driver", "Succeeded", of="set-driver-0", **labels)
    driver["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "9"}
    worker = pod("worker", "Succeeded", of="set-workers-0", **labels)
    account = Account(ended=1, last=[detail("gone", scope="workers-0/1")])
    found = [read(driver), read(worker)]
    above = job_set(account=account)
    (workload,) = live.grouped([child("set-driver-0"), child()], [above], found, accounts=held(above))
    known, _ = live.known_of(workload, NODES, ALL, sums.row_by_policy(None))
    assert [one.resources["cpu"] for one in known.told] == [1.0]


def test_pods_that_run_are_in_a_window_without_an_end() -> None:
    runs = pod("runs", "Running", end=24)
    since = MONDAY.timestamp()
    assert [one.pod for one in known_of(job(), runs, window=Window(since))[0].attempts] == ["runs"]
    assert known_of(job(), runs, window=Window(since, since + HOUR))[0].attempts == []


def test_an_account_that_cannot_be_read_is_noted_and_the_pods_count() -> None:
    broken = holding(batch.JOB, job(), {"attempts": "two"})
    known, notes = known_of(broken, pod("ok", "Succeeded"))
    assert [one.pod for one in known.attempts] == ["ok"]
    assert notes[0].startswith("the account of ml/train cannot be read: ")


@pytest.mark.parametrize(
    ("root", "state"),
    [
        (job(), "Running"),
        (job(spec={"suspend": True}), "Suspended"),
        (job(status={"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": at(3)}]}), "Complete"),
        (job(status={"conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": at(3)}]}), "Failed"),
    ],
)
def test_the_state_of_a_workload_is_that_of_its_conditions(root: Json, state: str) -> None:
    known, _ = known_of(root)
    assert (known.state, known.end) == (state, at(3) if state in {"Complete", "Failed"} else "")


def job_set(name: str = "set", account: Account | None = None) -> Json:
    return job(name, account, row=JOB_SET, spec={"failurePolicy": {"maxRestarts": 2}})


def child(name: str = "set-workers-0", of: str = "set") -> Json:
    owner = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "name": of,
        "uid": f"uid-of-{of}",
        "controller": True,
    }
    return job(name, metadata={"ownerReferences": [owner]})


def test_the_pods_of_a_job_sets_jobs_are_those_of_the_set_and_its_jobs_are_no_workloads() -> None:
    labels: dict[str, Any] = {"labels": {"jobset.sigs.k8s.io/jobset-name": "set"}}
    found = [read(pod("a", "Succeeded", of="set-workers-0", **labels)), read(pod("b", "Succeeded"))]
    workloads = live.grouped([child(), job()], [job_set()], found)
    assert [(one.root["kind"], [each.name for each in one.pods]) for one in workloads] == [
        ("JobSet", ["a"]),
        ("Job", ["b"]),
    ]
    known, _ = live.known_of(workloads[0], NODES, ALL, sums.row_by_policy(None))
    assert (known.kind, known.attempts[0].scope) == ("JobSet", "workers-0/")


def test_the_job_of_a_set_that_is_not_asked_for_is_left_out_with_its_pods() -> None:
    found = [read(pod("a", "Succeeded", of="set-workers-0"))]
    assert live.grouped([child()], [], found) == []


def test_the_owner_of_a_job_is_what_controls_it() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "1", "controller": True}
    assert known_of(job(metadata={"ownerReferences": [owner]}))[0].owner == "CronJob/nightly"


def node(name: str, provider_id: str = "", **labels: str) -> Json:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"providerID": provider_id}}


def test_nodes_are_spot_or_on_demand_by_their_labels_and_unknown_without_a_provider() -> None:
    gke = {"cloud.google.com/gke-spot": "true", "topology.kubernetes.io/zone": "z1"}
    found = nodes_of([node("spot", **gke), node("plain", "gce://project/zone/vm")], None)
    assert found == {"spot": PricedNode("z1", "Spot", {}), "plain": PricedNode("", "OnDemand", {})}
    assert nodes_of([node("plain")], None) == {"plain": PricedNode()}


def test_the_policy_says_which_labels_mark_its_own_spot_nodes_and_its_prices() -> None:
    from webhook.policy.parse import parse  # noqa: PLC0415 - one test needs it

    text = """
    apiVersion: retry-policy.dev/v1alpha1
    kind: RetryPolicy
    profiles: {default: {placement: {provider: custom, custom: {spotLabels: {cheap: ["yes"]}, tolerations: []}}}}
    prices: {currency: USD, rates: [{match: {nodeLabels: {size: large}}, perHour: {cpu: 1}}]}
    """
    policy = parse(text)
    assert not isinstance(policy, list)
    found = nodes_of([node("a", cheap="yes", size="large", other="x"), node("b")], policy)
    assert found == {"a": PricedNode("", "Spot", {"size": "large"}), "b": PricedNode("", "OnDemand", {})}


def test_a_pod_requests_what_the_scheduler_adds_up() -> None:
    known, _ = known_of(job(), pod("ok", "Succeeded"))
    assert known.attempts[0].resources == {"cpu": 1.0, "memory": 2.0 * GIB}
    assert msgspec.json.decode(msgspec.json.encode(known.attempts[0]))["workloadUid"] == "uid-of-train"


def workflow_of(*pods: Json, account: Account | None = None) -> Known:
    """Return what the report knows of the Workflow `train`, and of pods of its step `build`."""
    root = job(account=account, row=argo.WORKFLOW, metadata={"labels": {}})
    found = []
    for one in pods:
        owner = {"apiVersion": argo.WORKFLOW.api_version, "kind": "Workflow", "name": "train", "controller": True}
        one["metadata"]["ownerReferences"] = [{**owner, "uid": "uid-of-train"}]
        one["metadata"]["annotations"] = {NODE_NAME: "train.build(0)", names.MAX_RETRIES: "3"}
        found.append(read(one))
    (workload,) = live.grouped([], [], found, {argo.WORKFLOW: [{"metadata": root["metadata"]}]}, held(root))
    return live.known_of(workload, NODES, ALL, sums.row_by_policy(PRICES))[0]


def test_a_workload_of_another_kind_is_known_with_its_account_and_its_pods() -> None:
    account = Account()
    account.add(detail("earlier", reason="main 143", scope="build"))
    known = workflow_of(pod("a", "Running"), pod("b", "Failed", code=137), account=account)
    assert (known.kind, known.state, known.profile) == ("Workflow", "Unknown", "")
    assert [(one.pod, one.kind, one.scope, one.cause, one.cost) for one in known.attempts] == [
        ("a", "Workflow", "build", "Succeeded", ""),
        ("b", "Workflow", "build", "ExitCode", "disruption"),
    ]
    assert [(one.pod, one.scope) for one in known.told] == [("earlier", "build")]


def test_a_failed_pod_with_the_name_of_a_counted_one_is_another_attempt() -> None:
    account = Account()
    account.add(detail("a", reason="main 143", scope="build", end=at(1.5)))
    known = workflow_of(pod("a", "Failed", code=137), account=account)
    assert [(one.pod, one.reason) for one in known.attempts] == [("a", "main 137")]


def test_a_pod_of_an_earlier_workload_of_the_same_name_is_left_out() -> None:
    other = pod("a", "Running")
    owner = {"apiVersion": argo.WORKFLOW.api_version, "kind": "Workflow", "name": "train", "controller": True}
    other["metadata"]["ownerReferences"] = [{**owner, "uid": "earlier"}]
    (workload,) = live.grouped([], [], [read(other)], {argo.WORKFLOW: [{"metadata": job()["metadata"]}]})
    assert workload.pods == []
