"""The server's own certificates: their permissions, reports of missing ones, and clocks that differ a little."""

import json
from functools import partial
from pathlib import Path
from urllib.request import urlopen

from certs.store import Shared
from tests.awaiting import until
from tests.cluster import binaries, rights
from tests.cluster.installation import BASE, CONTROLLER_ACCOUNT, SYSTEM, built
from tests.cluster.kubectl import Kubectl
from tests.cluster.test_webhook_install import CERTIFICATES
from tests.faults.installed import SECRET
from tests.faults.stage import ANNOUNCEMENT, Replica, Stage, controller_of
from tests.faults.test_rotation import leaf_due

ROLE = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{SYSTEM}/roles/retry-policy-controller"
EVENTS = f"/api/v1/namespaces/{SYSTEM}/events"


def test_a_controller_uses_exactly_the_permissions_for_certificates_that_it_has(stage: Stage, tmp_path: Path) -> None:
    kubectl = Kubectl(
        binaries.build(binaries.own_cluster())["kubectl"], stage.folder / "credentials" / "admin.kubeconfig"
    )
    own = rights.granted(built(kubectl, BASE), CONTROLLER_ACCOUNT)
    granted = {right for right in own if right[2] in CERTIFICATES}
    with rights.recording(kubectl, tmp_path, CONTROLLER_ACCOUNT) as (kubeconfig, recorded):
        replica = stage.start(ANNOUNCEMENT, in_balancer=False, of_controller=kubeconfig)
        stage.until_settled(replica)
        before = stage.good()
        stage.api.delete(SECRET)
        until(lambda: stage.shared() not in {None, before})
        stage.until_settled(replica)
        assert {right for right in rights.used(recorded(), granted) if right[2] in CERTIFICATES} == granted
        assert "403" not in {request["status"][:3] for request in recorded()}


def test_a_forbidden_certificate_renewal_is_reported_counted_and_retried_and_no_admission_is_lost(stage: Stage) -> None:
    replicas = stage.two_replicas()
    role = stage.api.get(ROLE)
    (rule,) = (index for index, rule in enumerate(role["rules"]) if "update" in rule["verbs"])
    place = f"/rules/{rule}/verbs/{role['rules'][rule]['verbs'].index('update')}"
    with stage.under_load("renewal refused for lack of permissions") as watched:
        stage.api.edit(ROLE, [{"op": "remove", "path": place}])
        try:
            due = leaf_due(stage.good())
            stage.put(due)
            until(lambda: has_event(stage))
            for replica in replicas:
                assert "cannot update resource" in stage.logs(replica)
                assert 'retry_policy_certificate_renewals_total{result="bad"}' in metrics(stage, replica)
        finally:
            stage.api.edit(ROLE, [{"op": "add", "path": place, "value": "update"}])
        until(partial(renewed, stage, due))
        stage.until_settled(*replicas)
    assert watched.tally.lost == 0, watched.tally


def renewed(stage: Stage, due: Shared) -> bool:
    return stage.good().leaf != due.leaf


def metrics(stage: Stage, replica: Replica) -> str:
    address = json.loads(stage.answer(controller_of(replica.name)).read_text())["http"]
    with urlopen(f"{address}/metrics") as answer:  # noqa: S310 - of a server on this machine
        text: str = answer.read().decode()
    return text


def has_event(stage: Stage) -> bool:
    """Return True if an Event on the Secret reports a forbidden renewal."""
    return any(
        event["reason"] == "CertificateNotRenewed"
        and event["involvedObject"]["name"] == SECRET.rpartition("/")[2]
        and "cannot update resource" in event["message"]
        for event in stage.api.get(EVENTS)["items"]
    )


def test_with_clocks_five_minutes_behind_and_ahead_certificates_are_renewed_and_no_admission_is_lost(
    stage: Stage, tmp_path: Path
) -> None:
    clocks = tmp_path / "behind", tmp_path / "ahead"
    for clock, seconds in zip(clocks, ("300", "-300"), strict=True):
        clock.write_text(seconds)
    replicas = [stage.start(ANNOUNCEMENT, f"--clock={clock}") for clock in clocks]
    stage.until_endpoints(*replicas)
    stage.until_effective()
    with stage.under_load("clocks five minutes behind and ahead") as watched:
        watched.tries = 3
        for _ in range(watched.tries):
            due = leaf_due(stage.good())
            stage.put(due)
            until(partial(renewed, stage, due))
            stage.until_settled(*replicas)
            watched.until_sent()
    assert watched.tally.lost == 0, watched.tally
