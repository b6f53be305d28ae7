"""The command retry-policy explain, which reads from the cluster or from files."""

import io
import sys
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final

import click

from webhook.cli.console import (
    UNUSABLE,
    ObjectArgument,
    kubeconfig_option,
    object_argument,
    one_of,
    printable,
    workload_argument,
)
from webhook.cli.offline import documents
from webhook.cli.terminal import table
from webhook.cli.terminal.examples import WithExamples
from webhook.cli.terminal.progress import Progress
from webhook.explain import build_cron_job, build_pipeline_run, render
from webhook.explain.build import Explanation
from webhook.explain.build import explain as build
from webhook.explain.build_cron_job import CronJobExplanation
from webhook.kinds import batch, core, tekton
from webhook.kinds.job_set import JOB_SET, SET_NAME
from webhook.kinds.kind_spec import controller_of
from webhook.kube.kubeconfig import Kubeconfig
from webhook.objects.columns import Part
from webhook.objects.problem import Json
from webhook.retry.kinds import pipeline_run

LABELS: Final = {JOB_SET.kind: SET_NAME, tekton.PIPELINE_RUN.kind: pipeline_run.LABEL}
READ: Final = {
    batch.JOB.kind,
    batch.CRON_JOB.kind,
    core.POD.kind,
    *LABELS,
    tekton.TASK_RUN.kind,
    tekton.CUSTOM_RUN.kind,
}
PARTS_LABELS: Final = (batch.JOB_NAME, *LABELS.values())
TASKS: Final = {tekton.TASK_RUN.kind, tekton.CUSTOM_RUN.kind}
ROOTS: Final = (batch.JOB, JOB_SET, batch.CRON_JOB, tekton.PIPELINE_RUN)
DUMP: Final = "kubectl get jobs,pods -o yaml, with cronjobs or jobsets for these"

Explained = Explanation | CronJobExplanation

# Objects by namespace, label and the label's value; Jobs also by namespace, OWNER and the uid of their controller.
Labelled = dict[tuple[str, str, str], list[Json]]
OWNER: Final = "controller"


