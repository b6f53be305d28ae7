"""kubeflow.org: the training operator's jobs, and the MPI operator's MPIJob.

Source: pkg/controller.v1 of training-operator 1.9.3, pkg/apis of mpi-operator 0.7.0. Without a backoffLimit retries are
unlimited. A backoffLimit of 1 or more limits the restarts in place by kubelet, 0 also the failed pods. Pods that the
operator creates again, as for restartPolicy ExitCode, are not counted otherwise. The MPI operator copies the
backoffLimit of an MPIJob to the Job of its launcher; if it is left out, the API sets 6 there. Each loss of a worker may
cost one retry.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final

from webhook.objects.patch import EVERY, Pattern, find
from webhook.objects.problem import Json, Path, Problem
from webhook.objects.shape import ANY_KEY, Shape
from webhook.systems.core import METADATA, POD_TEMPLATE
from webhook.systems.job.spec import DEFAULT_BACKOFF_LIMIT
from webhook.systems.kind_spec import KindSpec, RetryField

GROUP: Final = "kubeflow.org"
EXIT_CODE: Final = "ExitCode"
REPLICA_TYPE: Final = "training.kubeflow.org/replica-type"  # labels of pods
REPLICA_INDEX: Final = "training.kubeflow.org/replica-index"
WORKER: Final = "worker"
MOST_REPLICA_TYPES: Final = 20  # the operator knows at most five in a kind
RESTARTED: Final = 128  # with ExitCode the operator restarts a pod after this exit code and higher ones
# The default of restartPolicy, which the operator applies itself: no object shows it. Never in the other kinds.
BY_DEFAULT: Final = {"PyTorchJob": "OnFailure", "PaddleJob": "OnFailure"}
BACKOFF_LIMIT: Final = RetryField(within=("spec",), name=("runPolicy", "backoffLimit"), absent=None, parent_absent=None)
OF_LAUNCHER: Final = replace(BACKOFF_LIMIT, absent_in=("kubeflow.org/v2beta1", DEFAULT_BACKOFF_LIMIT))
MAX_RESTARTS: Final = RetryField(within=("spec", "elasticPolicy"), name=("maxRestarts",), may_be_added=False)


def _kind(
    kind: str,
    replica_specs: str,
    *fields: RetryField,
    versions: tuple[str, ...] = ("v1",),
    backoff_limit: RetryField = BACKOFF_LIMIT,
) -> KindSpec:
    replicas: Path = ("spec", replica_specs, EVERY)
    shape: Shape = {
        "runPolicy": {"backoffLimit": int, "cleanPodPolicy": str, "ttlSecondsAfterFinished": int},
        "elasticPolicy": {"maxRestarts": int},
        replica_specs: {ANY_KEY: {"replicas": int, "restartPolicy": str, "template": POD_TEMPLATE}},
    }
    return KindSpec(
        group=GROUP,
        versions=versions,
        kind=kind,
        shape={"metadata": METADATA, "spec": shape},
        owns_pods=True,
        pod_templates=((*replicas, "template"),),
        retry_fields=(backoff_limit, *fields),
        unbounded=partial(_restarts_by_exit_code, replicas),
    )


def _restarts_by_exit_code(replicas: Pattern, root: Json) -> Iterator[Problem]:
    """Yield a problem for the first replica type with restartPolicy ExitCode, if there is one.

    With ExitCode the operator creates a new pod after exit codes of 128 and more, without a limit.
    """
    for path, replica in find(root, replicas):
        if replica.get("restartPolicy") == EXIT_CODE:
            what = "ExitCode restarts pods without limit"
            yield Problem((*path, "restartPolicy"), what, "use OnFailure")
            return


REPLICA_SPECS: Final = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
}
TRAINING: Final = {  # the kinds of the training operator in whose replicas ExitCode is the same
    kind: _kind(kind, name, *((MAX_RESTARTS,) if kind in BY_DEFAULT else ())) for kind, name in REPLICA_SPECS.items()
}
MPI_JOB: Final = replace(
    _kind("MPIJob", "mpiReplicaSpecs", versions=("v1", "v2beta1"), backoff_limit=OF_LAUNCHER),
    read_in="v2beta1",  # the MPI operator's: that of the training operator has no account
)


def restart_policy_of(root: Json, replica_type: str) -> str:
    """Return the restartPolicy of a replica type, whose name is in lower case, as in the labels of its pods.

    Only MOST_REPLICA_TYPES are looked at.
    """
    kind = root.get("kind") or ""
    policies = find(root, ("spec", REPLICA_SPECS.get(kind, ""), EVERY, "restartPolicy"))
    for path, said in islice(policies, MOST_REPLICA_TYPES):
        if isinstance(said, str) and str(path[-2]).lower() == replica_type:
            return said
    return BY_DEFAULT.get(kind, "Never")


KINDS: Final = (*list(TRAINING.values())[:2], MPI_JOB, *list(TRAINING.values())[2:])
