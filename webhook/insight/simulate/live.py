"""Makes records of Jobs, JobSets and pods that exist, as the API has them, or kubectl prints them. Pure.

They have less than history: pods that were evicted are deleted, and only the account of their workload, in its last
attempts, says that they were there. Nodes say capacity and zone.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from webhook.accounts.cached_account import ACCOUNT_READ
from webhook.history.record import VERSION, AttemptRecord, Record, WorkloadRecord
from webhook.history.spec import fields_of
from webhook.insight.report import live, sums
from webhook.insight.report.known import Known, Window
from webhook.insight.report.live import nodes_of
from webhook.insight.report.load import JOB, NODE, POD, SET, Loaded
from webhook.kube import terminal
from webhook.objects.left_out import RAISING, LeftOut
from webhook.objects.problem import Json
from webhook.objects.shape import type_of
from webhook.pods import pods
from webhook.policy.model import Policy
from webhook.systems.job_set.spec import JOB_SET

ACCOUNT: Final[Any] = type_of({"apiVersion": str, "kind": str, **ACCOUNT_READ, "status": {}})
TYPES: Final = {"Job": JOB, "JobSet": SET, "Pod": POD, "Node": NODE, "Account": ACCOUNT}
NAMED: Final = {"Job": ("name", "namespace", "uid"), "Node": ("name",)}  # the fields that an object must have


def loaded(objects: Iterable[Json], left_out: LeftOut = RAISING) -> Loaded:
    """Return what a dump has; objects without a name or a uid, or with fields of a wrong type, are left out."""
    by_kind: dict[str, list[Json]] = defaultdict(list)
    for one in objects:
        kind = one["kind"]
        with left_out.around(kind, one):
            if kind in TYPES and (found := _typed(one, kind)) is not None:
                by_kind[kind].append(found)
    read = []
    for one in by_kind["Pod"]:
        with left_out.around("Pod", one):
            pod = pods.read(one)
            read += [pod] if pod.job else []
    return Loaded(by_kind["Job"], by_kind["JobSet"], read, by_kind["Node"], [], accounts=by_kind["Account"])


def _typed(one: Json, kind: str) -> Json | None:
    """Return the fields of an object that are needed; None if it is not as the API has it."""
    try:
        found: Json = msgspec.convert(one, TYPES[kind])
    except msgspec.ValidationError:
        return None
    known: Any = found.get("metadata") or {}
    return found if all(known.get(name) for name in NAMED.get(kind, NAMED["Job"])) else None


def records_of(found: Loaded, policy: Policy | None, left_out: LeftOut = RAISING) -> Iterator[Record]:
    """Yield the records of the Jobs and JobSets that exist, and of their attempts; `policy`: names spot nodes."""
    nodes = nodes_of(found.nodes, policy, left_out)
    for workload in live.grouped(found.jobs, found.job_sets, found.pods, accounts=found.accounts, left_out=left_out):
        made: list[Record] = []
        with left_out.around(workload.root["kind"], workload.root):
            known, _ = live.known_of(workload, nodes, Window(), sums.row_by_policy(None))
            made = [*attempts_of(known)]
            made += [] if terminal.condition_of(workload.root) is None else [_workload_of(workload.root, known)]
        yield from made


def attempts_of(known: Known) -> Iterator[AttemptRecord]:
    """Yield the attempts of a workload that ended; one whose pod is gone gets a uid."""
    for one in (*known.told, *known.attempts):
        if one.end:
            yield replace(one, uid=one.uid or f"{known.uid}/{one.pod}")


def _workload_of(root: Json, known: Known) -> WorkloadRecord:
    return WorkloadRecord(
        version=VERSION,
        namespace=known.namespace,
        profile=known.profile,
        kind=known.kind,
        workload=known.name,
        workload_uid=known.uid,
        owner=known.owner,
        created=known.created,
        end=known.end,
        outcome="Complete" if known.state == "Complete" else "Failed",
        reason=known.reason,
        **fields_of(root.get("spec") or {}, of_set=known.kind == JOB_SET.kind),
    )
