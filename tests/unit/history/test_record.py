"""A record of history is one line that another program can read, and a line of anybody cannot do harm."""

import msgspec
import pytest

from webhook.history import record
from webhook.history.record import LONGEST, MOST_RESOURCES, VERSION, AttemptRecord, WorkloadRecord

ATTEMPT = AttemptRecord(
    version=VERSION,
    namespace="ml",
    kind="Job",
    workload="train",
    workload_uid="1",
    uid="2",
    pod="train-x",
    cause="Disruption",
    reason="PreemptionByScheduler",
    cost="disruption",
    seconds=12.5,
    resources={"cpu": 4.0},
)
WORKLOAD = WorkloadRecord(
    version=VERSION,
    namespace="ml",
    kind="Job",
    workload="train",
    workload_uid="1",
    created="2026-11-21T14:00:00Z",
    end="2026-11-21T15:00:00Z",
    outcome="Failed",
    reason="PodFailurePolicy",
)


@pytest.mark.parametrize("one", [ATTEMPT, WORKLOAD], ids=["attempt", "workload"])
def test_a_record_is_read_as_it_was_written(one: record.Record) -> None:
    assert record.decode(record.encode(one)) == one


def test_a_record_says_its_type_and_version_and_leaves_out_what_is_not_known() -> None:
    written = msgspec.json.decode(record.encode(ATTEMPT))
    assert (written["type"], written["version"]) == ("Attempt", 1)
    assert "node" not in written
    assert "price" not in written


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{}", "type"),
        (b'{"type": "Attempt"', "truncated"),
        (record.encode(msgspec.structs.replace(ATTEMPT, version=2)), "version 2 of the record is not known"),
        (record.encode(msgspec.structs.replace(ATTEMPT, pod="p" * 321)), "pod"),
        (record.encode(msgspec.structs.replace(ATTEMPT, seconds=-1.0)), "seconds"),
        (
            record.encode(
                msgspec.structs.replace(ATTEMPT, resources={str(one): 1.0 for one in range(MOST_RESOURCES + 1)})
            ),
            "resources",
        ),
        (b" " * LONGEST + record.encode(ATTEMPT), "longer than 4096 bytes"),
    ],
)
def test_a_line_that_is_no_record_is_refused_with_its_reason(line: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        record.decode(line)
