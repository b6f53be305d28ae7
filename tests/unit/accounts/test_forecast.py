"""The forecast of `explain` for the next failure agrees with what ledger, Job controller and placement then do."""

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests import objects
from tests.histories import DISRUPTION, foretold, index_of, manifests, profiles, steps
from tests.strategies import examples
from tests.unit.accounts import restarting_pods as in_place
from tests.unit.accounts.pods import failed, job
from tests.unit.accounts.simulated import World
from webhook.accounts.account import Account, Attempt, Left
from webhook.accounts.forecast import Forecast, Standing, as_ended, failed_indexes, foretell
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.pods.outcomes import OOM, cause_of, outcome_of
from webhook.pods.pods import Exit, Pod
from webhook.policy.causes import CAUSES, Cause
from webhook.policy.model import Duration, Placement, Profile
from webhook.policy.settings import NamedProfile


@given(profiles, manifests(), steps, st.data())
@examples(2000)
def test_each_failure_has_the_effect_that_explain_foretold(
    profile: Profile, manifest: Json, history: list[tuple[int, int]], data: st.DataObject
) -> None:
    world = World.of(profile, manifest)
    assume(world is not None)
    assert world is not None
    for number, ending in history:
        if world.over or not world.live:
            break
        step(world, number, ending, data)


def step(world: World, number: int, ending: int, data: st.DataObject) -> None:
    """End a pod, and compare its forecast with what then happens."""
    uid = sorted(world.live)[number % len(world.live)]
    forecasts = world.explained().forecasts
    world.count()  # the leader notices that a Job was resumed before its next pod ends
    pod = world.end(uid, ending)
    index = index_of(pod)
    forecast = foretold(forecasts, world.job, pod, ending, profile=world.profile)
    detail = world.count()
    assert detail is not None
    event(f"{detail.cost}, ends {forecast.ends or 'nothing'}")
    assert (forecast.cost, forecast.rule, forecast.action) == (detail.cost, detail.rule, detail.action)
    assert forecast.left == detail.left
    assert (forecast.ends == "Job") == bool(world.over)
    assert not forecast.reason or forecast.reason == world.over
    assert forecast.suspends == bool(world.spec.get("suspend"))
    if forecast.settled_within is not None and data.draw(st.booleans(), label="nothing explains it"):
        event("a bug")
        assert world.settle(pod)
    elif forecast.settled_within is None and not world.over and ending != DISRUPTION:
        assert not world.settle(pod)
    if world.over:
        return
    assert (forecast.ends == "index") == (index in world.lost)
    if forecast.suspends:
        event("suspended")
        world.resume()
    if index not in world.lost:
        new = world.create(index)
        if not forecast.suspends:
            placement = new["metadata"]["annotations"][names.PLACEMENT]
            assert placement == ("OnDemand" if forecast.off_spot else "Spot")


SEEN_IN_PODS = [cause for cause, row in CAUSES.items() if not row.is_verdict and row.loss]


def ended_by(cause: Cause) -> Pod:
    of_memory = Exit("main", 137, OOM, "")
    exits = {"ExitCode": (Exit("main", 3, "Error", ""),), "OOMKilled": (of_memory,)}.get(cause, ())
    return as_ended(failed(1), cause, reason="Why", exits=exits)


@pytest.mark.parametrize("cause", SEEN_IN_PODS)
def test_a_pod_that_ends_by_a_cause_is_read_as_one(cause: Cause) -> None:
    """If a new cause fails here: `as_ended` says how such a pod looks; an earlier branch of `cause_of` may take it."""
    assert cause_of(ended_by(cause), None)[0] == cause


@pytest.mark.parametrize("rules", [(), (objects.DISRUPTION, objects.exit_codes("Ignore", "In", 3, 137))])
@pytest.mark.parametrize("cause", SEEN_IN_PODS)
def test_only_a_pod_with_the_condition_of_a_disruption_costs_one(cause: Cause, rules: tuple[Json, ...]) -> None:
    pod, root = ended_by(cause), job()
    root["spec"]["podFailurePolicy"] = {"rules": [*rules]}
    is_disruption = outcome_of(pod, root).cost == "disruption"
    assert is_disruption == (bool(rules) and pod.disruption is not None), (
        f"{cause}: the Job controller counts a pod without the condition DisruptionTarget as a retry; "
        "`as_ended` in webhook/accounts/forecast.py gives it that condition, if the cluster does"
    )


def test_a_forecast_that_ends_nothing_names_no_reason() -> None:
    plain = Forecast(cause="Other", cost="none", rule=None, action="", left=Left(retries=0, disruptions=0))
    assert (plain.ends, plain.reason, plain.off_spot) == ("", "", None)


@pytest.mark.parametrize(("text", "number"), [("", 0), ("2", 1), ("1,3-5", 4), ("9" * 5000, 0), ("0-" + "9" * 5000, 0)])
def test_failed_indexes_are_counted_from_any_text_in_the_job_status(text: str, number: int) -> None:
    assert failed_indexes({"status": {"failedIndexes": text}}) == number


@pytest.mark.parametrize(("wait", "scope", "leaves"), [(600, "", True), (None, "", False), (600, "7", False)])
def test_after_a_pod_that_no_spot_node_took_the_next_ones_run_on_demand(
    wait: int | None,
    scope: str,
    leaves: bool,  # noqa: FBT001
) -> None:
    lacked = Attempt(
        attempt=0, scope=scope, pod="train-0", cause="Disruption", reason="SpotUnavailable", cost="disruption"
    )
    placement = Placement(provider="gke", spot="Require", spot_wait=None if wait is None else Duration(wait))
    standing = Standing(
        job=job(),
        job_set=None,
        account=Account(ended=1, cost={"disruption": 1}, last=[lacked]),
        live=(),
        profile=NamedProfile("default", Profile(placement=placement)),
    )
    assert foretell(standing, failed(1)).off_spot is leaves


def test_a_pod_whose_restarts_in_place_are_not_counted_yet_is_foretold_by_its_end() -> None:
    restarted = in_place.read(in_place.stored(in_place.container(restarts=3), policy="OnFailure"))
    profile = NamedProfile("default", Profile())
    standing = Standing(job=job(), job_set=None, account=Account(), live=(restarted,), profile=profile)
    found = foretell(standing, replace(restarted, phase="Failed", exits=failed(1, 1).exits))
    assert found.cause == "ExitCode"
