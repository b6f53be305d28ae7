"""Runs the suites against KUBECONFIG, and writes docs/reference/upstream-suites.json.

With arguments, the suites alone whose names begin with one of them. One suite runs after the other, each test in a
process of its own, many at the same time: one that fails often waits for a quarter of an hour. It runs as three users:
the namespaces of two of them are opted in when they are created, each with a profile, and nothing else differs. Exit 1
if a test passes only without the webhook, and suites.py has no reason for it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any, Final

import yaml

from tests.awaiting import until
from tests.cluster import binaries
from tests.cluster.kubectl import Kubectl, Object
from tests.cluster.namespace import Api
from tests.cluster.operators import KUEUE_SYSTEM
from tests.cluster.real_nodes.images import AGNHOST, BASH
from tests.cluster.real_nodes.start import SHARED
from tests.upstream import examples
from tests.upstream.suites import FILE, REASONS, Result, Row, Suite, names_of, result_of, row_of, suites, write
from webhook.kube.names import PROFILE

if TYPE_CHECKING:
    from collections.abc import Mapping

WITHOUT: Final = "upstream-not-opted-in"
WITH_US: Final = "upstream-opted-in"
CONFIRMING: Final = "upstream-confirming"
PROFILES: Final = {WITH_US: "default", CONFIRMING: "confirm"}
GROUP: Final = "system:masters"
LEFT_ON_NODES: Final = Path("/tmp/job-e2e")  # noqa: S108 - upstream's tests of Jobs share files through it
# The suites wait for these Deployments; their programs run beside the cluster. By namespace.
PROGRAMS_BESIDE: Final = {"jobset-system": "jobset-controller-manager", KUEUE_SYSTEM: "kueue-controller-manager"}
NOT_PULLED: Final = {
    "patchType": "JSONPatch",
    "jsonPatch": {
        "expression": '[JSONPatch{op: "replace", path: "/spec/containers/0/imagePullPolicy", value: "IfNotPresent"}]'
    },
}


def main(wanted: tuple[str, ...]) -> int:
    """Run the suites whose names begin with one of `wanted`, or all of them; return the exit code."""
    kubeconfig = Path(os.environ["KUBECONFIG"])
    prepare(Kubectl(Path("kubectl"), kubeconfig))
    folder = Path(tempfile.mkdtemp(prefix="upstream-suites-"))
    sys.stderr.write(f"logs and reports: {folder}\n")
    users = {user: as_user(kubeconfig, user, folder) for user in (WITHOUT, *PROFILES)}
    new = [] if wanted else tried_examples(kubeconfig)
    for number, suite in enumerate(one for one in suites() if not wanted or one.name.startswith(wanted)):
        place = folder / str(number)
        names = names_of(call(suite, users[WITHOUT], place, suite.tests, "--ginkgo.dry-run"))
        tests = [(user, f"{re.escape(name)}$") for name in names for user in users]
        with ThreadPoolExecutor(suite.at_once) as pool:
            runs = [
                (user, pool.submit(call, suite, users[user], folder / f"{number}-{test}", focus))
                for test, (user, focus) in enumerate(tests)
            ]
        results = {
            user: result_of([report for by, run in runs if by == user for report in run.result()]) for user in users
        }
        new.append(row_of(suite.name, binaries.kubernetes_version(), *results.values()))
        tell(new[-1], results)
    shutil.rmtree(LEFT_ON_NODES, ignore_errors=True)
    unexplained = [name for row in new for name in row.only_with_us if name not in REASONS]
    if unexplained:
        sys.stderr.write("".join(f"no reason in tests/upstream/suites.py: {name}\n" for name in unexplained))
        return 1
    write(new)
    sys.stderr.write(f"{FILE} is written; now: make generated\n")
    return 0


def tried_examples(kubeconfig: Path) -> list[Row]:
    """Create each project's examples, in a namespace of both users; return their rows."""
    api, kubectl = Api.connect(kubeconfig), Kubectl(Path("kubectl"), kubeconfig)
    for user in (WITHOUT, WITH_US):
        kubectl.run("create", "namespace", user, f"--as={user}", f"--as-group={GROUP}")
    found = []
    for title, folder in examples.folders().items():
        without, with_us = (examples.created(api, user, folder) for user in (WITHOUT, WITH_US))
        found.append(row_of(title, binaries.kubernetes_version(), without, with_us))
        tell(found[-1], {WITHOUT: without, WITH_US: with_us})
    return found


