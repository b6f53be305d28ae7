"""How a JobSet ends from outside."""

from webhook.objects.problem import Json
from webhook.systems.job_set.account import JOB_SET
from webhook.systems.system import Write


def job_set(**status: object) -> Json:
    return {"metadata": {"namespace": "ml", "name": "set", "resourceVersion": "7"}, "spec": {}, "status": status}


def test_a_job_set_is_failed_by_its_own_condition_and_not_twice() -> None:
    before = {"type": "Failed", "status": "False"}
    write = JOB_SET.fail(job_set(restarts=2, conditions=[before]), None, "Reason", "message")
    assert isinstance(write, Write)
    _, replaced = write.operations
    (failed,) = replaced["value"]["conditions"]
    assert (failed["type"], failed["status"], failed["message"]) == ("Failed", "True", "message")
    assert (replaced["value"]["restarts"], replaced["value"]["terminalState"]) == (2, "Failed")
    over = job_set(conditions=[{"type": "Completed", "status": "True"}])
    assert JOB_SET.fail(over, None, "Reason", "message") is None
    assert JOB_SET.has_ended(over)
    assert JOB_SET.suspend(over) is None
