"""Which attempt a pod is: one file per source that tells it. Adding a source is a file, its test and a line here.

A pod can stand under several levels, each a counter with its own budget; placement looks at them all. The annotation
wins over every other source. A source that does not apply, or whose signal is malformed, gives no level.
"""

from typing import Final, Protocol

from msgspec.structs import replace

from webhook.attempts import airflow, annotation, apache_spark, app_wrapper, argo, flyte, ray, spark, tekton, volcano
from webhook.attempts.jobs import ignored_failures, job_index, job_set, job_status, ledger
from webhook.attempts.level import Evidence, Level

__all__ = ["Evidence", "Level", "airflow", "levels"]


class Source(Protocol):
    """A module of this folder: the name that attempt-source gets from it, and what it reads."""

    @property
    def NAME(self) -> str:  # noqa: N802 - a module's constant
        """The value of attempt-source."""

    def levels(self, evidence: Evidence) -> list[Level]:
        """Return the levels that it tells of; none where it does not apply."""


# By the group and kind of a pod's controller, the kind in small letters: what adds up, each as sources of which the
# first that says something silences the others.
SOURCES: Final[dict[tuple[str, str], tuple[tuple[Source, ...], ...]]] = {
    ("batch", "job"): ((job_index, job_status), (ignored_failures,), (job_set,), (ray,), (ledger,)),
    ("tekton.dev", "taskrun"): ((tekton,),),
    ("argoproj.io", "workflow"): ((argo,),),
    ("flyte.lyft.com", "flyteworkflow"): ((flyte,),),
    ("flyte.org", "taskaction"): ((flyte,),),
    ("batch.volcano.sh", "job"): ((volcano,),),
    ("ray.io", "raycluster"): ((ray,),),
    ("sparkoperator.k8s.io", "sparkapplication"): ((spark,),),
    ("spark.apache.org", "sparkapplication"): ((apache_spark,),),
}
# Of any pod, whoever controls it.
OF_ANY: Final[tuple[tuple[Source, ...], ...]] = ((airflow,), (app_wrapper,))


def levels(evidence: Evidence) -> list[Level]:
    """Return the levels that a pod stands under, empty where nothing tells; add a warning for each malformed signal."""
    attempt = annotation.attempt(evidence)
    if attempt is None:
        return told(evidence)
    budgets = [level.budget for level in told(replace(evidence, warnings=[]))]
    return [Level(annotation.NAME, attempt, budgets[0] if budgets else evidence.said_budget)]


def told(evidence: Evidence) -> list[Level]:
    """Return the levels that the systems tell which made the pod."""
    controller = evidence.controller
    system = () if controller is None else SOURCES.get((controller.group, controller.kind.lower()), ())
    found: list[Level] = []
    for sources in (*system, *OF_ANY):
        for source in sources:
            said = source.levels(evidence)
            if said:
                found += said
                break
    return found
