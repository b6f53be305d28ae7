"""A few minutes in the life of a cluster: Jobs that fail, evictions, denials, a bad policy, a replica that is killed.

The parts that matter are real: the control plane, the replicas and Prometheus. KWOK simulates only the kubelets. Each
step waits until Prometheus has seen its effect.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

import yaml

from tests.admission import review_of
from tests.awaiting import LONGEST, until
from tests.cluster.disruptions import taint
from tests.cluster.kubectl import KubectlError
from tests.cluster.manifests import CANNOT_START, SECONDS, exits, job, pod
from tests.cluster.namespace import Api, Namespace
from tests.cluster.objects import condition
from tests.faults.installed import POLICY
from tests.faults.program import Program
from tests.faults.stage import new_stage
from tests.monitoring.alarms import impatient_rules
from tests.monitoring.prometheus import Prometheus
from webhook.kube import names
from webhook.policy.parse import KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kubectl import Object
    from tests.faults.stage import Replica, Stage

RATE = 30  # dry runs a second, besides the scenario
BURST = 15  # at the same time: the API server then has connections to every replica
UNAVAILABLE = 'retry_policy_admission_requests_total{result="unavailable"}'
NAMESPACES = {
    "ci": {names.PROFILE: "default"},
    "etl": {names.PROFILE: "nightly"},
    "ml": {names.PROFILE: "training"},
    "lab": {names.PROFILE: "default", names.MODE: "Warn"},
    "sim": {names.PROFILE: "careful"},
    "lost": {},
}
TOO_MANY = 25  # retries
CAREFUL = [
    {"match": {"exitCodes": [75]}, "next": {"delay": {"initial": "20s", "limit": "20s"}}},
    {"match": {"cause": "NeverStarted"}, "next": {"avoid": "Node"}},
]
MISSING = "CreateContainerConfigError,"  # in the first attempt
DENIED = {"ci": 3, "etl": 5, "ml": 8, "lab": 6}  # Jobs with too many retries
TOGETHER = 60  # reviews for the replica that is cut off


class Scenario:
    """The steps; `replicas` are those that run, and Prometheus scrapes each of them."""

    def __init__(self, stage: Stage, prometheus: Prometheus, stack: ExitStack) -> None:
        self.stage = stage
        self.prometheus = prometheus
        self.kubectl = stage.kubectl
        api = Api.connect(stage.admin)
        stack.callback(api.close)
        self.teams = {name: Namespace(self.kubectl.program, self.kubectl.kubeconfig, name, api) for name in NAMESPACES}
        self.replicas: list[Replica] = []
        own = stage.api.address.port
        self.relay = Program.start(stage.processes, "relay", own)  # to the API, for the last replica
        stack.callback(self.relay.close)
        self.relayed = stage.folder / "relayed.kubeconfig"
        self.relayed.write_text(stage.kubeconfig.read_text().replace(f":{own}", f":{self.relay.ask('port')}"))

    def prepare(self) -> None:
        """Store the policy, create the namespaces, and start three replicas."""
        self.stage.policy = {**self.stage.policy, "data": {KEY: policy_of(self.stage.policy["data"][KEY])}}
        self.stage.reset()
        self.start(), self.start()
        self.remote = self.start(relayed=True)
        for name, labels in NAMESPACES.items():
            self.kubectl.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
            self.teams[name].wait_for("serviceaccounts", "default", bool)
        self.stage.until_endpoints(*self.replicas)
        self.stage.until_effective()
        self.see(f"sum(retry_policy_ready) == {len(self.replicas)}")
        self.see("sum(retry_policy_ledger_leading) == 1")

    def run(self) -> tuple[float, float]:
        """Do all steps under load; return the times of begin and end."""
        begin = time.time()
        self.stage.load.ask("start", RATE, BURST)
        self.see('sum(rate(retry_policy_admission_requests_total{result="patched"}[10s])) > 1')
        strangers = self.silent_connections()
        self.run_jobs()
        self.deny()
        self.wait()
        self.disrupt()
        self.brake()
        self.request_retries()
        self.break_policy()
        self.cut_off()
        for stranger in strangers:
            stranger.close()
        self.kill_leader()
        self.stage.load.ask("stop")
        return begin, time.time()

    def run_jobs(self) -> None:
        """Run Jobs that succeed, that fail at once by a bug, and that succeed at their second attempt."""
        team = self.teams["ci"]
        for number in range(8):
            team.create(job(f"good-{number}", exits(0), backoffLimit=3))
        for number in range(4):
            team.create(job(f"bug-{number}", exits(1), backoffLimit=3))
            team.create(job(f"second-{number}", exits(143, 0), backoffLimit=3))
            team.create(job(f"slow-{number}", backoffLimit=3))
        for number in range(3):
            self.teams["etl"].create(job(f"nightly-{number}", backoffLimit=3))
            self.teams["ml"].create(job(f"train-{number}", backoffLimit=3))
        self.see('sum(retry_policy_ledger_attempts_total{cost="fatal"}) >= 4')
        self.see('sum(retry_policy_ledger_attempts_total{cost="retry"}) >= 4')

    def deny(self) -> None:
        """Create objects with mistakes: first one in each namespace, so that Prometheus sees the others as a rise."""
        for name in DENIED:
            self.create_with_too_many_retries(name, 0)
        self.see("sum(retry_policy_requests_denied_total) >= 3")
        for name, times in DENIED.items():
            for number in range(1, times):
                self.create_with_too_many_retries(name, number)
        for manifest in (cron_job("hourly"), pod("typo", {names.MAX_RETRIES: "many"})):
            with suppress(KubectlError):
                self.teams["ci"].create(manifest)
        self.see("sum(retry_policy_requests_denied_total) >= 16")
        self.see('sum(retry_policy_requests_not_enforced_total{would_be="denied"}) >= 6')

    def create_with_too_many_retries(self, name: str, number: int) -> None:
        """Create a Job that its namespace denies, unless the mode is Warn."""
        with suppress(KubectlError):
            self.teams[name].create(job(f"many-{number}", exits(0), backoffLimit=TOO_MANY))

    def wait(self) -> None:
        """Run Jobs with pods that wait: for the end of a delay, and for a container that cannot start at first."""
        for number in range(3):
            self.teams["sim"].create(job(f"busy-{number}", exits(75, 0), backoffLimit=3))
        self.teams["sim"].create(job("incomplete", {**exits(0), CANNOT_START: MISSING}, backoffLimit=3))
        self.see('max(retry_policy_waiting_pods{reason="Delay"}) >= 1')
        self.see('sum(retry_policy_waiting_pods_ended_total{reason="NeverStarted"}) >= 1')
        self.see('sum(retry_policy_ledger_on_failure_decisions_total{rule="0"}) >= 3')

    def disrupt(self) -> None:
        """Evict pods: a Job of profile nightly is suspended, one of training fails, others go on on demand."""
        for number in range(3):
            for name in (f"nightly-{number}", f"train-{number}"):
                team = self.teams["etl" if name.startswith("nightly") else "ml"]
                team.evict(team.running(name, 1)[0]["metadata"]["name"])
        self.see('sum(retry_policy_ledger_workloads_stopped_total{action="Suspended"}) == 3')
        self.see('sum(retry_policy_ledger_workloads_stopped_total{action="Failed"}) == 3')
        team = self.teams["ci"]
        firsts = [team.running(f"slow-{number}", 1)[0] for number in range(4)]
        for first in firsts:
            team.evict(first["metadata"]["name"])
        seconds = [team.running(f"slow-{number}", 1, but=first)[0] for number, first in enumerate(firsts)]
        for second in seconds[1:]:
            team.evict(second["metadata"]["name"])
        self.lose_node()
        self.see('sum(retry_policy_placements_total{placement="OnDemand"}) >= 3')
        self.see('sum(retry_policy_ledger_disruptions_total{reason="DeletionByTaintManager"}) >= 1')

    def lose_node(self) -> None:
        """Taint the node of a pod, as before maintenance."""
        team = self.teams["ci"]
        (running, *_) = team.running("slow-0", 1)
        taint(self.kubectl, running["spec"]["nodeName"])

    def brake(self) -> None:
        """Let the leader wait for its rate limit, and stop it for a while."""
        policy = yaml.safe_load(self.stage.policy["data"][KEY])
        self.put({**policy, "rateLimit": {"namespace": 1}})
        team = self.teams["ml"]
        for name in ("late-0", "late-1"):
            team.create(job(name, backoffLimit=3))
            team.evict(team.running(name, 1)[0]["metadata"]["name"])
        self.fires("RetryPolicyActionsDelayed")
        self.put({**policy, "emergency": {"actions": "Stop"}})
        self.see('max(retry_policy_emergency{stops="actions"}) == 1')
        self.fires("RetryPolicyEmergency")
        self.put(policy)
        self.see('max(retry_policy_emergency{stops="actions"}) == 0')

    def put(self, policy: Object) -> None:
        """Store a policy without problems."""
        data = {KEY: yaml.safe_dump(policy)}
        self.stage.api.edit(POLICY, [{"op": "replace", "path": "/data", "value": data}])

    def request_retries(self) -> None:
        """Request retries of Jobs that have failed."""
        for name in ("bug-0", "bug-1"):
            self.request_retry(name)
        self.see('sum(retry_policy_requested_retries_total{result="started"}) >= 1')

    def request_retry(self, name: str) -> None:
        """Request a retry of a Job that has failed, and that may run twice."""
        self.teams["ci"].wait_for("jobs", name, lambda found: condition(found, "Failed"))
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        for annotation in (f"{names.RETRYABLE}=true", f"{names.RETRY_REQUESTED_AT}={now}"):
            annotated = self.teams["ci"].run("annotate", f"job/{name}", annotation)
            assert annotated.returncode == 0, annotated.stderr

    def break_policy(self) -> None:
        """Store a bad policy, and label a namespace with a profile that no policy has; then correct the policy."""
        self.stage.delete_configurations()  # admission would deny both
        labelled = self.kubectl.run("label", "namespace", "lost", f"{names.PROFILE}=gone")
        assert labelled.returncode == 0, labelled.stderr
        bad = {KEY: self.stage.policy["data"][KEY].replace("limit: 10", "limit: 99")}
        self.stage.api.edit(POLICY, [{"op": "replace", "path": "/data", "value": bad}])
        self.stage.configure()
        self.see("max(retry_policy_policy_last_reload_good) == 0")
        self.stage.until_effective()
        self.teams["lost"].create(job("alone", exits(0), backoffLimit=3))
        self.see("sum(retry_policy_unknown_profile_requests_total) >= 1")
        self.fires("RetryPolicyReloadFailed", "RetryPolicyUnknownProfile")
        self.stage.api.edit(POLICY, [{"op": "replace", "path": "/data", "value": self.stage.policy["data"]}])
        self.see("min(retry_policy_policy_last_reload_good) == 1")

    def cut_off(self) -> None:
        """Cut one replica off from the API server for a while, so that it answers 503; send garbage to another one."""
        self.relay.ask("cut")
        for _ in range(3):
            before = self.prometheus.query(f"sum({UNAVAILABLE}) or vector(0)")[0]["value"][1]
            ask_together(self.remote, TOGETHER)
            self.see(f"sum({UNAVAILABLE}) >= {before} + {TOGETHER}")
        self.fires("RetryPolicyUnavailable")
        for _ in range(20):
            garbage(self.replicas[0])
        self.see('sum(retry_policy_admission_requests_total{result="bad"}) >= 20')
        self.relay.ask("mend")
        self.see("max(retry_policy_cache_age_seconds) == 0")

    def kill_leader(self) -> None:
        """Kill the leader, start another replica, and wait until there is a leader again."""
        (leader,) = self.prometheus.query("retry_policy_ledger_leading == 1")
        (victim,) = (one for one in self.replicas if one.pod == leader["metric"]["pod"])
        self.stop(victim)
        self.start()
        self.fires("RetryPolicyLedgerNotWritten")  # until the Lease of the leader expires
        self.see("sum(retry_policy_ledger_leading) == 1")
        self.see(f"sum(retry_policy_ready) == {len(self.replicas)}")
        begin = self.stage.load.ask("answered")
        until(lambda: self.stage.load.ask("answered") >= begin + 10 * RATE)

    def silent_connections(self) -> list[socket.socket]:
        """Open connections that send nothing."""
        return [socket.create_connection(("127.0.0.1", one.port)) for one in self.replicas for _ in range(8)]

    def start(self, *options: str, relayed: bool = False) -> Replica:
        """Start a replica, and scrape it."""
        replica = self.stage.start(*options, kubeconfig=self.relayed if relayed else None)
        self.replicas.append(replica)
        self.prometheus.scrape(self.replicas)
        return replica

    def stop(self, replica: Replica) -> None:
        """Kill a replica."""
        self.stage.remove(replica)
        self.replicas.remove(replica)
        self.prometheus.scrape(self.replicas)

    def see(self, expression: str) -> None:
        """Wait until a comparison of metrics is true."""
        try:
            self.prometheus.until(expression)
        except AssertionError as error:
            measured = re.split(" (?:==|>=|>) ", expression)[0]
            raise AssertionError(f"{expression}: {error}; it is {self.prometheus.query(measured)}") from None

    def fires(self, *alerts: str) -> None:
        """Wait until alerts fire."""
        for alert in alerts:
            self.see(f'count(ALERTS{{alertname="{alert}", alertstate="firing"}}) > 0')


def policy_of(text: str) -> str:
    """Return the shipped policy, with profiles that suspend, that fail after the first disruption, and with rules."""
    policy = yaml.safe_load(text)
    policy["profiles"]["nightly"] = {"disruptions": {"limit": 0, "onExceed": "Suspend"}}
    policy["profiles"]["training"] = {"retries": {"limit": 5}, "disruptions": {"limit": 0, "onExceed": "Fail"}}
    policy["profiles"]["careful"] = {"startTimeout": "5s", "onFailure": CAREFUL}
    return yaml.safe_dump(policy)


def cron_job(name: str) -> Object:
    """Return a CronJob with too many retries."""
    template = {"spec": job(name, {**exits(0), SECONDS: "1"}, backoffLimit=TOO_MANY)["spec"]}
    spec = {"schedule": "0 * * * *", "jobTemplate": template}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": spec}


def garbage(replica: Replica) -> None:
    """Send what is no review to the admission port of a replica."""
    connection = sent(replica, b"garbage")
    assert connection.getresponse().status == http.client.BAD_REQUEST
    connection.close()


def ask_together(replica: Replica, number: int) -> None:
    """Send reviews at the same time to a replica that cannot reach the API server."""
    connections = [sent(replica, review_of(job("train"))) for _ in range(number)]
    for connection in connections:
        assert connection.getresponse().status == http.client.SERVICE_UNAVAILABLE
        connection.close()


def sent(replica: Replica, body: bytes) -> http.client.HTTPSConnection:
    """Send a body to the admission port of a replica."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", replica.port, context=context, timeout=LONGEST)
    connection.request("POST", "/mutate", body)
    return connection


@contextmanager
def running() -> Iterator[Scenario]:
    """Yield a scenario that is prepared, and stop everything at the end."""
    with new_stage(whole=True, requested_retries=True) as stage, ExitStack() as stack:
        prometheus = Prometheus(stage.processes, stage.folder, impatient_rules())
        scenario = Scenario(stage, prometheus, stack)
        scenario.prepare()
        yield scenario
