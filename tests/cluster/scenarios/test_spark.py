"""SparkApplications under Kubeflow's own spark-operator: what each end costs.

Spark itself does not run: a stand-in for spark-submit creates driver and executors (tests/cluster/spark_submit.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.conftest import opted_in
from tests.cluster.manifests import exits
from tests.cluster.objects import account, is_running, noted
from tests.cluster.test_ledger import explained

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace

pytestmark = pytest.mark.systems
EVICTED = "EvictionByEvictionAPI"


def application(*codes: int) -> Object:
    """Return an application whose driver ends with these exit codes, one for each run, and else runs on."""
    return {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": "etl"},
        "spec": {
            "type": "Python",
            "mode": "cluster",
            "sparkVersion": "4.0.0",
            "image": "spark",
            "mainApplicationFile": "local:///etl.py",
            "restartPolicy": {"type": "OnFailure", "onFailureRetries": 2, "onFailureRetryInterval": 1},
            "driver": {"cores": 1, "memory": "512m", "annotations": exits(*codes) if codes else {}},
            "executor": {"cores": 1, "memory": "512m", "instances": 1},
        },
    }


def state(found: Object) -> Any:
    return found.get("status", {}).get("applicationState", {}).get("state")


def running_pod(team: Namespace, role: str, *, but: tuple[Object, ...] = ()) -> Object:
    """Return a running driver or executor that is none of the known ones."""
    known = {pod["metadata"]["uid"] for pod in but}

    def chosen(pods: list[Object]) -> list[Object]:
        return [pod for pod in pods if is_running(pod) and pod["metadata"]["uid"] not in known]

    return chosen(team.wait_for_all("pods", chosen, selector=f"spark-role={role}"))[0]


def attempts(found: Object, role: str) -> list[tuple[str, str, str]]:
    """Return cause, reason and cost of the attempts of driver or executors in the account."""
    last = account(found).get("last", [])
    return [(one["cause"], one.get("reason", ""), one["cost"]) for one in last if one.get("scope") == role]


def counted(team: Namespace, role: str, number: int) -> Object:
    """Return the application once its account has this many ended pods of a role."""
    return team.wait_for("sparkapplications", "etl", lambda found: len(attempts(found, role)) >= number)


def test_a_bug_is_retried_to_the_last_because_nothing_outside_ends_an_application_as_failed(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace)
    team.create(application(1, 1, 1))
    team.wait_for("sparkapplications", "etl", lambda found: state(found) == "FAILED")
    found = counted(team, "driver", 3)
    assert found["status"]["executionAttempts"] == 3
    crash = ("ExitCode", "spark-kubernetes-driver 1")
    assert attempts(found, "driver") == [(*crash, "retry"), (*crash, "retry"), (*crash, "fatal")]


def test_the_last_attempt_of_a_driver_runs_on_demand(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(application(1, 1))
    team.wait_for("sparkapplications", "etl", lambda found: found.get("status", {}).get("executionAttempts") == 3)
    assert noted(running_pod(team, "driver")) == {
        "placement": "OnDemand",
        "attempt": "2",
        "max-retries": "2",
        "attempt-source": "Spark",
    }


def test_a_preempted_driver_costs_a_retry_because_the_operator_counts_every_end(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(application())
    first = running_pod(team, "driver")
    team.wait_for("sparkapplications", "etl", lambda found: state(found) == "RUNNING")
    team.evict(first["metadata"]["name"])
    second = running_pod(team, "driver", but=(first,))
    assert noted(second)["attempt"] == "1"
    assert attempts(counted(team, "driver", 1), "driver") == [("Disruption", EVICTED, "retry")]
    explanation = explained(team, "sparkapplication/etl")
    assert explanation["budgets"] == ["role driver: 1 of 2 retries spent"]
    drivers = [row for row in explanation["rows"] if row["unit"] == "driver"]
    assert [(row["attempt"], row["cost"]) for row in drivers] == [(0, "retry"), (1, "")]


def test_a_preempted_executor_costs_nothing_of_the_application(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(application())
    executor = running_pod(team, "executor")
    assert executor["metadata"]["annotations"]["retry-policy.dev/attempt-source"] == "Spark"
    team.evict(executor["metadata"]["name"])
    found = counted(team, "executor", 1)
    assert attempts(found, "executor") == [("Disruption", EVICTED, "free")]
    assert (state(found), found["status"]["executionAttempts"]) == ("RUNNING", 1)
