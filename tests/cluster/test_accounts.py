"""Accounts as people read them with kubectl, and that nobody else can write them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.awaiting import LONGEST, until
from tests.cluster.conftest import opted_in
from tests.cluster.manifests import exits, job
from tests.cluster.objects import ACCOUNT, ended

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace


def failed_job(team: Namespace) -> Object:
    """Return the Account of a Job whose only retry was spent."""
    team.create(job("train", exits(143, 143), backoffLimit=1))
    return dict(team.wait_for("jobs", "train", lambda found: ended(found, 2))[ACCOUNT])


def test_kubectl_prints_what_is_spent_and_left_and_the_last_cause(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    failed_job(team)
    head, row = team.run("get", "acct").stdout.splitlines()
    assert head.split() == [
        *("NAME", "KIND", "WORKLOAD", "ATTEMPTS", "RETRIES", "LEFT", "DISRUPTIONS", "LEFT"),
        *("LAST", "CAUSE", "NODE", "AGE"),
    ]
    _, kind, name, attempts, retries, left, disruptions, *rest = row.split()
    assert (kind, name, attempts, retries, left, disruptions) == ("Job", "train", "2", "1", "0", "0")
    assert rest[1:4] == ["ExitCode", "main", "143"]
    sort = team.run("get", "accounts", "--sort-by=.status.lost.seconds")
    assert sort.returncode == 0, sort.stderr


def test_kubectl_waits_for_conditions_and_explains_fields(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    name = failed_job(team)["metadata"]["name"]
    for condition in ("RetriesExhausted", "Failed", "Suspended=false"):
        waited = team.run("wait", f"account/{name}", f"--for=condition={condition}", f"--timeout={LONGEST:g}s")
        assert waited.returncode == 0, waited.stderr
    explained = team.run("explain", "account.status.disruptions.left")
    assert "How many the scope of the last pod had left" in explained.stdout


def test_a_workload_without_a_failure_has_no_account_and_an_account_goes_with_its_workload(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace)
    team.create(job("good", exits(0)))
    found = failed_job(team)
    assert [one["metadata"]["name"] for one in team.get("accounts")["items"]] == [found["metadata"]["name"]]
    team.run("delete", "job", "train")
    until(lambda: team.get("accounts")["items"] == [])


def test_users_may_view_accounts_and_nobody_but_the_controller_may_write_them(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    found = failed_job(team)
    team.bind("ClusterRole/edit", "User", "eve")
    until(lambda: team.run("auth", "can-i", "list", "accounts.retry-policy.dev", "--as=eve").stdout == "yes\n")
    for verb in ("create", "update", "patch", "delete"):
        assert team.run("auth", "can-i", verb, "accounts.retry-policy.dev", "--as=eve").stdout == "no\n"
    name = found["metadata"]["name"]
    for patch in ({"status": {"attempts": 0}}, {"metadata": {"ownerReferences": [{"uid": "x"}]}}, {"status": None}):
        assert team.patched(f"account/{name}", patch)  # as cluster-admin
    copy = {**found, "metadata": {"name": "copy", "namespace": team.name}}
    assert "is written by the ledger alone" in team.run("create", "-f", "-", stdin=json.dumps(copy)).stderr
    assert team.get("accounts", name)["status"] == found["status"]
