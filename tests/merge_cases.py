"""Cases of merging an author's podFailurePolicy with the default profile, for unit tests and cluster tests.

Each case: its name, the JobSpec that the author writes, the rules that are stored.
"""

from typing import Final

from tests.objects import DISRUPTION, exit_codes, job_spec
from webhook.objects.problem import Json


def bug(container: str = "main", action: str = "FailJob", values: tuple[int, ...] = (143,)) -> Json:
    return exit_codes(action, "NotIn", *values, container=container)


COUNTED: Final[Json] = {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
CONFIGURED: Final[Json] = {"action": "Ignore", "onPodConditions": [{"type": "ConfigIssue", "status": "True"}]}
FAIL_42: Final = exit_codes("FailJob", "In", 42, container="main")
SIDECAR: Final[Json] = {"name": "proxy", "image": "example.test/proxy", "restartPolicy": "Always"}
FETCH: Final[Json] = {"name": "fetch", "image": "example.test/fetch"}


def distinct(number: int) -> list[Json]:
    return [exit_codes("Count", "In", 10 + code) for code in range(number)]


CASES: Final[dict[str, tuple[Json, list[Json] | None]]] = {
    "no policy of its own": (job_spec(), [DISRUPTION, bug()]),
    "two containers": (job_spec(containers=("main", "log")), [DISRUPTION, bug(), bug("log")]),
    "own disruption rule first": (job_spec(rules=[COUNTED]), [COUNTED, bug()]),
    "own disruption rule after another": (job_spec(rules=[CONFIGURED, COUNTED]), [CONFIGURED, COUNTED, bug()]),
    "own disruption rule that fails the job": (
        job_spec(rules=[{**COUNTED, "action": "FailJob"}]),
        [{**COUNTED, "action": "FailJob"}, bug()],
    ),
    "own rule on another condition": (job_spec(rules=[CONFIGURED]), [DISRUPTION, CONFIGURED, bug()]),
    "own rule on DisruptionTarget being False": (
        job_spec(rules=[{"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "False"}]}]),
        [
            DISRUPTION,
            {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "False"}]},
            bug(),
        ],
    ),
    "own exit codes for the container": (job_spec(rules=[bug(values=(1, 2))]), [DISRUPTION, bug(values=(1, 2))]),
    "own exit codes for every container": (
        job_spec(containers=("main", "log"), rules=[exit_codes("FailJob", "NotIn", 3)]),
        [DISRUPTION, exit_codes("FailJob", "NotIn", 3)],
    ),
    "own exit codes for one of two containers": (
        job_spec(containers=("main", "log"), rules=[bug("log", values=(3,))]),
        [DISRUPTION, bug("log", values=(3,)), bug()],
    ),
    "own list of fatal codes": (job_spec(rules=[FAIL_42]), [DISRUPTION, FAIL_42]),
    "own list of fatal codes of every container": (
        job_spec(containers=("main", "log"), rules=[exit_codes("FailJob", "In", 42)]),
        [DISRUPTION, exit_codes("FailJob", "In", 42)],
    ),
    "own list of fatal codes of one of two containers": (
        job_spec(containers=("main", "log"), rules=[FAIL_42]),
        [DISRUPTION, FAIL_42, bug("log")],
    ),
    "own list of fatal codes of an init container": (
        job_spec(init_containers=(FETCH,), rules=[exit_codes("FailJob", "In", 42, container="fetch")]),
        [DISRUPTION, exit_codes("FailJob", "In", 42, container="fetch"), bug()],
    ),
    "own list of codes that fail an index": (
        job_spec(
            completions=4,
            completionMode="Indexed",
            backoffLimitPerIndex=2,
            rules=[exit_codes("FailIndex", "In", 42)],
        ),
        [DISRUPTION, exit_codes("FailIndex", "In", 42)],
    ),
    "own list of codes worth a retry": (
        job_spec(rules=[exit_codes("Count", "In", 1)]),
        [DISRUPTION, exit_codes("Count", "In", 1), bug()],
    ),
    "own list of codes that cost no retry": (
        job_spec(rules=[exit_codes("Ignore", "In", 75)]),
        [DISRUPTION, exit_codes("Ignore", "In", 75), bug()],
    ),
    "backoffLimitPerIndex": (
        job_spec(completions=4, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=2),
        [DISRUPTION, bug(action="FailIndex")],
    ),
    "successPolicy": (
        job_spec(
            completions=3,
            parallelism=2,
            completionMode="Indexed",
            successPolicy={"rules": [{"succeededIndexes": "0"}]},
        ),
        [DISRUPTION],
    ),
    "work queue": (job_spec(parallelism=3), [DISRUPTION]),
    "nineteen rules": (job_spec(rules=distinct(19)), [DISRUPTION, *distinct(19)]),
    "eighteen rules": (job_spec(rules=distinct(18)), [DISRUPTION, *distinct(18), bug()]),
    "twenty rules": (job_spec(rules=distinct(20)), distinct(20)),
    "OnFailure": (job_spec(restart_policy="OnFailure"), None),
    "native sidecar and init container": (job_spec(init_containers=(SIDECAR, FETCH)), [DISRUPTION, bug()]),
    "default container": (
        job_spec(containers=("main", "log"), pod_annotations={"kubectl.kubernetes.io/default-container": "main"}),
        [DISRUPTION, bug()],
    ),
    "empty rules": (job_spec(rules=[]), [DISRUPTION, bug()]),
    "empty policy": (job_spec(podFailurePolicy={}), [DISRUPTION, bug()]),
    "podReplacementPolicy Failed": (job_spec(podReplacementPolicy="Failed"), [DISRUPTION, bug()]),
    "podReplacementPolicy TerminatingOrFailed": (
        job_spec(podReplacementPolicy="TerminatingOrFailed"),
        [DISRUPTION, bug()],
    ),
    "created suspended": (job_spec(suspend=True), [DISRUPTION, bug(values=(137, 143))]),
    "managed by another controller": (
        job_spec(managedBy="example.test/controller"),
        [DISRUPTION, bug(values=(137, 143))],
    ),
    "elastic indexed": (
        job_spec(completions=3, parallelism=3, completionMode="Indexed"),
        [DISRUPTION],
    ),
    "coupled": (job_spec(completions=6, parallelism=3, completionMode="Indexed"), [DISRUPTION]),
}
