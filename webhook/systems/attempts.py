"""Find which attempt of its workload a pod is: one file for each source. A new source is a file, a test, a line here.

A pod can have several levels, each a counter with its own budget; placement considers all of them. The annotation
`attempt` wins over every other source. A source that does not apply, or whose signal is malformed, gives no level.
"""

from typing import Final, Protocol

from msgspec.structs import replace

from webhook.systems import annotation, ledger
from webhook.systems.airflow import pods as airflow
from webhook.systems.app_wrapper import pods as app_wrapper
from webhook.systems.argo import pods as argo
from webhook.systems.flyte import pods as flyte
from webhook.systems.job import ignored_failures, job_index, job_status
from webhook.systems.job_set import pods as job_set
from webhook.systems.kubeflow import pods as kubeflow
from webhook.systems.kubeflow.spec import TRAINING
from webhook.systems.level import Evidence, Level
from webhook.systems.ray import pods as ray
from webhook.systems.spark import apache_pods as apache_spark
from webhook.systems.spark import pods as spark
from webhook.systems.tekton import pods as tekton
from webhook.systems.volcano import pods as volcano


class Source(Protocol):
    """A module of this folder: its name, and the function that reads its signal."""

    @property
    def NAME(self) -> str:  # noqa: N802 - a module's constant
        """The value of the annotation attempt-source."""

    def levels(self, evidence: Evidence) -> list[Level]:
        """Return the levels of a pod; none if the source does not apply. Append warnings to `evidence.warnings`."""


OF_ANY: Final[tuple[Source, ...]] = (airflow, app_wrapper)  # of every pod, whatever its controller
# The sources by group and kind of a pod's controller, the kind in lower case. The levels of all of them are collected.
SOURCES: Final[dict[tuple[str, str], tuple[Source, ...]]] = {
    ("batch", "job"): (job_index, job_status, ignored_failures, job_set, ray, ledger),
    ("tekton.dev", "taskrun"): (tekton, ledger),
    ("argoproj.io", "workflow"): (argo, ledger),
    ("flyte.lyft.com", "flyteworkflow"): (flyte, ledger),
    ("flyte.org", "taskaction"): (flyte,),
    ("batch.volcano.sh", "job"): (volcano, ledger),
    **{("kubeflow.org", kind.lower()): (kubeflow, ledger) for kind in TRAINING},
    ("kubeflow.org", "mpijob"): (ledger,),
    ("ray.io", "raycluster"): (ray, ledger),
    ("sparkoperator.k8s.io", "sparkapplication"): (spark, ledger),
    ("spark.apache.org", "sparkapplication"): (apache_spark, ledger),
}


def levels(evidence: Evidence) -> list[Level]:
    """Return the levels of a pod, none if no source has one; append a warning for each malformed signal."""
    attempt = annotation.attempt(evidence)
    if attempt is None:
        return levels_of_systems(evidence)
    budgets = [level.budget for level in levels_of_systems(replace(evidence, warnings=[]))]
    return [Level(annotation.NAME, attempt, budgets[0] if budgets else evidence.settings_budget)]


def levels_of_systems(evidence: Evidence) -> list[Level]:
    """Return the levels from the signals of the systems that created the pod, without the annotation `attempt`."""
    controller = evidence.controller
    if controller is None:
        found = ledger.levels(evidence)
    else:
        found = []
        for source in SOURCES.get((controller.group, controller.kind.lower()), ()):
            found += source.levels(evidence)
    for source in OF_ANY:
        found += source.levels(evidence)
    return found
