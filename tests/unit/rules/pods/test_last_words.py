"""The rule that lets the kubelet report the end of a log."""

import pytest

from tests.admission import mutate, policy
from tests.objects import container_of, pod, stored_job
from webhook.objects.problem import Json
from webhook.policy.model import Diagnostics, Profile
from webhook.rules.facts import Facts
from webhook.rules.pods.last_words import FIELD

KEEPING = Profile(diagnostics=Diagnostics(last_words=True))


def policies(spec: Json, profile: Profile = KEEPING) -> list[str | None]:
    facts = Facts(profile_name="default", owner=stored_job())
    found = mutate(pod(spec), facts, policy(default=profile)).object["spec"]
    return [one.get(FIELD) for one in (*found["containers"], *found.get("initContainers", ()))]


@pytest.mark.parametrize("default", [{}, {FIELD: "File"}])
def test_containers_with_the_default_report_the_end_of_their_log_if_they_fail_without_a_message(default: Json) -> None:
    container = {**container_of("main"), **default}
    assert policies({"containers": [container], "initContainers": [container]}) == ["FallbackToLogsOnError"] * 2


def test_a_policy_that_only_an_author_can_have_written_stays() -> None:
    assert policies({"containers": [{**container_of("main"), FIELD: "Custom"}]}) == ["Custom"]


def test_without_the_field_of_the_profile_no_container_is_changed() -> None:
    assert policies({"containers": [container_of("main")]}, Profile()) == [None]