def tell(row: Row, results: Mapping[str, Result]) -> None:
    """Write the result of a suite, and why tests have failed, to stderr; `results`: by user."""
    for user, found in results.items():
        passed = f"{row.tests - len(found.failures)} of {row.tests} passed"
        sys.stderr.write(f"{row.suite}, Kubernetes {row.kubernetes}, {user}: {passed}\n")
        for name, failure in found.failures.items():
            sys.stderr.write(f"  {name}\n{indent(failure[:2000], '    ')}\n")


def prepare(kubectl: Kubectl) -> None:
    """Opt in what PROFILES name; replace what the suites expect of a cluster that this one has in another form."""
    for user, profile in PROFILES.items():
        labels = f'Object{{metadata: Object.metadata{{labels: {{"{PROFILE}": "{profile}"}}}}}}'
        opt_in = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": labels}}
        apply_mutation(kubectl, f"opt-in-{profile}", "namespaces", f"request.userInfo.username == '{user}'", opt_in)
    # The kubelet asks for the newest image of this name, and nothing can be fetched.
    apply_mutation(kubectl, "bash-is-there", "pods", f"object.spec.containers[0].image == '{BASH}'", NOT_PULLED)
    for namespace, name in PROGRAMS_BESIDE.items():
        stand_in(kubectl, namespace, name)
    for name, is_spot in SHARED.items():
        kubectl.run("label", "node", name, f"instance-type={'spot' if is_spot else 'on-demand'}")
    create = ("create", "namespace", "upstream", "--dry-run=server", "--output=json")

    def effective(user: str) -> bool:
        created = kubectl.run(*create, f"--as={user}", f"--as-group={GROUP}")
        return created.returncode == 0 and PROFILE in json.loads(created.stdout)["metadata"]["labels"]

    for user in PROFILES:
        until(partial(effective, user))


def stand_in(kubectl: Kubectl, namespace: str, name: str) -> None:
    """Create a Deployment that is Available with no pod."""
    labels = {"app": name}
    containers = [{"name": "manager", "image": BASH}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    metadata = {"name": name, "namespace": namespace}
    kubectl.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})


def apply_mutation(kubectl: Kubectl, name: str, resource: str, condition: str, mutation: Object) -> None:
    """Let the API server change new objects of a resource where a condition, in CEL, holds."""
    version = "v1beta1" if binaries.kubernetes_version() == "1.34" else "v1"
    policy = {"apiVersion": f"admissionregistration.k8s.io/{version}", "metadata": {"name": name}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "condition", "expression": condition}],
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [mutation],
    }
    kubectl.apply({**policy, "kind": "MutatingAdmissionPolicy", "spec": spec})
    kubectl.apply({**policy, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": name}})


def as_user(kubeconfig: Path, user: str, folder: Path) -> Path:
    """Write a kubeconfig that acts as a user of the group of administrators; return its file."""
    known = yaml.safe_load(kubeconfig.read_text())
    for one in known["users"]:
        one["user"] |= {"as": user, "as-groups": [GROUP]}
    file = folder / f"{user}.kubeconfig"
    file.write_text(json.dumps(known))
    return file


def call(suite: Suite, kubeconfig: Path, target: Path, tests: str, *flags: str) -> list[Any]:
    """Run the tests of a suite whose names match a regular expression; return Ginkgo's reports.

    These, and the log, are files beside each other.
    """
    report = target.with_suffix(".json")
    own = (f"--kubeconfig={kubeconfig}", f"--ginkgo.json-report={report}", "--ginkgo.no-color")
    environment = {**os.environ, "E2E_TEST_AGNHOST_IMAGE": AGNHOST, "ARTIFACTS": str(target)}
    with target.with_suffix(".log").open("wb") as log:
        command: list[str | Path] = [suite.program, *own, *suite.flags, f"--ginkgo.focus={tests}", *flags]
        subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
    reports: list[Any] = json.loads(report.read_text())
    return reports


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:])))
