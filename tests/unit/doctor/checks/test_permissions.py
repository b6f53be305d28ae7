"""What the doctor finds about the permissions of the server and the policies that limit them."""

from copy import deepcopy

import pytest

from tests.unit.doctor.healthy import NOW, healthy, told, wrong
from webhook.doctor.checks.permissions import check
from webhook.doctor.shipped import LEDGER, NAME, NeededRight
from webhook.doctor.snapshot import SeenLease
from webhook.objects.problem import Json

LIST_JOBS = NeededRight(NAME, "", "batch", "jobs", "", "list")
PATCH_JOBS = NeededRight(LEDGER, "", "batch", "jobs", "", "patch")


def policies() -> list[Json]:
    found = deepcopy(healthy().admission_policies)
    assert found is not None
    return found


def test_nothing_is_wrong_with_all_permissions_and_policies() -> None:
    assert wrong(check, healthy()) == []


@pytest.mark.parametrize(
    ("right", "status", "what"),
    [
        (LIST_JOBS, "problem", f"lacks permissions of the role {NAME}: list jobs.batch"),
        (PATCH_JOBS, "problem", "patch jobs.batch; without all of them no disruption is counted or limited"),
    ],
)
def test_a_missing_permission_is_named_with_its_role(right: NeededRight, status: str, what: str) -> None:
    found = told(check, healthy(missing_rights=[right]))
    assert found[0] == status
    assert what in found[1]
    assert found[2].startswith("kubectl apply -k manifests/base")


def test_without_all_permissions_of_the_ledger_and_without_a_leader_they_are_left_out_on_purpose() -> None:
    rights = [one for one in healthy().installed.rights if one.role == LEDGER]
    never_led = [SeenLease(LEDGER, None, NOW)]
    assert told(check, healthy(missing_rights=rights, leases=never_led))[0] == "warning"
    assert told(check, healthy(missing_rights=rights))[0] == "problem"  # a replica has led: they were deleted
    assert told(check, healthy(missing_rights=rights[1:], leases=never_led))[0] == "problem"


def test_the_verbs_of_a_resource_are_shown_together() -> None:
    text = told(check, healthy(missing_rights=[LIST_JOBS, LIST_JOBS._replace(verb="get")]))[1]
    assert text.endswith(f"lacks permissions of the role {NAME}: list/get jobs.batch")


def test_a_policy_that_is_missing_is_a_warning() -> None:
    status, text, _ = told(check, healthy(admission_policies=policies()[1:]))
    assert status == "warning"
    assert "retry-policy-webhook-pods: do not exist" in text


def test_a_policy_that_was_edited_is_a_warning() -> None:
    found = policies()
    found[0]["spec"]["validations"] = []
    assert "retry-policy-webhook-pods: differ from" in told(check, healthy(admission_policies=found))[1]


@pytest.mark.parametrize("edit", [{"validationActions": ["Audit"]}, {"matchResources": {"x": {}}}])
def test_a_policy_that_denies_nothing_is_a_warning(edit: Json) -> None:
    bindings = deepcopy(healthy().admission_bindings)
    assert bindings
    bindings[0]["spec"] |= edit
    assert (
        "have no ValidatingAdmissionPolicyBinding that denies" in told(check, healthy(admission_bindings=bindings))[1]
    )


def test_what_could_not_be_read_is_not_judged() -> None:
    assert list(check(healthy(missing_rights=None, admission_policies=None))) == []
