"""The cluster of `make cluster`: prints commands to try, and lets a user stop and start the webhook."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING, NoReturn

from tests.cluster.installation import CONTROLLER, SERVER
from tests.cluster.processes import POLL_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.processes import Processes

START_AGAIN = signal.SIGUSR1
OURS = {SERVER: "webhook", CONTROLLER: "controller"}


def keep(processes: Processes, environment: Mapping[str, str], http: str) -> NoReturn:
    """Keep the cluster until Ctrl-C; raise HarnessError if a program other than our own two ends.

    A user may end one to try an outage. The signal START_AGAIN to this process starts it again.
    """
    signals: list[int] = []
    signal.signal(START_AGAIN, lambda number, _frame: signals.append(number))
    _say(explanation(environment, http, processes.running[SERVER].pid, processes.running[CONTROLLER].pid))
    reported: set[str] = set()
    while True:
        processes.check(but=OURS)
        for name, what in OURS.items():
            if not processes.has_ended(name):
                continue
            if name not in reported:
                _say(f"The {what} has ended; the cluster stays. Start it again: {start_again()}\n")
                reported.add(name)
            if signals:
                processes.starts[name]()
                _say(f"{started_again(what, processes.running[name].pid, http)}\n")
                reported.discard(name)
        signals.clear()
        time.sleep(POLL_SECONDS)


def keep_real(processes: Processes, environment: Mapping[str, str], process: int) -> NoReturn:
    """Keep a cluster with real nodes until `process` is told to end; raise HarnessError if a program of it ends."""
    _say(explanation_of_real(environment, process))
    while True:
        processes.check()
        time.sleep(POLL_SECONDS)


def start_again() -> str:
    """Return the command that starts what has ended again."""
    return f"kill -{START_AGAIN.name.removeprefix('SIG')} {os.getpid()}"


def started_again(what: str, process: int, http: str) -> str:
    """Return what to tell when a program is started again: the webhook may still be without a policy."""
    ready = f"; `curl {http}/readyz` says whether it is ready" if what == OURS[SERVER] else ""
    return f"The {what} is started again{ready}. Stop it: kill {process}"


def explanation(environment: Mapping[str, str], http: str, server: int, controller: int) -> str:
    """Return the text with the commands to try; `http`: the URL of the metrics; `server`, `controller`: process ids."""
    return f"""{first_commands(environment, os.getpid())}
  kill {server}                                                  # the webhook: an outage after 10 s
  kill -9 {server}                                               # an outage at once: only the webhook stops
  kill -STOP {server}                                            # another one: it does not answer; -CONT ends it
  kill {controller}                                                  # the controller: admission goes on
  {start_again()}                                                # starts what has ended again

A Job that is preempted twice, step by step: docs/tutorial/preempted-twice.md
Metrics: {http}/metrics
Logs: {environment["RETRY_POLICY_TEST_LOGS"]}
"""


def explanation_of_real(environment: Mapping[str, str], process: int) -> str:
    """Return the text with the commands to try where the webhook and the controller are pods."""
    ours = "kubectl -n retry-policy-system"
    return f"""{first_commands(environment, process)}
  kubectl logs job/train                                         # what the program says
  helm -n retry-policy-system list                               # the installation; helm upgrade changes it
  {ours} logs deployment/retry-policy-controller
  {ours} rollout restart deployment/retry-policy-webhook         # no admission is lost
  {ours} scale deployment/retry-policy-webhook --replicas=0      # an outage; --replicas=2 ends it

A Job that is preempted twice, step by step: docs/tutorial/preempted-twice.md
Logs: {environment["RETRY_POLICY_TEST_LOGS"]}
"""


def first_commands(environment: Mapping[str, str], process: int) -> str:
    """Return the first part of the text, whatever runs on the nodes; `process`: the one whose end is the cluster's."""
    folders = environment["PATH"].removesuffix(os.environ["PATH"]).removesuffix(os.pathsep)
    return f"""
The retry policy webhook is up on a Kubernetes cluster. Ctrl-C, or kill {process}, stops it. In another terminal:

  export KUBECONFIG={environment["KUBECONFIG"]}
  export PATH={folders}:$PATH                                    # kubectl, retry-policy

  kubectl label namespace default retry-policy.dev/profile=default
  kubectl create -f docs/tutorial/train.yaml
  kubectl get jobs,pods -o yaml                                  # the stored Job and its pods
  kubectl annotate pods --all retry-policy-test/exit-code=143    # this program ends as it is told
  kubectl annotate pods --all --overwrite retry-policy-test/exit-code=1  # a bug: the Job fails at once
  kubectl annotate job train retry-policy.dev/retryable=true     # the author allows a second run
  retry-policy retry default/job/train                           # requests a retry, like the next command:
  kubectl annotate job train --overwrite retry-policy.dev/retry-requested-at=$(date -u +%FT%TZ)
  kubectl create --dry-run=server -f manifests/samples/job-with-25-retries.yaml  # is denied

  kubectl -n retry-policy-system edit configmap retry-policy     # the policy; an invalid one is denied
                                                                 # installed: manifests/samples/policy-gke.yaml
"""


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
