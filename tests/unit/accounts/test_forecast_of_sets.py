"""What `explain` foretells of a JobSet is what the ledger, the controllers and placement then do."""

from hypothesis import assume, event, given
from hypothesis import strategies as st

from tests.histories import DISRUPTION, foretold, index_of, manifests_of_sets, profiles, steps
from tests.strategies import examples
from tests.unit.accounts.simulated_sets import SetWorld
from webhook.accounts.forecast import Forecast
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.model import Profile
from webhook.systems.job_set.spec import FREE, RESTART_JOB, RESTART_SET


@given(profiles, manifests_of_sets(), steps, st.data())
@examples(900)
def test_what_is_foretold_of_each_failure_is_what_it_does(
    profile: Profile, manifest: Json, history: list[tuple[int, int]], data: st.DataObject
) -> None:
    world = SetWorld.of(profile, manifest)
    assume(world is not None)
    assert world is not None
    for number, ending in history:
        if world.over or not world.live:
            break
        step(world, number, ending, data)


def step(world: SetWorld, number: int, ending: int, data: st.DataObject) -> None:
    """End a pod, and compare what was foretold with what becomes of it."""
    uid, course = sorted(world.live)[number % len(world.live)], world.course
    told, job = world.explained().forecasts, world.jobs[world.live[uid]].job
    before = course.restarts, sum(course.alone.values()), course.costly
    name, pod = world.end(uid, ending)
    forecast = foretold(told, job, pod, ending, name, profile=world.profile)
    is_bug = ending != DISRUPTION and world.settles(name, pod)
    is_first = data.draw(st.booleans(), label="the ledger counts before the JobSet controller acts")
    if not is_first:
        world.react(name, pod)
    detail = world.count()
    if is_first:
        world.react(name, pod)
    assert detail is not None
    event(f"{detail.cost}, {forecast.set_action or 'the Job goes on'}, ends {forecast.ends or 'nothing'}")
    assert (forecast.cost, forecast.rule, forecast.action) == (detail.cost, detail.rule, detail.action)
    assert detail.left is not None
    assert forecast.left.disruptions == detail.left.disruptions
    assert forecast.left.retries == max(0, most_restarts(world) - course.costly)
    assert forecast.left == detail.left or (forecast.set_action and forecast.action != "FailJob")
    assert (forecast.ends == "JobSet") == bool(world.over)
    assert not forecast.reason or forecast.reason == world.over
    assert (forecast.settled_within is not None) == (is_bug and not world.over)
    if world.over:
        return
    after = course.restarts, sum(course.alone.values()), course.costly
    assert restarts(forecast) == tuple(now - was for now, was in zip(after, before, strict=True))
    assert (forecast.ends == "index") == (index_of(pod) in world.jobs[name].lost)
    new = world.replacement(name, pod)
    if new is not None:
        said = new["metadata"]["annotations"][names.PLACEMENT]
        assert said == ("OnDemand" if forecast.off_spot else "Spot")


def most_restarts(world: SetWorld) -> int:
    return int((world.root["spec"].get("failurePolicy") or {}).get("maxRestarts") or 0)


def restarts(forecast: Forecast) -> tuple[int, int, int]:
    """Return the restarts that are foretold: of the set, of one Job, and those that count towards maxRestarts."""
    action = forecast.set_action.removesuffix(FREE)
    costs = bool(action) and action == forecast.set_action
    return int(action == RESTART_SET), int(action == RESTART_JOB), int(costs)
