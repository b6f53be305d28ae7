"""The command retry-policy explain, which reads from the cluster or from files."""

import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import BinaryIO, Final, NamedTuple

import click

from webhook.accounts.stored import is_account
from webhook.capacity.recognition import NodeFacts
from webhook.cli import documents, terminal
from webhook.cli.console import (
    ObjectArgument,
    fail,
    kinds_of,
    kubeconfig_option,
    leaving_out,
    object_argument,
    standard_input,
    workload_argument,
)
from webhook.cli.terminal import Progress, command
from webhook.explain import build, build_cron_job, render
from webhook.explain.build import is_counted_for, placed_by_nodes
from webhook.explain.roots import OTHERS, ROOTS, instead
from webhook.kube.kubeconfig import Kubeconfig
from webhook.objects.columns import Part
from webhook.objects.left_out import LeftOut
from webhook.objects.patch import at
from webhook.objects.problem import Json, one_of
from webhook.systems import core
from webhook.systems.accounts import WITHOUT_JOBS
from webhook.systems.job import spec as batch
from webhook.systems.job.spec import CRON_JOB
from webhook.systems.job_set.spec import JOB_SET, SET_NAME
from webhook.systems.kind_spec import KindSpec, controller_of
from webhook.systems.kinds import full_name, kind_of
from webhook.systems.pods import place_of
from webhook.systems.tekton import rerun as pipeline_run
from webhook.systems.tekton import spec as tekton

LABELS: Final = {JOB_SET: SET_NAME, tekton.PIPELINE_RUN: pipeline_run.LABEL}
PARTS: Final = (batch.JOB, tekton.TASK_RUN, tekton.CUSTOM_RUN)
READ: Final = frozenset({*ROOTS, core.POD, *PARTS})
PARTS_LABELS: Final = (batch.JOB_NAME, *LABELS.values())
DUMP: Final = "kubectl get jobs,pods,accounts -o yaml, or such as workflows,pods,accounts for another kind"

# Objects by namespace, label and the label's value; Jobs also by namespace, OWNER and the uid of their controller; pods
# of other kinds by namespace, COUNTED and the name of the workload that they are counted for; Accounts by namespace,
# ACCOUNT and the uid of their workload.
Labelled = dict[tuple[str, str, str], list[Json]]
OWNER: Final = "controller"
ACCOUNT: Final = "account"
COUNTED: Final = "counted for"


