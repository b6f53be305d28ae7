"""Which section comes first if several have problems."""

from typing import Any

import pytest

from tests.unit.doctor.healthy import deployment, healthy, lease, namespace
from webhook.doctor.judge import causes, judge
from webhook.doctor.shipped import LEDGER, NAME, NAMESPACE, NeededRight

BROKEN: Any = [{"metadata": {}, "data": {"policy.yaml": "[]"}}]
LACKING = [NeededRight(NAME, "", "batch", "jobs", "", "list")]
GONE: Any = [lease(400, renewed=False)]
ASKED: Any = {"asked": "web", "namespaces": [namespace("web")]}


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        (
            {"deployment": deployment(wanted=0, ready=0), "config_maps": BROKEN, "missing_rights": LACKING},
            "Installation",
        ),
        ({"deployment": {}, "deployments": [], "leases": GONE, **ASKED}, "Installation"),
        ({"deployment": deployment(wanted=2, ready=0), "config_maps": BROKEN}, "Policy"),
        ({"deployment": deployment(wanted=2, ready=0), "certificates": [], **ASKED}, "Certificate"),
        (
            {"deployment": deployment(wanted=2, ready=0), "config_maps": BROKEN, "missing_rights": LACKING},
            "Permissions",
        ),
        ({"deployment": deployment(wanted=2, ready=0), "leases": GONE}, "Installation"),
        ({"missing_rights": [NeededRight(LEDGER, "", "batch", "jobs", "", "patch")], "leases": GONE}, "Permissions"),
        ({"mutating": [], **ASKED}, "Webhooks"),
    ],
    ids=str,
)
def test_the_section_that_explains_the_others_comes_first(changes: Any, first: str) -> None:
    sections = judge(healthy(**changes))
    assert sections[0].title == first
    assert sections[0].findings[0].status == "problem"


def test_without_a_ready_replica_its_own_causes_come_before_the_lack_of_it() -> None:
    found = list(causes(healthy(deployment=deployment(wanted=2, ready=0))))
    assert found.index("Policy") < found.index("Certificate") < found.index("Installation")
    assert "Installation" not in causes(healthy())


def test_a_single_section_with_problems_stays_where_it_is() -> None:
    assert judge(healthy(missing_rights=LACKING))[0].title == "Installation"


def test_in_a_section_without_replicas_the_deployment_comes_first() -> None:
    found = judge(healthy(deployment=deployment(wanted=0, ready=0), slices=[], pods=[]))[0].findings
    assert found[0].where == f"Deployment {NAMESPACE}/{NAME}"
