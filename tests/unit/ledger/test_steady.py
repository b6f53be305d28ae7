"""The leader waits with the account of a workload whose controller bears no write now. All times are virtual."""

import asyncio

from tests.unit.ledger.leader import FakeApi, leading, new_ledger, stored_pod
from tests.unit.ledger.test_elsewhere import see_root
from tests.virtual_time import run
from webhook.kinds.spark import SPARK_APPLICATION
from webhook.ledger.controller import UNTIL_STEADY
from webhook.ledger.model import pods
from webhook.objects.problem import Json

PATH = "/apis/sparkoperator.k8s.io/v1beta2/namespaces/ml/sparkapplications/etl"
LABELS = {
    "sparkoperator.k8s.io/app-name": "etl",
    "sparkoperator.k8s.io/launched-by-spark-operator": "true",
    "spark-role": "driver",
}


def application(state: str) -> Json:
    metadata = {"namespace": "ml", "name": "etl", "uid": "app-uid", "resourceVersion": "7", "annotations": {}}
    return {"metadata": metadata, "spec": {}, "status": {"applicationState": {"state": state}}}


def test_an_account_waits_until_the_operator_has_submitted_and_is_then_written_only_in_that_state() -> None:
    api = FakeApi()
    api.objects[PATH] = application("PENDING_RERUN")

    async def work() -> None:
        ledger = new_ledger(api)
        async with leading(ledger):
            see_root(ledger, SPARK_APPLICATION, application(""))
            driver = stored_pod(1, "Failed", 1, finalizers=[], labels=LABELS, ownerReferences=[])
            ledger.trackers.see_pod(pods.read(driver))
            await asyncio.sleep(3 * UNTIL_STEADY)
            assert api.writes == []
            api.objects[PATH] = application("RUNNING")
            await asyncio.sleep(UNTIL_STEADY + 1)

    run(work())
    (write,) = api.writes
    assert write.operations[0] == {"op": "test", "path": "/status/applicationState/state", "value": "RUNNING"}
    assert "ledger" in write.operations[-1]["path"]
