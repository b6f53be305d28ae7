"""A JobSet whose pods are connected through a Service, and crash when one of them is lost; no pod needs DNS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.awaiting import until
from tests.cluster.conftest import opted_in
from tests.cluster.manifests import job_set
from tests.cluster.objects import account, condition, restarts
from tests.real_nodes.workloads import container, job
from webhook.systems.job_set.spec import REPLICATED_JOB

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object

RESTARTS = "jobset.sigs.k8s.io/restart-attempt"
LEADER = "coordinator"
PORT = 7000  # and the next one, one for each worker
# After the restart all succeed. What nc sends to its peer comes from file 3, which never ends.
BEGIN = 'test "$RESTARTS" = 0 || exit 0; mkfifo /tmp/sent; exec 3<>/tmp/sent'
LEADS = f"""{BEGIN}
nc -l -p {PORT} <&3 & first=$!
nc -l -p {PORT + 1} <&3 & second=$!
while kill -0 $first && kill -0 $second; do sleep 0.2; done
exit 1"""
# The worker that is evicted saves its state for some seconds, in which its peers crash.
WORKS = f"""{BEGIN}
trap 'kill $peer; sleep 4; exit 143' TERM
echo "worker $JOB_COMPLETION_INDEX" >&3
while :; do
  nc $COORDINATOR_SERVICE_HOST $(({PORT} + JOB_COMPLETION_INDEX)) <&3 & peer=$!
  wait $peer && exit 1
  sleep 0.2
done"""


def replicated(name: str, script: str, number: int) -> Object:
    """Return a replicated Job of this many pods."""
    field = {"fieldRef": {"fieldPath": f"metadata.labels['{RESTARTS}']"}}
    main = container(script, env=[{"name": "RESTARTS", "valueFrom": field}])
    of_pod = {"terminationGracePeriodSeconds": 10}
    spec = job(main, completions=number, parallelism=number, completionMode="Indexed", pod=of_pod)["spec"]
    return {"name": name, "template": {"spec": spec}}


def test_pods_that_crash_because_one_is_evicted_cost_the_job_set_none_of_its_restarts(namespace: NewNamespace) -> None:
    team = opted_in(namespace, "settle")
    ports = [{"name": f"worker-{number}", "port": PORT + number} for number in (0, 1)]
    service = {"selector": {REPLICATED_JOB: LEADER}, "ports": ports}
    # Before the JobSet: a container gets the address of each Service that exists when it starts.
    team.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": LEADER}, "spec": service})
    parts = replicated(LEADER, LEADS, 1), replicated("workers", WORKS, 2)
    team.create(job_set("llm", *parts, failurePolicy={"maxRestarts": 2}))
    pods = {(pod["metadata"]["labels"][REPLICATED_JOB]): pod for pod in team.pods_of_set("llm", 0, 3)}
    leader, worker = (pods[name]["metadata"]["name"] for name in (LEADER, "workers"))
    until(lambda: sorted(team.run("logs", leader).stdout.split()) == ["0", "1", "worker", "worker"])

    team.evict(worker)
    found = team.wait_for("jobsets", "llm", lambda one: condition(one, "Completed"))
    assert restarts(found) == (1, 0)
    costs = account(found)["cost"]
    assert costs.pop("disruption") == 1
    assert set(costs) == {"retry"}, costs  # of their Jobs, which the JobSet makes anew
