"""SparkApplications, of Kubeflow's operator and of Apache's: the scopes are `driver` and `executor`.

Source: internal/controller/sparkapplication of spark-operator 2.4.0, spark-operator of spark-kubernetes-operator 1.0.0.
A driver that ends without success costs a retry, whatever ended it. A lost executor is replaced by its driver, and
Spark repeats its work. Nothing outside ends an application as failed: Kubeflow's operator runs it again after any other
change of its spec than `_suspend`, and one that is suspended waits; Apache's operator has no such field.
"""

from typing import Final

from webhook.objects.patch import at, pointer
from webhook.objects.problem import Json
from webhook.pods.outcomes import was_killed
from webhook.pods.pods import Pod
from webhook.policy.attempt_costs import AttemptCost
from webhook.policy.settings import Settings
from webhook.systems import kueue
from webhook.systems.spark import spec as spark
from webhook.systems.spark.spec import DRIVER
from webhook.systems.system import Spent, System, Write, set_in_spec

ENDED: Final = frozenset({"COMPLETED", "FAILED", "SUSPENDING", "SUSPENDED"})
STATE: Final = ("status", "applicationState", "state")
# In any other state the operator may be running spark-submit, for seconds. If the application changes then, it takes
# the driver that it has just created for the one before, and waits for its deletion for ever in PENDING_RERUN.
RUNNING: Final = "RUNNING"
STEADY: Final = frozenset({*ENDED, "SUBMITTED", RUNNING, "SUCCEEDING", "FAILING"})
INVALIDATING: Final = "INVALIDATING"  # somebody has changed the spec: it runs again, with all of its retries
OF_APACHE_ENDED: Final = frozenset({"ResourceReleased", "TerminatedWithoutReleaseResources"})


def _cost_of(pod: Pod, root: Json, _spent: Spent, _settings: Settings) -> AttemptCost:
    killed = was_killed(pod)
    if pod.scope != DRIVER:
        return "none" if killed else "free"
    return "none" if killed and at(root, STATE) == INVALIDATING else "retry"


def _has_ended(root: Json) -> bool:
    return at(root, STATE) in ENDED or bool(at(root, ("spec", "suspend")))


def _suspend(root: Json) -> Write | None:
    """Return the write that suspends an application of Kubeflow's operator; None if Kueue would resume it.

    It fails, and is tried again, as long as the operator may be submitting a run.
    """
    if kueue.is_queued(root["metadata"]):
        return None
    write, state = set_in_spec(spark.SPARK_APPLICATION, root, "suspend", value=True), at(root, STATE)
    steady = {"op": "test", "path": pointer(STATE), "value": state if state in STEADY else RUNNING}
    return write._replace(operations=[steady, *write.operations])


SPARK_APPLICATION: Final = System(
    kind=spark.SPARK_APPLICATION,
    unit="role",
    cost_of=_cost_of,
    has_ended=_has_ended,
    suspend=_suspend,
    writes={("suspend",): (True,)},
    is_single=lambda scope: scope == DRIVER,
)
OF_APACHE: Final = System(
    kind=spark.APACHE_SPARK_APPLICATION,
    unit="role",
    cost_of=_cost_of,
    has_ended=lambda root: at(root, ("status", "currentState", "currentStateSummary")) in OF_APACHE_ENDED,
    is_single=lambda scope: scope == DRIVER,
)
SYSTEMS: Final = (SPARK_APPLICATION, OF_APACHE)
