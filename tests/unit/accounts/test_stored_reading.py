"""The account of a workload is read from its Account alone, and begins anew once for each requested retry."""

import msgspec
import pytest

from tests.accounts import stored
from tests.unit.controller.leader import KEY
from webhook.accounts.account import Account
from webhook.accounts.stored import account_in, account_of, begun, decode, encode, is_account
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.tracking.workload_state import read

ROOT: Json = {"metadata": {"namespace": "ml", "name": "train", "uid": "job-uid"}}
SPENT = Account(ended=3, cost={"retry": 2, "fatal": 1})
AT = "2026-01-01T01:00:00Z"


def retried(*times: str) -> Json:
    text = msgspec.json.encode([{"at": time, "by": "alice", "of": "x"} for time in times]).decode()
    return {"metadata": {**ROOT["metadata"], "annotations": {names.RETRY_HISTORY: text}}}


def test_of_several_accounts_only_its_own_is_read() -> None:
    others = [
        stored(JOB_SET, ROOT, Account(ended=7)),
        stored(batch.JOB, {"metadata": {**ROOT["metadata"], "uid": "former"}}, Account(ended=8)),
        stored(batch.JOB, ROOT, Account(ended=9), ownerReferences=[]),
        {"kind": "Pod", "metadata": {}},
    ]
    assert account_of(batch.JOB, ROOT, others) == Account()
    assert account_of(batch.JOB, ROOT, [*others, stored(batch.JOB, ROOT, SPENT)]) == SPENT


def test_an_account_without_a_status_is_empty_and_a_malformed_one_is_refused() -> None:
    assert account_in(stored(batch.JOB, ROOT), ROOT) == account_in(None, ROOT) == Account()
    with pytest.raises(ValueError, match="Expected `int`"):
        account_in({**stored(batch.JOB, ROOT), "status": {"attempts": "two"}}, ROOT)


def test_after_each_requested_retry_the_budgets_begin_anew_once() -> None:
    found = stored(batch.JOB, ROOT, SPENT)
    first = account_in(found, retried(AT))
    assert (first.spent("retry"), first.spent_now("retry"), first.requested_at) == (2, 0, AT)
    first.cost["retry"] = 3
    again = stored(batch.JOB, ROOT, first)
    assert account_in(again, retried(AT)).spent_now("retry") == 1
    assert account_in(again, retried(AT, "2026-01-02T00:00:00Z")).spent_now("retry") == 0


@pytest.mark.parametrize("text", ["yesterday", "9999-12-31T23:59:59Z", "2026-01-01T00:00:00", "x" * 1000])
def test_a_retry_without_a_time_resets_nothing(text: str) -> None:
    assert account_in(stored(batch.JOB, ROOT, SPENT), retried(text)).spent_now("retry") == 2
    assert begun(encode(SPENT), text) == encode(SPENT)


def test_only_our_objects_are_accounts() -> None:
    assert is_account(stored(batch.JOB, ROOT))
    assert not is_account({"apiVersion": "other.test/v1", "kind": "Account"})
    assert not is_account({"apiVersion": ["retry-policy.dev/v1"], "kind": "Account"})


def test_an_account_that_cannot_be_read_begins_anew() -> None:
    assert read(KEY, "") == Account()
    assert read(KEY, encode(SPENT)) == decode(encode(SPENT))
