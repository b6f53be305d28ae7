"""One row per kind: where its JobSpecs stand and which fields the rules read. Adding a kind is a row and its test."""

from collections.abc import Iterator
from typing import Any, Final

from webhook.kinds import (
    apache_spark,
    app_wrapper,
    argo,
    batch,
    core,
    flyte,
    job_set,
    kubeflow,
    ray,
    spark,
    tekton,
    trainer,
    volcano,
)
from webhook.kinds.kind_spec import Budget, EmbeddedJob, KindSpec, OwnerReference
from webhook.objects import bounds
from webhook.objects.patch import at, find
from webhook.objects.problem import Json, Path

__all__ = ["KINDS", "Budget", "EmbeddedJob", "KindSpec", "OwnerReference", "embedded_in", "row_of"]

ROWS: Final = (
    core.POD,
    batch.JOB,
    batch.CRON_JOB,
    job_set.JOB_SET,
    *tekton.ROWS,
    *argo.ROWS,
    *kubeflow.ROWS,
    *trainer.ROWS,
    *ray.ROWS,
    *spark.ROWS,
    *apache_spark.ROWS,
    *volcano.ROWS,
    *flyte.ROWS,
    *app_wrapper.ROWS,
)

# By group and kind, as a request names them.
KINDS: Final = {(row.group, row.kind): row for row in ROWS}

# The kinds that control pods or what controls them. Flyte writes its own in small letters.
CONTROLLERS: Final = {(row.group, row.kind.lower()): row for row in ROWS if row.owns_pods or row.counts}


def embedded_in(row: KindSpec, root: Json, depth: int = 0) -> Iterator[tuple[Path, Json, KindSpec]]:
    """Yield the objects of known kinds that stand in an object, and in those, each with its path and row."""
    for pattern in row.embedded if depth < bounds.DEEPEST_EMBEDDED else ():
        for path, found in find(root, pattern):
            inner = row_for(found)
            if inner is not None:
                yield path, found, inner
                for below, one, its_row in embedded_in(inner, found, depth + 1):
                    yield (*path, *below), one, its_row


def row_for(root: Any) -> KindSpec | None:
    """Return the row of what may be an object, None where no row knows it."""
    api_version, kind = at(root, ("apiVersion",)), at(root, ("kind",))
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return None
    return KINDS.get((api_version.rpartition("/")[0], kind))


def row_of(controller: OwnerReference) -> KindSpec | None:
    """Return the row of a controller's kind, None if it is none that controls pods of ours."""
    return CONTROLLERS.get((controller.group, controller.kind.lower()))
