"""The suites, their results, and the reason of each test that passes only without the webhook."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tests.cluster import binaries
from tests.cluster.nodes import SPOT
from tests.cluster.real_nodes.node import RESERVED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FILE: Final = Path(__file__).parents[2] / "docs" / "reference" / "upstream-suites.json"
LABELS: Final = re.compile(r"( \[[\w:-]+\])+$")  # at the end of a test's name
NOT_RUN: Final = frozenset({"skipped", "pending"})
OF_KUBERNETES: Final = (
    "--provider=local",
    f"--non-blocking-taints={SPOT},{RESERVED}",
    r"--ginkgo.skip=\[Feature|\[Disruptive|FeatureGate",
)
WITHOUT_LARGE_PODS: Final = "--ginkgo.skip=group of diverse pods|preempt the lower priority group"
QUEUED_AT_ONCE: Final = 3  # Kueue's tests fill a node, and wait for some seconds only
WITHOUT_DNS_AND_VOLUMES: Final = "--ginkgo.skip=ping each other|create PVCs"
A_BUG: Final = "its program ends with 1, which the default profile takes for a bug: it ends the {what} at once"
REASONS: Final[Mapping[str, str]] = {
    "should execute all indexes despite some failing when using backoffLimitPerIndex": A_BUG.format(what="index"),
    "should fail to exceed backoffLimit": A_BUG.format(what="Job"),
    "should record the failure-count in the Pod annotation when using backoffLimitPerIndex": A_BUG.format(what="index"),
    "should run a job to completion when tasks sometimes fail and are not locally restarted": A_BUG.format(what="Job"),
    "with successPolicy succeededCount rule should succeeded even when some indexes remain pending": (
        "it asks for 2147483647 retries, and is refused"
    ),
}


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite by its name: its program with flags, and a regular expression for the names of its tests.

    `at_once`: how many of them may run at the same time.
    """

    name: str
    program: Path
    flags: tuple[str, ...]
    tests: str
    at_once: int = 16


def suites() -> list[Suite]:
    """Return the suites of the version of Kubernetes that is selected."""
    kubernetes, job_set, kueue, kueue_extended = binaries.upstream_suites()
    (version,) = re.findall(r"sigs\.k8s\.io/jobset v([\d.]+)", job_set.go_mod)
    (of_kueue,) = re.findall(r"sigs\.k8s\.io/kueue v([\d.]+)", kueue.go_mod)
    return [
        Suite("[sig-apps] Job", kubernetes.path, OF_KUBERNETES, r"\[sig-apps\] Job "),
        Suite("[sig-apps] CronJob", kubernetes.path, OF_KUBERNETES, r"\[sig-apps\] CronJob "),
        Suite(f"JobSet {version}", job_set.path, (WITHOUT_DNS_AND_VOLUMES,), "JobSet"),
        *(
            Suite(f"Kueue {of_kueue}, {what}", program.path, (WITHOUT_LARGE_PODS, labels), "", QUEUED_AT_ONCE)
            for what, program, labels in (
                ("Jobs", kueue, labelled("job", "cohort", "fairsharing", "concurrent-admission")),
                ("JobSets", kueue_extended, labelled("jobset")),
                ("pods", kueue, labelled("pod")),
            )
        ),
    ]


def labelled(*features: str) -> str:
    """Return the flag that selects Kueue's tests of these features."""
    return f"--ginkgo.label-filter={' || '.join(f'feature:{feature}' for feature in features)}"


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The results of a suite: how many tests ran, and the names of those that failed `without` and `with_us`.

    `kubernetes`: the version of the cluster. `confirming`: of those that failed with the profile `confirm`; None where
    that was not run.
    """

    suite: str
    kubernetes: str
    tests: int
    without: tuple[str, ...]
    with_us: tuple[str, ...]
    confirming: tuple[str, ...] | None = None

    @property
    def only_with_us(self) -> list[str]:
        """The tests that passed without the webhook, and failed with it, under either profile."""
        failed = sorted({*self.with_us, *(self.confirming or ())})
        return [name for name in failed if name not in self.without]


@dataclass(frozen=True, slots=True)
class Result:
    """What Ginkgo reported of a run: the names of the tests that ran, and why those failed that did."""

    ran: frozenset[str]
    failures: Mapping[str, str]


def names_of(reports: Sequence[Any]) -> list[str]:
    """Return the full names of the tests that ran, as Ginkgo's focus compares them."""
    specs = [spec for report in reports for spec in report["SpecReports"]]
    tests = [spec for spec in specs if spec["LeafNodeType"] == "It" and spec["State"] not in NOT_RUN]
    return [" ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]]) for spec in tests]


def result_of(reports: Sequence[Any]) -> Result:
    """Return the result from Ginkgo's reports in JSON; raise ValueError if a test has failed outside of any test."""
    ran: dict[str, str | None] = {}
    for report in reports:
        for spec in report["SpecReports"]:
            if spec["State"] in NOT_RUN:
                continue
            failure = None if spec["State"] == "passed" else spec["Failure"]["Message"]
            if spec["LeafNodeType"] == "It":
                ran[LABELS.sub("", spec["LeafNodeText"])] = failure
            elif failure is not None:
                raise ValueError(f"{spec['LeafNodeType']}: {failure}")
    return Result(frozenset(ran), {name: failure for name, failure in ran.items() if failure is not None})


def row_of(suite: str, kubernetes: str, without: Result, with_us: Result, confirming: Result | None = None) -> Row:
    """Return the row of a suite; raise ValueError if one of the runs had other tests, or none."""
    others = [one for one in (with_us, confirming) if one is not None]
    if any(one.ran != without.ran for one in others) or not without.ran:
        raise ValueError(f"{suite}: {len(without.ran)} tests ran without, {[len(one.ran) for one in others]} with")
    failed = [None if one is None else tuple(sorted(one.failures)) for one in (without, with_us, confirming)]
    return Row(suite, kubernetes, len(without.ran), failed[0] or (), failed[1] or (), failed[2])


def rows() -> list[Row]:
    """Return the measured rows."""
    return msgspec.json.decode(FILE.read_bytes(), type=list[Row])


def write(new: Sequence[Row]) -> None:
    """Put rows in the place of those of the same suite and version of Kubernetes."""
    known = {(row.suite, row.kubernetes): row for row in [*(rows() if FILE.exists() else []), *new]}
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode([known[key] for key in sorted(known)])) + b"\n")
