"""What the doctor finds about the Leases."""

import pytest

from tests.unit.doctor.healthy import NOW, healthy, lease, told, wrong
from webhook.doctor.checks.leader import leases
from webhook.doctor.shipped import LEDGER, REQUESTED_RETRIES, NeededRight
from webhook.doctor.snapshot import SeenLease


@pytest.mark.parametrize("seen", [lease(0), lease(9), lease(-3), lease(12, renewed=True)], ids=repr)
def test_a_lease_that_is_renewed_is_right(seen: SeenLease) -> None:
    assert wrong(leases, healthy(leases=[seen])) == []


@pytest.mark.parametrize(
    ("seen", "status", "what"),
    [
        (lease(-240), "problem", "the clock of pod-0_uid is 240 s ahead of the API server's clock"),
        (lease(400, renewed=True), "problem", "is 400 s behind the API server's clock"),
        (lease(400, renewed=False), "problem", "was not renewed for 400 s: pod-0_uid has ended"),
        (lease(holder=""), "warning", "is held by no replica, so none writes the ledger"),
        (lease(holder="", renewed=False), "problem", "is held by no replica, so none writes the ledger"),
        (SeenLease(LEDGER, None, NOW), "warning", "does not exist: no replica has ever led"),
        (lease(400, REQUESTED_RETRIES, renewed=False), "problem", "so none runs requested retries"),
    ],
)
def test_a_lease_that_is_not_renewed_or_a_wrong_clock_is_named(seen: SeenLease, status: str, what: str) -> None:
    found = told(leases, healthy(leases=[seen]))
    assert found[0] == status
    assert what in found[1]
    assert found[2].startswith("kubectl -n retry-policy-system ")


def test_a_leader_that_may_not_write_the_ledger_is_not_right() -> None:
    right = NeededRight(LEDGER, "", "batch", "jobs", "", "patch")
    status, text, _ = told(leases, healthy(missing_rights=[right]))
    assert status == "warning"
    assert text.endswith("pod-0_uid leads, renewed 1 s ago, and lacks permissions that the ledger needs")


def test_the_pod_whose_clock_is_wrong_is_in_the_command() -> None:
    assert "get pod pod-0 -o wide" in told(leases, healthy(leases=[lease(-240)]))[2]


def test_without_the_kind_of_accounts_nothing_is_counted() -> None:
    status, what, _ = told(leases, healthy(kinds={("batch", "jobs"): ["v1"]}))
    assert status == "problem"
    assert what == "CustomResourceDefinition accounts.retry-policy.dev: does not exist: nothing is counted"
