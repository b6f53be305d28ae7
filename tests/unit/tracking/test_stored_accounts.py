"""Which Account is about which workload."""

import msgspec

from tests.accounts import stored
from tests.unit.accounts.pods import job
from tests.unit.controller.leader import KEY, FakeApi, api_of
from tests.virtual_time import run
from webhook.accounts.account import Account
from webhook.accounts.cached import CachedJob
from webhook.accounts.cached_account import trimmed_account
from webhook.accounts.stored import encode
from webhook.kube.names import RETRY_OF
from webhook.systems.job import spec as batch
from webhook.tracking.cluster import Cluster
from webhook.tracking.stored_accounts import StoredAccounts

JOB = job()
FOUND = Account(ended=7, cost={"retry": 7})


def accounts() -> StoredAccounts:
    """Return the Accounts of a cluster with that of one Job."""
    found = StoredAccounts(Cluster(api_of(FakeApi())), lambda: 0.0)
    root = stored(batch.JOB, JOB, FOUND)
    one = trimmed_account({**root, "status": msgspec.Raw(msgspec.json.encode(root["status"]))})
    found.items["ml", root["metadata"]["name"]] = one
    found.see(one)
    return found


def test_a_job_has_the_account_about_its_uid_alone() -> None:
    found, another = accounts(), {**JOB, "metadata": {**JOB["metadata"], "uid": "another"}}
    assert found.text_of(KEY, JOB) == encode(FOUND)
    assert found.holds(KEY, JOB, encode(FOUND))
    assert found.text_of(KEY, CachedJob(another)) is None


def test_a_job_that_replaces_a_failed_one_goes_on_with_its_account_but_does_not_hold_it() -> None:
    found, uid = accounts(), JOB["metadata"]["uid"]
    replacing = {**JOB["metadata"], "uid": "another", "annotations": {RETRY_OF: uid}}
    assert found.text_of(KEY, CachedJob({**JOB, "metadata": replacing})) == encode(FOUND)
    assert not found.holds(KEY, {**JOB, "metadata": replacing}, encode(FOUND))


def test_the_account_of_a_deleted_job_is_found_until_it_is_deleted_itself() -> None:
    found, uid = accounts(), JOB["metadata"]["uid"]
    about = found.account_about("ml", uid)
    assert about is not None
    assert found.account_about("another", uid) is None
    found.forget(about)
    assert found.account_about("ml", uid) is None


def test_an_account_that_was_deleted_during_a_gap_in_the_watch_is_forgotten() -> None:
    async def work() -> list[str]:
        found = accounts()
        await found.forget_gone()
        kept = list(found.names)
        found.items.clear()
        await found.forget_gone()
        assert not found.names
        return kept

    assert run(work()) == [JOB["metadata"]["uid"]]
