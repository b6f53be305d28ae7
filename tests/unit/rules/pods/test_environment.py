"""The variables from which a program knows its attempt."""

from copy import deepcopy
from typing import Any

import pytest

from tests.admission import Answer, mutate, policy
from tests.costs import assert_grows_with_its_input
from tests.objects import container_of, job_spec, pod, stored_job
from tests.unit.accounts.pods import disrupted, failed
from webhook.objects.patch import Editor
from webhook.objects.problem import Json
from webhook.pods.pods import Pod
from webhook.policy.model import Placement, Profile
from webhook.rules.facts import Facts
from webhook.rules.pods import environment
from webhook.rules.pods.environment import ATTEMPT, LAST_CAUSE, MAX, PLACEMENT

TELLING = Profile(environment=True, placement=Placement(provider="gke"))


def admitted(spec: Json | None = None, *ended: Pod, failures: int = 0, profile: Profile = TELLING) -> Answer:
    owner = stored_job(job_spec(backoffLimit=3), {"failed": failures})
    return mutate(pod(spec), Facts(profile_name="default", owner=owner, ended=ended), policy(default=profile))


def variables(container: Json) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container["env"]}


def with_env(*env: Json, name: str = "main") -> Json:
    return {**container_of(name), "env": list(env)}


def test_a_first_attempt_knows_its_number_its_retries_and_its_placement_and_has_no_last_cause() -> None:
    (container,) = admitted().object["spec"]["containers"]
    assert variables(container) == {ATTEMPT: "0", MAX: "3", PLACEMENT: "Spot", LAST_CAUSE: ""}


@pytest.mark.parametrize(
    ("end", "cause"),
    [
        (failed(1, 143), "ExitCode"),
        (failed(1, 137, exit_reason="OOMKilled"), "OOMKilled"),
        (disrupted(1), "Disruption"),
        (failed(1, 0, exits=(), reason="DeadlineExceeded"), "DeadlineExceeded"),
    ],
)
def test_the_next_attempt_knows_why_the_last_one_ended_also_without_rules_of_on_failure(end: Pod, cause: str) -> None:
    (container,) = admitted(None, end, failures=3).object["spec"]["containers"]
    assert variables(container) == {ATTEMPT: "3", MAX: "3", PLACEMENT: "OnDemand", LAST_CAUSE: cause}


def test_every_container_and_init_container_gets_them() -> None:
    spec = {
        "containers": [container_of("main"), container_of("proxy")],
        "initContainers": [{**container_of("logs"), "restartPolicy": "Always"}, container_of("download")],
    }
    found = admitted(spec).object["spec"]
    assert {len(one["env"]) for one in (*found["containers"], *found["initContainers"])} == {4}


def test_a_variable_of_the_author_stays_and_may_refer_to_ours() -> None:
    own = [{"name": ATTEMPT, "value": "own"}, {"name": "RUN", "value": "run-$(RETRY_MAX)"}]
    (container,) = admitted({"containers": [with_env(*own)]}).object["spec"]["containers"]
    assert container["env"] == [
        {"name": MAX, "value": "3"},
        {"name": PLACEMENT, "value": "Spot"},
        {"name": LAST_CAUSE, "value": ""},
        *own,
    ]


def test_nothing_else_of_the_containers_changes() -> None:
    """Only some fields of a pod are decoded: an edit must not write back the part that is known."""
    spec = {"containers": [{**with_env(), "resources": {"limits": {"memory": "1Gi"}}}], "restartPolicy": "Never"}
    answer = admitted(spec)
    added = [operation for operation in answer.patch if operation["path"].startswith("/spec/containers")]
    assert [operation["path"] for operation in added] == ["/spec/containers/0/env"]
    assert answer.object["spec"]["containers"][0]["resources"] == {"limits": {"memory": "1Gi"}}


def test_a_second_round_of_the_same_admission_changes_nothing() -> None:
    first = admitted().object
    owner = stored_job(job_spec(backoffLimit=3))
    again = mutate(first, Facts(profile_name="default", owner=owner), policy(default=TELLING))
    assert again.patch == []


def test_without_the_field_of_the_profile_no_container_is_changed() -> None:
    answer = admitted(profile=Profile(placement=Placement(provider="gke")))
    assert "env" not in answer.object["spec"]["containers"][0]


@pytest.mark.parametrize(
    "spec", [None, {"containers": "x"}, {"containers": ["x"]}, {"containers": [{"env": {"a": "b"}}]}]
)
def test_containers_of_a_wrong_type_in_a_file_are_left_as_they_are(spec: Any) -> None:
    editor = Editor({"spec": spec})
    environment.edit({"RETRY_MAX": "3"}, editor)
    assert editor.edits == []
    assert editor.root == {"spec": spec}


def crowded(size: int) -> Json:
    """Return a pod with many containers that have many variables each."""
    env = [{"name": f"OWN_{number}", "value": "x"} for number in range(20)]
    return {"spec": {"containers": [with_env(*env, name=f"c{number}") for number in range(size)]}}


def test_the_work_grows_with_the_number_of_containers() -> None:
    values = dict.fromkeys((ATTEMPT, MAX, PLACEMENT, LAST_CAUSE), "0")
    assert_grows_with_its_input(lambda root: environment.edit(values, Editor(deepcopy(root))), crowded, 50)