@command(
    ("Why a Job retried as often as it did, and what its next failure does", "retry-policy explain ml/job/train"),
    ("A JobSet as JSON, for a program", "retry-policy explain ml/jobset/train -o json"),
    ("Without access to the cluster, from a dump", "retry-policy explain -f dump.yaml"),
)
@workload_argument("workload", ROOTS, required=False)
@click.option("-f", "files", multiple=True, metavar="FILE|FOLDER|-", help="Objects as kubectl get -o yaml prints them.")
@click.option("-o", "output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@kubeconfig_option
@leaving_out
def explain(
    workload: str | None, files: tuple[str, ...], output: str, kubeconfig: Kubeconfig, left_out: LeftOut
) -> None:
    """Print what every attempt of a workload cost, why, and what is left; of a CronJob its last Jobs.

    A workload is a Job or a JobSet, or one of another kind that the ledger counts, such as a Workflow. Reads the
    cluster, or with -f files with the workload, its Jobs or TaskRuns, and its pods. The kind can be left out if one
    object has the name. Exit 0, or 2 if there is no such workload or it cannot be read.
    """
    if not files and workload is None:
        raise click.UsageError("no workload is named; name one as NAMESPACE/[KIND/]NAME, or a file with -f")
    target = None if workload is None else object_argument(workload, (*ROOTS, *OTHERS))
    if target is not None and target.kind in OTHERS:
        fail(str(instead(target.kind, target.namespace, target.name)))
    try:
        if files or target is None:
            found = of_files(files, standard_input(), target, left_out)
        else:
            found = [_of_cluster(kubeconfig, target, left_out)]
    except UnexplainableError as error:
        fail(str(error))
    is_first = True
    for one in found:
        said = told(one, output, left_out)
        if isinstance(said, str):
            click.echo(said)
        elif said is not None:
            terminal.show([*([] if is_first else [""]), *said])
            is_first = False


def told(found: "Found", output: str, left_out: LeftOut) -> str | list[Part] | None:
    """Return what is printed of a workload: JSON, or lines and a table; None if it is left out."""
    kind, root, parts, pods, nodes = found
    with left_out.around(kind.kind, root):
        if kind is CRON_JOB:
            last_jobs = build_cron_job.explain(root, parts, pods, left_out)
            return render.as_json(last_jobs) if output == "json" else [*build_cron_job.parts(last_jobs)]
        made = placed_by_nodes(build.explain(kind, root, parts, pods, left_out, now=time.time()), nodes)
        return render.as_json(made) if output == "json" else [*render.parts(made)]
    return None


class Found(NamedTuple):
    """A workload of a kind: its Jobs or TaskRuns, and their pods with its Account; of a CronJob without pods.

    `nodes`: those of its pods, by name, as far as they are known.
    """

    kind: KindSpec
    root: Json
    parts: list[Json]
    pods: list[Json]
    nodes: Mapping[str, NodeFacts] = MappingProxyType({})


class UnexplainableError(Exception):
    """There is no workload to explain; the message says why, and what to do."""


def _of_cluster(kubeconfig: Kubeconfig, target: ObjectArgument, left_out: LeftOut) -> Found:
    """Return a workload of the cluster; raise UnexplainableError; exit 2 if the cluster cannot be asked."""
    from webhook.cli.cluster import NotOneError, ask, find, kubeconfig_or_default  # noqa: PLC0415 - see below
    from webhook.explain.load import load, nodes_of  # noqa: PLC0415 - half a second that files save
    from webhook.kube.client import Api  # noqa: PLC0415 - likewise

    file = kubeconfig_or_default(kubeconfig)

    async def loaded() -> Found:
        async with await Api.connect(file) as api:
            api.left_out = left_out
            kind, root, parts, pods = await load(api, *await find(api, target, ROOTS), left_out)
            return Found(kind, root, parts, pods, {} if kind is CRON_JOB else await nodes_of(api, pods))

    try:
        return ask(file, loaded())
    except NotOneError as error:
        raise UnexplainableError(str(error)) from None


def of_files(files: tuple[str, ...], stdin: BinaryIO, only: ObjectArgument | None, left_out: LeftOut) -> list[Found]:
    """Return all workloads in files, or the one that `only` names; raise UnexplainableError."""
    progress = Progress()
    found = [one for file in files for one in _read(file, stdin, progress)]
    progress.clear()
    parts = _by_label(found, left_out)
    roots = [root for root in found if _is_root(root) and (only is None or _is_target(root, only))]
    if only is not None and len({kind_of(root) for root in roots}) > 1:
        choice = one_of([str(only._replace(kind=kind_of(root))) for root in roots])
        raise UnexplainableError(f"several objects are named {only} in {', '.join(files)}; write {choice}")
    if not roots:
        what = f"there is no {kinds_of(ROOTS)}" + (f" {only}" if only is not None else "")
        raise UnexplainableError(f"{what} in {', '.join(files)}; write it there with {DUMP}")
    return [_of_objects(root, parts, left_out) for root in roots]


def _is_target(root: Json, only: ObjectArgument) -> bool:
    is_kind = only.kind is None or only.kind is kind_of(root)
    return is_kind and (_namespace_of(root), root["metadata"].get("name")) == (only.namespace, only.name)


def _by_label(found: list[Json], left_out: LeftOut) -> Labelled:
    """Return the objects by the labels that name their workload: searching all for each takes quadratic time."""
    labelled: Labelled = {}
    for one in found:
        with left_out.around(one["kind"], one):
            for key in _keys_of(one):
                labelled.setdefault((_namespace_of(one), *key), []).append(one)
    return labelled


def _keys_of(found: Json) -> list[tuple[str, str]]:
    labels, kind = found["metadata"].get("labels"), kind_of(found)
    known = labels if isinstance(labels, dict) else {}
    keys = [(label, name) for label in PARTS_LABELS if isinstance(name := known.get(label), str)]
    uid = at(found, ("spec", "uid")) if is_account(found) else None
    if isinstance(uid, str) and uid:
        keys.append((ACCOUNT, uid))
    if kind not in {batch.JOB, core.POD}:
        return keys
    try:
        controller = controller_of(found)
        place = place_of(found["metadata"], controller) if kind is core.POD else None
    except (AttributeError, TypeError):  # of something else than an owner, or than metadata
        return keys
    if kind is batch.JOB and controller is not None and isinstance(controller.uid, str) and controller.uid:
        keys.append((OWNER, controller.uid))
    if place is not None:
        keys.append((_counted_for(place.kind), place.name))
    return keys


def _counted_for(kind: KindSpec) -> str:
    return f"{COUNTED} {full_name(kind, '', '')}"


def _is_root(found: Json) -> bool:
    """Return True if an object is a workload to explain, and neither a Job of a JobSet nor a task of a PipelineRun."""
    kind = kind_of(found)
    if kind not in ROOTS:
        return False
    part_of = {batch.JOB: JOB_SET.kind, tekton.TASK_RUN: tekton.PIPELINE_RUN.kind}.get(kind)
    try:
        controller = controller_of(found)
    except (AttributeError, TypeError):  # of something else than an owner
        return True
    return part_of is None or controller is None or controller.kind != part_of


def _of_objects(root: Json, labelled: Labelled, left_out: LeftOut) -> Found:
    namespace, name, kind = _namespace_of(root), root["metadata"].get("name"), kind_of(root) or batch.JOB
    label = LABELS.get(kind) or (_counted_for(kind) if kind in WITHOUT_JOBS else batch.JOB_NAME)
    its_own = labelled.get((namespace, label, name), []) if isinstance(name, str) else []
    parts = [root] if kind is batch.JOB else [one for one in its_own if kind_of(one) in PARTS]
    if kind is CRON_JOB:
        uid = root["metadata"].get("uid")
        parts = labelled.get((namespace, OWNER, uid), []) if isinstance(uid, str) and uid else []
    pods = []
    for one in its_own:
        with left_out.around(core.POD.kind, one):
            is_pod = kind_of(one) is core.POD
            counts = kind not in WITHOUT_JOBS or kind in LABELS or (is_pod and is_counted_for(one, kind, root))
            pods += [one] if is_pod and counts else []
    uids = [one["metadata"].get("uid") for one in (parts if kind is CRON_JOB else [root])]
    known = [uid for uid in uids if isinstance(uid, str)]
    accounts = [one for uid in known for one in labelled.get((namespace, ACCOUNT, uid), [])]
    return Found(kind, root, parts, [*pods, *accounts])


def _read(file: str, stdin: BinaryIO, progress: Progress) -> Iterator[Json]:
    """Yield the workloads, Jobs, task runs and pods in a file; raise UnexplainableError if it cannot be read."""
    try:
        for found in documents.read(file, stdin):
            progress.show(f"{found.file}: document {found.number or 0:,}")
            if not isinstance(found, documents.Document):
                progress.clear()
                raise UnexplainableError(str(found))
            for _, one in found.objects():
                if (kind_of(one) in READ or is_account(one)) and isinstance(one.get("metadata"), dict):
                    yield one
    except OSError as error:
        raise UnexplainableError(str(documents.unreadable(file, error))) from None


def _namespace_of(found: Json) -> str:
    namespace = found["metadata"].get("namespace")
    return namespace if isinstance(namespace, str) else ""
