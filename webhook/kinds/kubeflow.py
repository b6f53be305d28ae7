"""kubeflow.org: the training operator's jobs, and the MPI operator's MPIJob.

Source: pkg/controller.v1 of training-operator 1.9.3, pkg/apis of mpi-operator 0.7.0. Without a backoffLimit there is no
bound. One of 1 or more bounds what kubelet restarts in place; a pod that the operator makes anew, as for restartPolicy
ExitCode, is counted nowhere. The MPI operator's MPIJob hands its backoffLimit to the Job of its launcher, and one that
is left out too: then the API makes it 6. Each loss of a worker may cost one.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from webhook.kinds.batch import DEFAULT_BACKOFF_LIMIT
from webhook.kinds.core import METADATA, POD_TEMPLATE
from webhook.kinds.kind_spec import KindSpec, RetryField
from webhook.objects.patch import EVERY, Pattern, find
from webhook.objects.problem import Json, Path, Problem
from webhook.objects.shape import ANY_KEY, Shape

BACKOFF_LIMIT: Final = RetryField(within=("spec",), name=("runPolicy", "backoffLimit"), absent=None, parent_absent=None)
OF_LAUNCHER: Final = replace(BACKOFF_LIMIT, absent_in=("kubeflow.org/v2beta1", DEFAULT_BACKOFF_LIMIT))
MAX_RESTARTS: Final = RetryField(within=("spec", "elasticPolicy"), name=("maxRestarts",), made=False)


def row(
    kind: str,
    replica_specs: str,
    *fields: RetryField,
    versions: tuple[str, ...] = ("v1",),
    backoff_limit: RetryField = BACKOFF_LIMIT,
) -> KindSpec:
    """Make the row of a kind whose replicas stand in spec.REPLICA_SPECS."""
    replicas: Path = ("spec", replica_specs, EVERY)
    shape: Shape = {
        "runPolicy": {"backoffLimit": int},
        "elasticPolicy": {"maxRestarts": int},
        replica_specs: {ANY_KEY: {"restartPolicy": str, "template": POD_TEMPLATE}},
    }
    return KindSpec(
        group="kubeflow.org",
        versions=versions,
        kind=kind,
        resource=f"{kind.lower()}s",
        shape={"metadata": METADATA, "spec": shape},
        owns_pods=True,
        pod_templates=((*replicas, "template"),),
        retry_fields=(backoff_limit, *fields),
        unbounded=partial(restarts_by_exit_code, replicas),
    )


def restarts_by_exit_code(replicas: Pattern, root: Json) -> Iterator[Problem]:
    """Name the first replicas of a job whose pods the operator makes anew after exit codes of 128 and more."""
    for path, replica in find(root, replicas):
        if replica.get("restartPolicy") == "ExitCode":
            what = "could not bound ExitCode: no field counts new pods"
            yield Problem((*path, "restartPolicy"), what, "use OnFailure")
            return


ROWS: Final = (
    row("PyTorchJob", "pytorchReplicaSpecs", MAX_RESTARTS),
    row("TFJob", "tfReplicaSpecs"),
    row("MPIJob", "mpiReplicaSpecs", versions=("v1", "v2beta1"), backoff_limit=OF_LAUNCHER),
    row("XGBoostJob", "xgbReplicaSpecs"),
    row("PaddleJob", "paddleReplicaSpecs", MAX_RESTARTS),
    row("JAXJob", "jaxReplicaSpecs"),
)
