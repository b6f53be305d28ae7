"""How long the leader waits before it says what a crash was."""

from tests.objects import job, job_spec
from webhook.kinds.batch import QUEUE_NAME
from webhook.ledger import job_failer
from webhook.policy.model import Profile
from webhook.policy.settings import Settings

SETTINGS = Settings(profile_name="default", profile=Profile())


def test_a_crash_is_waited_with_only_where_the_loss_of_another_pod_may_explain_it() -> None:
    alone = job(job_spec(), labels={QUEUE_NAME: "team"})
    together = job(job_spec(completionMode="Indexed", completions=4, parallelism=4), labels={QUEUE_NAME: "team"})
    assert all(job_failer.may_settle(one, SETTINGS) for one in (alone, together))
    assert (job_failer.window(alone, SETTINGS), job_failer.window(together, SETTINGS)) == (0, 30)
