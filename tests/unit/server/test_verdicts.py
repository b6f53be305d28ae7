"""How long the leader waits before it says what a crash was."""

from tests.objects import job, job_spec
from webhook.policy.model import Profile
from webhook.policy.settings import Settings
from webhook.server import verdicts
from webhook.workloads.batch import QUEUE_NAME

SETTINGS = Settings(profile_name="default", profile=Profile())


def test_a_crash_is_waited_with_only_where_the_loss_of_another_pod_may_explain_it() -> None:
    alone = job(job_spec(), labels={QUEUE_NAME: "team"})
    together = job(job_spec(completionMode="Indexed", completions=4, parallelism=4), labels={QUEUE_NAME: "team"})
    assert all(verdicts.may_settle(one, SETTINGS) for one in (alone, together))
    assert (verdicts.window(alone, SETTINGS), verdicts.window(together, SETTINGS)) == (0, 30)