@click.command(
    cls=WithExamples,
    examples=(
        ("Why a Job retried as often as it did, and what its next failure does", "retry-policy explain ml/job/train"),
        ("A JobSet as JSON, for a program", "retry-policy explain ml/jobset/train -o json"),
        ("Without access to the cluster, from a dump", "retry-policy explain -f dump.yaml"),
    ),
    options_metavar="[OPTIONS]",
)
@workload_argument("workload", ROOTS, required=False)
@click.option("-f", "files", multiple=True, metavar="FILE|FOLDER|-", help="Objects as kubectl get -o yaml prints them.")
@click.option("-o", "output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@kubeconfig_option
def explain(workload: str | None, files: tuple[str, ...], output: str, kubeconfig: Kubeconfig) -> None:
    """Print what every attempt of a Job, JobSet or PipelineRun cost, why, and what is left; of a CronJob its last Jobs.

    Reads the cluster, or with -f files with the workload, its Jobs or TaskRuns, and its pods. The kind can be left out
    if one object has the name. Exit 0, or 2 if there is no such workload or it cannot be read.
    """
    if not files and workload is None:
        raise click.UsageError("no workload is named; name one as NAMESPACE/[KIND/]NAME, or a file with -f")
    target = None if workload is None else object_argument(workload, ROOTS)
    try:
        if files or target is None:
            stdin = io.BytesIO() if sys.stdin is None else sys.stdin.buffer
            explanations = of_files(files, stdin, target)
        else:
            explanations = [of_cluster(kubeconfig, target)]
    except UnexplainableError as error:
        click.echo(printable(str(error)), err=True)
        sys.exit(UNUSABLE)
    for number, explanation in enumerate(explanations):
        if output == "json":
            click.echo(render.as_json(explanation))
        else:
            table.show([*([""] if number else []), *parts_of(explanation)])


def parts_of(explanation: Explained) -> Iterable[Part]:
    """Return an explanation for people: lines, and a table."""
    if isinstance(explanation, CronJobExplanation):
        return build_cron_job.parts(explanation)
    return render.parts(explanation)


class UnexplainableError(Exception):
    """There is no workload to explain; the message says why, and what to do."""


def of_cluster(kubeconfig: Kubeconfig, target: ObjectArgument) -> Explained:
    """Explain a workload of the cluster; raise UnexplainableError; exit 2 if the cluster cannot be asked."""
    from webhook.cli.cluster import NotOneError, ask, find, kubeconfig_or_default  # noqa: PLC0415 - see below
    from webhook.explain.load import load  # noqa: PLC0415 - half a second that files save
    from webhook.kube.client import Api  # noqa: PLC0415 - likewise

    file = kubeconfig_or_default(kubeconfig)

    async def loaded() -> tuple[Json, list[Json], list[Json]]:
        async with await Api.connect(file) as api:
            return await load(api, *await find(api, target, ROOTS))

    try:
        return explained(*ask(file, loaded()))
    except NotOneError as error:
        raise UnexplainableError(str(error)) from None
    except ValueError as error:
        remedy = "a new one starts when the next attempt ends"
        raise UnexplainableError(f"the account of {target} cannot be read: {error}; {remedy}") from None


def of_files(files: tuple[str, ...], stdin: BinaryIO, only: ObjectArgument | None) -> list[Explained]:
    """Explain all workloads in files, or the one that `only` names; raise UnexplainableError."""
    progress = Progress()
    found = [one for file in files for one in read(file, stdin, progress)]
    progress.clear()
    parts = by_label(found)
    roots = [root for root in found if is_root(root) and (only is None or is_target(root, only))]
    if only is not None and len({root["kind"] for root in roots}) > 1:
        choice = one_of([f"{only.namespace}/{root['kind'].lower()}/{only.name}" for root in roots])
        raise UnexplainableError(f"several objects are named {only} in {', '.join(files)}; write {choice}")
    if not roots:
        what = f"there is no {one_of([row.kind for row in ROOTS])}" + (f" {only}" if only is not None else "")
        raise UnexplainableError(f"{what} in {', '.join(files)}; write it there with {DUMP}")
    return [of_objects(root, parts) for root in roots]


def is_target(root: Json, only: ObjectArgument) -> bool:
    """Return True if a user who names `only` means this object."""
    is_kind = only.row is None or only.row.kind == root["kind"]
    return is_kind and (namespace_of(root), root["metadata"].get("name")) == (only.namespace, only.name)


def by_label(found: list[Json]) -> Labelled:
    """Return the objects by the labels that name their workload: searching all for each takes quadratic time."""
    labelled: Labelled = {}
    for one in found:
        labels = one["metadata"].get("labels")
        for label in PARTS_LABELS if isinstance(labels, dict) else ():
            if isinstance(name := labels.get(label), str):
                labelled.setdefault((namespace_of(one), label, name), []).append(one)
        if uid := owner_of(one):
            labelled.setdefault((namespace_of(one), OWNER, uid), []).append(one)
    return labelled


def owner_of(found: Json) -> str:
    """Return the uid of the controller of a Job; empty without."""
    try:
        controller = controller_of(found) if is_job(found) else None
    except (AttributeError, TypeError):  # of something else than an owner
        return ""
    return "" if controller is None or not isinstance(controller.uid, str) else controller.uid


def is_root(found: Json) -> bool:
    """Return True if an object is a workload to explain: a JobSet, a PipelineRun, or a Job outside a JobSet."""
    if found["kind"] in LABELS or found["kind"] == batch.CRON_JOB.kind:
        return True
    try:
        return is_job(found) and not is_of_set(found)
    except (AttributeError, TypeError):  # of something else than an owner
        return True


def of_objects(root: Json, labelled: Labelled) -> Explained:
    """Explain a workload by the objects of the same files; raise UnexplainableError."""
    namespace, name = namespace_of(root), root["metadata"].get("name")
    label = LABELS.get(root["kind"], batch.JOB_NAME)
    its_own = labelled.get((namespace, label, name), []) if isinstance(name, str) else []
    pods = [one for one in its_own if one["kind"] == core.POD.kind]
    parts = [root] if is_job(root) else [one for one in its_own if is_job(one) or one["kind"] in TASKS]
    if root["kind"] == batch.CRON_JOB.kind:
        uid = root["metadata"].get("uid")
        parts = labelled.get((namespace, OWNER, uid), []) if isinstance(uid, str) and uid else []
    try:
        return explained(root, parts, pods)
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, IndexError) as error:
        raise UnexplainableError(
            f"{namespace}/{name} is not as the API writes it: {error!r}; write it with kubectl get -o yaml"
        ) from None


def explained(root: Json, parts: list[Json], pods: list[Json]) -> Explained:
    """Explain a workload by its Jobs or TaskRuns, and their pods."""
    if root.get("kind") == batch.CRON_JOB.kind:
        return build_cron_job.explain(root, parts)
    if root.get("kind") == tekton.PIPELINE_RUN.kind:
        return build_pipeline_run.explain(root, parts, pods)
    return build(root, parts, pods)


def read(file: str, stdin: BinaryIO, progress: Progress) -> Iterator[Json]:
    """Yield the workloads, Jobs, task runs and pods in a file; raise UnexplainableError if it cannot be read."""
    try:
        for found in documents.read(file, stdin):
            progress.show(f"{found.file}: document {found.number or 0:,}")
            if not isinstance(found, documents.Document):
                progress.clear()
                raise UnexplainableError(str(found))
            for _, one in found.objects():
                if one["kind"] in READ and isinstance(one.get("metadata"), dict):
                    yield one
    except OSError as error:
        raise UnexplainableError(str(documents.unreadable(file, error))) from None


def is_job(found: Json) -> bool:
    """Return True if an object is a Job."""
    return bool(found["kind"] == batch.JOB.kind)


def is_of_set(job: Json) -> bool:
    """Return True if the controller of a Job is a JobSet."""
    controller = controller_of(job)
    return controller is not None and controller.kind == JOB_SET.kind


def namespace_of(found: Json) -> str:
    """Return an object's namespace; empty if it has none."""
    namespace = found["metadata"].get("namespace")
    return namespace if isinstance(namespace, str) else ""
