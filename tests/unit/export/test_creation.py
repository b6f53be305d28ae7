"""The MutatingAdmissionPolicies that set fields at creation."""

import msgspec
import pytest

from tests.admission import policy
from tests.unit.export.test_limits import names_in
from webhook.export import creation, failure_policy, retries
from webhook.kinds import KINDS, KindSpec, batch, tekton
from webhook.policy.model import Disruptions, FailurePolicy, Profile, Retries
from webhook.rules import undo

ROWS = [row for row in KINDS.values() if row.admitted and creation.edits_something(row)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.kind}.{row.group}")
def test_every_variable_is_defined_before_it_is_read(row: KindSpec) -> None:
    spec = creation.spec(row, policy(clamp=Profile(retries=Retries(on_exceed="Clamp"))))
    defined: set[str] = set()
    for variable in spec["variables"]:
        assert names_in(variable["expression"]) <= defined, variable["name"]
        defined.add(variable["name"])
    (mutation,) = spec["mutations"]
    assert names_in(mutation["jsonPatch"]["expression"]) <= defined


def test_a_kind_that_only_max_retries_changes_is_evaluated_only_with_that_annotation() -> None:
    assert creation.spec(tekton.TASK_RUN, policy())["matchConditions"] == [creation.asks_for_retries()]
    assert "matchConditions" not in creation.spec(batch.JOB, policy())
    clamped = policy(clamp=Profile(retries=Retries(on_exceed="Clamp")))
    assert "matchConditions" not in creation.spec(tekton.TASK_RUN, clamped)


def test_the_end_of_the_record_is_what_the_webhook_reads() -> None:
    profile = Profile(disruptions=Disruptions(limit=7))
    text = '{"profile":"default","injected":[]' + creation.rest_of_record(profile)
    record = msgspec.json.decode(text, type=undo.Record)
    assert record.applied is not None
    assert (record.applied.disruptions.limit, record.retriable_exit_codes) == (7, (143,))


def test_the_exit_codes_of_a_rule_ascend_and_are_never_empty() -> None:
    assert failure_policy.codes(Profile(), 137) == [137, 143]
    nothing = Profile(failure_policy=FailurePolicy(retriable_exit_codes=()))
    assert failure_policy.codes(nothing) == [0]


def test_a_field_beside_a_retry_field_gets_its_value() -> None:
    (spark, _) = KINDS["sparkoperator.k8s.io", "SparkApplication"].retry_fields
    ((path, _, right),) = retries.besides(spark)
    assert (path, right) == (("restartPolicy", "type"), "'OnFailure'")
    (apache,) = KINDS["spark.apache.org", "SparkApplication"].retry_fields
    assert [right for _, _, right in retries.besides(apache)] == ["'OnFailure'", "-1"]
