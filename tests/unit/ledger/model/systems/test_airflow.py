"""What the end of a pod of Airflow costs: each is a try, and how many there may be nobody says."""

import pytest

from webhook.ledger.model import counting
from webhook.ledger.model.account import Account
from webhook.ledger.model.counted import PodsOfSystem
from webhook.ledger.model.pods import Condition, Pod
from webhook.ledger.model.systems import airflow
from webhook.objects.problem import Json
from webhook.policy.model import Profile
from webhook.policy.settings import NamedProfile

ROOT: Json = {"metadata": {"namespace": "ml", "name": "etl.one", "uid": "etl.one"}, "spec": {}, "status": {}}
SETTINGS = NamedProfile("default", Profile()).settings({})
EVICTED = (Condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "2026-01-01T00:00:00Z"),)


def pod(number: int, conditions: tuple[Condition, ...] = ()) -> Pod:
    return Pod(
        namespace="ml",
        name=f"load-{number}",
        uid=f"uid-{number}",
        job="etl.one",
        job_uid="etl.one",
        group=airflow.DAG_RUN.row.group,
        kind=airflow.DAG_RUN.row.kind,
        scope="load",
        max_retries=1,
        phase="Failed",
        reason="Error",
        conditions=conditions,
    )


@pytest.mark.parametrize("conditions", [(), EVICTED], ids=["failed", "evicted"])
def test_each_pod_that_ends_without_success_is_a_try_and_none_is_known_to_be_the_last(
    conditions: tuple[Condition, ...],
) -> None:
    account = Account()
    details = [
        counting.count(account, pod(number, conditions), PodsOfSystem(airflow.DAG_RUN, ROOT, SETTINGS))
        for number in range(4)
    ]
    assert [detail.cost for detail in details] == ["retry"] * 4
    assert account.retries_of("load") == 4


def test_nothing_outside_ends_a_run() -> None:
    assert not airflow.DAG_RUN.has_ended(ROOT)
    assert airflow.DAG_RUN.fail(ROOT, pod(0), "Reason", "message") is None
    assert airflow.DAG_RUN.suspend(ROOT) is None
