"""Runs Kubernetes' own tests against KUBECONFIG, and writes docs/reference/upstream-suites.json.

All suites run at the same time, each as two users: the namespaces of one of them are opted in when they are created,
and nothing else differs. Exit 1 if a test passes only without the webhook, and suites.py has no reason for it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from tests.awaiting import until
from tests.cluster import binaries
from tests.cluster.kubectl import Kubectl
from tests.cluster.nodes import SPOT
from tests.cluster.real_nodes.node import RESERVED
from tests.upstream.suites import FILE, REASONS, SUITES, Result, result_of, row_of, write
from webhook.kube.names import PROFILE

if TYPE_CHECKING:
    from subprocess import Popen

WITHOUT: Final = "upstream-not-opted-in"
WITH_US: Final = "upstream-opted-in"
GROUP: Final = "system:masters"
SKIPPED: Final = r"\[Feature|\[Disruptive|FeatureGate"
LEFT_ON_NODES: Final = Path("/tmp/job-e2e")  # noqa: S108 - upstream's tests of Jobs share files through it
MUTATION: Final = (
    f'[JSONPatch{{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("{PROFILE}"), value: "default"}}]'
)
OPT_IN: Final[dict[str, Any]] = {
    "matchConstraints": {
        "resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["namespaces"]}
        ]
    },
    "matchConditions": [{"name": "user", "expression": f"request.userInfo.username == '{WITH_US}'"}],
    "failurePolicy": "Fail",
    "reinvocationPolicy": "Never",
    "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": MUTATION}}],
}


def main() -> int:
    """Run all suites; return the exit code."""
    program = binaries.upstream_suite().path
    kubeconfig = Path(os.environ["KUBECONFIG"])
    opt_in(Kubectl(Path("kubectl"), kubeconfig))
    folder = Path(tempfile.mkdtemp(prefix="upstream-suites-"))
    sys.stderr.write(f"logs and reports: {folder}\n")
    runs = {
        (suite, user): start(program, suite, as_user(kubeconfig, user, folder), folder / f"{number}-{user}")
        for number, suite in enumerate(SUITES)
        for user in (WITHOUT, WITH_US)
    }
    for run in runs.values():
        run.wait()
    shutil.rmtree(LEFT_ON_NODES, ignore_errors=True)
    unexplained = 0
    new = []
    for number, suite in enumerate(SUITES):
        without, with_us = (read(folder / f"{number}-{user}") for user in (WITHOUT, WITH_US))
        row = row_of(suite, binaries.kubernetes_version(), without, with_us)
        new.append(row)
        for user, found in ((WITHOUT, without), (WITH_US, with_us)):
            for name, failure in found.failures.items():
                sys.stderr.write(f"{suite}, {user}: {name}\n{failure[:2000]}\n\n")
        passed = [f"{row.tests - len(failed)} of {row.tests} passed" for failed in (row.without, row.with_us)]
        sys.stderr.write(f"{suite} {row.version}: {passed[0]} without, {passed[1]} with\n")
        for name in row.only_with_us:
            if name not in REASONS:
                unexplained += 1
                sys.stderr.write(f"  no reason in tests/upstream/suites.py: {name}\n")
    if unexplained:
        return 1
    write(new)
    sys.stderr.write(f"{FILE} is written; now: make generated\n")
    return 0


def opt_in(kubectl: Kubectl) -> None:
    """Let the API server label the namespaces that WITH_US creates, and wait until it does."""
    version = "v1beta1" if binaries.kubernetes_version() == "1.34" else "v1"
    name = "opt-in-upstream"
    policy = {"apiVersion": f"admissionregistration.k8s.io/{version}", "metadata": {"name": name}}
    kubectl.apply({**policy, "kind": "MutatingAdmissionPolicy", "spec": OPT_IN})
    kubectl.apply({**policy, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": name}})
    create = ("create", "namespace", "upstream", "--dry-run=server", "--output=json")

    def effective() -> bool:
        created = kubectl.run(*create, f"--as={WITH_US}", f"--as-group={GROUP}")
        return created.returncode == 0 and PROFILE in json.loads(created.stdout)["metadata"]["labels"]

    until(effective)


def as_user(kubeconfig: Path, user: str, folder: Path) -> Path:
    """Write a kubeconfig that acts as a user of the group of administrators; return its file."""
    known = yaml.safe_load(kubeconfig.read_text())
    for one in known["users"]:
        one["user"] |= {"as": user, "as-groups": [GROUP]}
    file = folder / f"{user}.kubeconfig"
    file.write_text(json.dumps(known))
    return file


def start(program: Path, suite: str, kubeconfig: Path, target: Path) -> Popen[bytes]:
    """Start the tests of a suite; its log and Ginkgo's report go to files beside each other."""
    pattern = suite.replace("[", r"\[").replace("]", r"\]")
    with target.with_suffix(".log").open("wb") as log:
        return subprocess.Popen(
            [
                program,
                f"--kubeconfig={kubeconfig}",
                "--provider=local",
                f"--non-blocking-taints={SPOT},{RESERVED}",
                f"--ginkgo.focus={pattern} ",
                f"--ginkgo.skip={SKIPPED}",
                f"--ginkgo.json-report={target.with_suffix('.json')}",
                "--ginkgo.no-color",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def read(target: Path) -> Result:
    """Return the result of a run that has ended."""
    return result_of(json.loads(target.with_suffix(".json").read_text()))


if __name__ == "__main__":
    sys.exit(main())
