"""Airflow: the scope is a task of a run of a DAG, with the index of a mapped task.

Source: apache-airflow-providers-cncf-kubernetes 10.25. To Airflow each pod that ends without success is a try that
failed, whatever ended it. How many tries a task may have is in Airflow's database, as is the end of a run: nothing
outside can end or suspend one.
"""

from typing import Final

from webhook.kinds.accounts import airflow
from webhook.ledger.model.outcomes import Cost
from webhook.ledger.model.pods import Pod
from webhook.ledger.model.systems.system import Spent, System
from webhook.objects.problem import Json
from webhook.policy.settings import Settings


def cost_of(_pod: Pod, _root: Json, _spent: Spent, _settings: Settings) -> Cost:
    """Return what the end of a pod cost: a try."""
    return "retry"


def has_ended(_root: Json) -> bool:
    """Return False: no object says that a run has ended."""
    return False


def fail(_root: Json, _pod: Pod, _reason: str, _message: str) -> None:
    """Return None: only Airflow can end a run."""
    return


def suspend(_root: Json) -> None:
    """Return None: only Airflow can pause a DAG."""
    return


DAG_RUN: Final = System(
    row=airflow.DAG_RUN,
    unit="task",
    cost_of=cost_of,
    has_ended=has_ended,
    ends_bugs=False,
    fail=fail,
    suspend=suspend,
    knows_retries=False,
)
