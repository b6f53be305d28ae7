"""The records of history: one line of JSON for each attempt that ended, and for each workload that ended.

docs/reference/history.md shows them. A later record about the same uid replaces an earlier one.
"""

from typing import Annotated, Final, Literal

import msgspec

from webhook.policy.attempt_costs import AttemptCost
from webhook.policy.causes import Cause

VERSION: Final = 1
LONGEST: Final = 4096  # bytes of a line; a longer one is not read
MOST_RESOURCES: Final = 6  # of one attempt: cpu, memory, and four extended ones

Cost = Literal["", AttemptCost]
Capacity = Literal["Spot", "OnDemand", ""]

Text = Annotated[str, msgspec.Meta(max_length=320)]
Number = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e18)]
Amounts = Annotated[dict[Text, Amount], msgspec.Meta(max_length=MOST_RESOURCES)]


class Identity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What both records say of a workload: the object that has the account, or what a pod without one belongs to.

    - `version`: of the record; a reader refuses a version that it does not know.
    - `profile`: that of its namespace when the record was written. `kind`: such as Job or Workflow; one that is
      called Job, and is not that of Kubernetes, has `Job.GROUP`. For Airflow's pods DAGRun.
    - `owner`: what controls the workload, as KIND/NAME, such as CronJob/nightly; empty if nothing does.
    """

    version: Annotated[int, msgspec.Meta(ge=1)]
    namespace: Text
    profile: Text = ""
    kind: Text
    workload: Text
    workload_uid: Text
    owner: Text = ""


class AttemptRecord(
    Identity, frozen=True, kw_only=True, omit_defaults=True, rename="camel", tag="Attempt", tag_field="type"
):
    """One pod that ended. Times are RFC 3339.

    - `uid`, `pod`: of the pod. `job`: the Job that owns it; empty if another kind does. `scope`: the part of the
      workload with budgets of its own, as in the account: a completion index, or REPLICATED-JOB/INDEX in a JobSet;
      empty for a Job without indexes; a node in a Workflow.
    - `attempt`: the retries that were spent when the pod was created.
    - `placement`: what the policy decided: Spot, OnDemand or None. `capacity`: that of the node; empty if not known.
    - `labels`: those labels of the node by which the policy's prices choose.
    - `start`: when a kubelet took the pod; empty if none did. `seconds`: from then to `end`.
    - `cause`, `reason`, `cost`, `on_failure`, `retries_left`, `disruptions_left`: as in the account; an attempt that
      succeeded has the cause Succeeded and no cost. `settled`: whether the ledger found later that its end was fatal.
      `saved`: seconds of its work that the next attempt need not repeat.
    - `resources`: what the pod requested: `cpu` in cores, `memory` in bytes, others in their own unit.
    - `price`: what the attempt cost in `currency`, by the policy's prices when it ended; None without prices.
    """

    uid: Text
    pod: Text
    job: Text = ""
    scope: Text = ""
    attempt: Number = 0
    node: Text = ""
    zone: Text = ""
    capacity: Capacity = ""
    labels: Annotated[dict[Text, Text], msgspec.Meta(max_length=5)] = {}
    placement: Text = ""
    created: Text = ""
    start: Text = ""
    end: Text = ""
    seconds: Amount = 0.0
    cause: Cause
    reason: Text = ""
    cost: Cost = ""
    on_failure: Number | None = None
    settled: bool = False
    saved: Number = 0
    retries_left: Number | None = None
    disruptions_left: Number | None = None
    resources: Amounts = {}
    price: Amount | None = None
    currency: Text = ""


class WorkloadRecord(
    Identity, frozen=True, kw_only=True, omit_defaults=True, rename="camel", tag="Workload", tag_field="type"
):
    """One workload that ended: a Job or JobSet with a final condition. Times are RFC 3339.

    - `outcome`: Complete or Failed. `reason`: that of the condition, such as BackoffLimitExceeded.
    - `retries`: its retry budget (`per_index`: that of each index). `completions`, `parallelism`: of a Job; 0 for a
      JobSet. `indexed`: whether each of its pods has a completion index.
    """

    created: Text
    end: Text
    outcome: Literal["Complete", "Failed"]
    reason: Text = ""
    retries: Number | None = None
    per_index: bool = False
    indexed: bool = False
    completions: Number = 0
    parallelism: Number = 0


Record = AttemptRecord | WorkloadRecord

decoder: Final = msgspec.json.Decoder(Record)
encoder: Final = msgspec.json.Encoder()


def encode(record: Record) -> bytes:
    """Return the line of a record, without its line end."""
    return encoder.encode(record)


def decode(line: bytes | str, longest: int = LONGEST) -> Record:
    """Return the record of a line; raise ValueError if it is no record, of another version, or longer than `longest`.

    Other fields beside those of a record are ignored.
    """
    if len(line) > longest:
        raise ValueError(f"longer than {longest} bytes")
    found: Record = decoder.decode(line)
    if found.version != VERSION:
        raise ValueError(f"version {found.version} of the record is not known; this program reads {VERSION}")
    return found
