"""How long the work of a new Job takes, if its author names a deadline alone."""

from copy import deepcopy

from msgspec.structs import replace

from tests.admission import OPTED_IN, mutate, validate
from tests.objects import cron_job, job
from tests.unit.accounts.pods import running_pod
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.pods.work_history import WorkHistory
from webhook.rules.facts import Facts


def after(seconds: float) -> Facts:
    """Return facts after three Jobs whose pods have worked so long."""
    history = WorkHistory()
    for uid in "abc":
        history.seen(replace(running_pod(), phase="Succeeded", job="train", job_uid=uid, attempt=0, worked=seconds))
    return replace(OPTED_IN, work_history=history)


def new(**said: str) -> Json:
    return job(annotations={names.PREFIX + key: value for key, value in said.items()})


def work_of(root: Json) -> tuple[str | None, str | None]:
    """Return how long the work of a Job takes, and by which Jobs."""
    annotations = root["metadata"]["annotations"]
    return annotations.get(names.WORK), annotations.get(names.WORK_SOURCE)


def test_a_job_with_a_deadline_alone_takes_as_long_as_earlier_ones_and_says_so() -> None:
    found = mutate(new(deadline="2x"), after(3600))
    assert work_of(found.object) == ("3600s", "95 % of the last 3 Jobs named train")
    assert found.warnings == []


def test_a_deadline_that_earlier_jobs_have_missed_refuses_no_job_and_warns() -> None:
    found = mutate(new(deadline="1h"), after(7200))
    of_earlier = "less than the 7200s of 95 % of the last 3 Jobs named train"
    assert work_of(found.object) == ("3600s", f"the deadline allows: {of_earlier}")
    (warning,) = found.warnings
    assert f"1h is {of_earlier}" in warning
    assert validate(found.object, OPTED_IN).allowed


def test_what_an_author_says_of_the_work_stays() -> None:
    assert work_of(mutate(new(deadline="2x", work="5h"), after(3600)).object) == ("5h", None)


def test_a_skipped_job_gets_none() -> None:
    assert work_of(mutate(new(deadline="2x", skip="true"), after(3600)).object) == (None, None)


def test_where_no_earlier_job_tells_it_a_warning_says_what_to_do() -> None:
    for facts in (OPTED_IN, replace(OPTED_IN, work_history=WorkHistory())):
        (warning,) = mutate(new(deadline="2x"), facts).warnings
        assert "has no effect yet: nothing says how long the work takes; say it in retry-policy.dev/work" in warning


def test_a_second_admission_and_an_update_write_nothing_more() -> None:
    stored = mutate(new(deadline="2x"), after(3600)).object
    assert work_of(mutate(stored, after(7200)).object) == work_of(stored)
    assert work_of(mutate(new(deadline="2x"), after(7200), old=new()).object) == (None, None)


def test_a_manifest_that_replaces_a_job_keeps_what_was_written() -> None:
    stored = mutate(new(deadline="2x"), after(3600)).object
    replaced = mutate(new(deadline="2x"), after(7200), old=stored)
    assert work_of(replaced.object) == work_of(stored)
    assert work_of(mutate(new(), after(7200), old=stored).object) == (None, None)


def test_what_an_author_writes_over_it_has_no_source() -> None:
    stored = mutate(new(deadline="2x"), after(3600)).object
    changed = deepcopy(stored)
    changed["metadata"]["annotations"][names.WORK] = "5h"
    assert work_of(mutate(changed, after(3600), old=stored).object) == ("5h", None)


def test_the_template_of_a_cron_job_gets_none_because_its_jobs_do() -> None:
    root = cron_job(annotations={names.DEADLINE: "2x"})
    made = mutate(root, after(3600)).object["spec"]["jobTemplate"]
    assert made["metadata"]["annotations"][names.DEADLINE] == "2x"
    assert work_of(made) == (None, None)


def test_a_deadline_alone_is_valid_and_a_checkpoint_alone_is_not() -> None:
    assert validate(new(deadline="2x"), OPTED_IN).allowed
    denied = validate(new(checkpoint="1h"), OPTED_IN)
    assert "[retry-policy.dev/checkpoint]: has no effect without retry-policy.dev/work; say in" in denied.message
