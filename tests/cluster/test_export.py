"""The exported policies and the webhook give the same verdict, on generated objects of all kinds.

Three namespaces: under the webhook, under the exported policies alone, and under both, where the policies judge what
the webhook makes of an object. test_export_limits.py has examples.
RETRY_POLICY_EXAMPLES: how many objects are generated; by default a few, always the same ones.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.cluster import exported
from tests.cluster.conftest import new_namespace, with_operators
from tests.cluster.exported import DENIED, create, is_refused, said
from tests.cluster.manifests import job
from tests.cluster.namespace import SERVER_SIDE
from tests.cluster.test_agreement import comparable
from tests.cluster.test_webhook_kinds import ADMITTED, samples_of, with_retries
from tests.strategies import ANNOTATIONS, CRON_JOBS, JOBS, PODS
from webhook.kube import names
from webhook.objects.patch import Editor, find
from webhook.systems.argo import spec as argo
from webhook.systems.job import spec as batch
from webhook.systems.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.namespace import Api
    from webhook.systems.kind_spec import KindSpec

pytestmark = [with_operators, pytest.mark.generated]

DEFAULT = 120
EXAMPLES = int(os.environ.get("RETRY_POLICY_EXAMPLES", DEFAULT))
PARTS = 4

# What the webhook's denials say that the exported policies say too.
CLAIMED = re.compile(
    r"exceed the limit of|allows unlimited retries|restarts the container in place|retries of all indexes together|"
    r"OnFailure restarts containers in place|must be a whole number|must be \"true\" or \"false\"|"
    r" is more than the |does not allow workloads to be left alone"
)
# Kinds whose embedded objects are judged only when they are created.
WRAPPERS = {"AppWrapper", "TriggerTemplate"}


class Teams:
    """The three namespaces of a profile."""

    def __init__(self, profile: str, kubectl: Kubectl, api: Api) -> None:
        self.webhook = new_namespace("export-webhook", {names.PROFILE: profile}, kubectl, api)
        self.policies = new_namespace("export-policies", {exported.PROFILE: profile}, kubectl, api)
        both = {names.PROFILE: profile, exported.PROFILE: profile}
        self.both = new_namespace("export-both", both, kubectl, api)


@pytest.fixture(scope="module")
def teams(kubectl: Kubectl, api: Api) -> Callable[[str], Teams]:
    """Return a function for the namespaces of a profile, in which the exported policies have an effect."""
    exported.install(kubectl)
    exported.namespace("export-probe", kubectl, api, {exported.PROFILE: "default"})
    made: dict[str, Teams] = {}

    def of(profile: str) -> Teams:
        if profile not in made:
            made[profile] = Teams(profile, kubectl, api)
        return made[profile]

    return of


def generated(part: int) -> Callable[[Any], Any]:
    drawn = settings(
        max_examples=max(1, EXAMPLES // PARTS),
        derandomize=False,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    return lambda test: drawn(seed(part)(test) if EXAMPLES == DEFAULT else test)


RESTART_RULES = st.lists(
    st.builds(
        lambda action, operator, values: {"action": action, "exitCodes": {"operator": operator, "values": values}},
        st.sampled_from(["Restart", "RestartAllContainers"]),
        st.sampled_from(["In", "In", "NotIn"]),
        st.lists(st.sampled_from([0, 1, 42, 143]), min_size=1, max_size=3, unique=True),
    ),
    min_size=1,
    max_size=2,
)
NUMBERS = st.integers(0, 12) | st.sampled_from([0, 3, 10, 11, 25, 40])


@st.composite
def of_kinds(draw: st.DrawFn) -> Any:
    """Objects of all kinds, as users write them, with other numbers of retries, fields left out, and annotations."""
    row: KindSpec = draw(st.sampled_from(ADMITTED))
    root = deepcopy(draw(st.sampled_from(samples_of(row))))
    of_jobs = [budget for one in row.jobs(root) for budget in (batch.budget_of(one, said=True),) if budget is not None]
    for budget in [*of_jobs, *row.budgets(root)]:
        choice = draw(st.integers(0, 3))
        if choice == 0:
            Editor(root).remove(budget.path)
        elif choice == 1:
            root = with_retries(root, budget, draw(NUMBERS))
    for pattern in [*row.pod_templates, *((*spec, "template") for spec in row.job_specs)]:
        for place, _ in list(find(root, (*pattern, "spec", "containers", 0))):
            if draw(st.integers(0, 9)) == 0:
                policy = draw(st.sampled_from(["Always", "OnFailure", "Never"]))
                Editor(root).set((*place, "restartPolicy"), policy)
                if draw(st.booleans()):
                    Editor(root).set((*place, "restartPolicyRules"), draw(RESTART_RULES))
    own = draw(ANNOTATIONS)
    if own:
        Editor(root).update(("metadata", "annotations"), own)
    root["metadata"]["name"] = "generated"
    if not row.namespaced:
        root["metadata"]["labels"] = {names.PROFILE: "default"}
    return root


OBJECTS = st.tuples(st.sampled_from(("default", *exported.PROFILES)), JOBS | CRON_JOBS | PODS | of_kinds() | of_kinds())


def relabelled(root: Object, profile: str, *keys: str) -> Object:
    """Return a copy of a cluster-scoped object, opted in by these labels; any other object as it is."""
    row = KINDS[root["apiVersion"].rpartition("/")[0], root["kind"]]
    if row.namespaced:
        return root
    return {**root, "metadata": {**root["metadata"], "labels": dict.fromkeys(keys, profile)}}


@pytest.mark.parametrize("part", range(PARTS))
def test_the_policies_and_the_webhook_give_the_same_verdict(
    teams: Callable[[str], Teams], part: int, record_property: Callable[[str, object], None]
) -> None:
    tally: Counter[str] = Counter()

    @generated(part)
    @given(OBJECTS)
    def agree(drawn: tuple[str, Object]) -> None:
        profile, root = drawn
        three = teams(profile)
        by_webhook = create(three.webhook, relabelled(root, profile, names.PROFILE))
        by_policies = create(three.policies, relabelled(root, profile, exported.PROFILE))
        by_both = create(three.both, relabelled(root, profile, names.PROFILE, exported.PROFILE))
        tally[compared(profile, root, by_webhook, by_policies)] += 1
        assert_same_with_both(by_webhook, by_both)

    agree()
    record_property("verdicts", dict(tally))
    assert min(tally["accepted by both"], tally["refused by both"]) > 0


@pytest.mark.parametrize("flags", [(), SERVER_SIDE], ids=["client-side", "server-side"])
def test_under_both_an_unchanged_manifest_can_be_applied_again(
    teams: Callable[[str], Teams], flags: tuple[str, ...]
) -> None:
    both, webhook = teams("default").both, teams("default").webhook
    manifest = job(f"again-{len(flags)}", backoffLimit=3, suspend=True)
    first = both.apply(manifest, *flags)
    assert normal(first)["spec"]["podFailurePolicy"] == webhook.apply(manifest, *flags)["spec"]["podFailurePolicy"]
    assert both.apply(manifest, *flags)["spec"] == first["spec"]


def lines_of(answer: Object) -> list[str]:
    """Return the problems in the webhook's refusal, after the name of the object; none if something else refused it."""
    _, denied, text = answer["message"].partition("denied the request: ")
    return text.partition(": ")[2].split("\n") if denied else []


def compared(profile: str, root: Object, by_webhook: Object, by_policies: Object) -> str:
    """Fail if the verdicts differ where the policies claim to give the webhook's; return what they are."""
    if is_refused(by_policies) and DENIED not in by_policies["message"]:
        # For rules of an author, to which only the webhook adds its own.
        assert is_refused(by_webhook) or "podFailurePolicy" in str(root), by_policies["message"]
        return "refused by the API server"
    if not is_refused(by_webhook):
        if not is_refused(by_policies):
            return "accepted by both"
        row = KINDS[root["apiVersion"].rpartition("/")[0], root["kind"]]
        assert profile == "clamp" or budgets_of(row, root) != budgets_of(row, by_webhook), (
            by_policies["message"],
            root,
        )
        return "lowered by the webhook"
    lines = lines_of(by_webhook)
    claimed = [line for line in lines if CLAIMED.search(line)]
    if root["kind"] in WRAPPERS:
        claimed = [line for line in claimed if line.startswith("metadata.")]
    if not claimed:
        assert lines, by_webhook["message"]
        return "refused by the webhook alone"
    assert is_refused(by_policies), (lines, root)
    found = said(by_policies)
    for line in claimed:
        assert line in found, (line, found)
    return "refused by both"


def budgets_of(kind: KindSpec, root: Object) -> list[Any]:
    """Return the path of the object with each retry field, and the retries that the field allows."""
    jobs = [batch.budget_of(job, said=True) for job in kind.jobs(root)]
    return [(one.path[:-1], one.retries) for one in [*jobs, *kind.budgets(root)] if one is not None]


def assert_same_with_both(by_webhook: Object, by_both: Object) -> None:
    assert is_refused(by_both) == is_refused(by_webhook), (by_webhook.get("message"), by_both.get("message"))
    if not is_refused(by_webhook):
        assert normal(by_both) == normal(by_webhook)


def normal(answer: Object) -> Any:
    """Return what is equal if the same object is created under the webhook, without the labels of the test."""
    found = comparable(answer)
    labels = {key: one for key, one in (found["metadata"].get("labels") or {}).items() if key != exported.PROFILE}
    return {**found, "metadata": {**found["metadata"], "labels": labels}}


SUM = argo.sparing_disruptions("true", 10)
DEFAULTS = {"limit": 30, "retryPolicy": "Always", "expression": SUM}  # the profile `default` allows 20 disruptions
FORGED: dict[str, tuple[Object, Object]] = {
    "another expression": ({}, {**DEFAULTS, "expression": "true"}),
    "more after it": ({}, {**DEFAULTS, "expression": f"{SUM} || true"}),
    "more before its end": ({}, {**DEFAULTS, "expression": argo.sparing_disruptions("true) || (true", 10)}),
    "a comment": ({}, {**DEFAULTS, "expression": argo.sparing_disruptions("true /*", 10) + " */ < 99"}),
    "a tag": ({}, {**DEFAULTS, "expression": argo.sparing_disruptions('"{{=1}}" == ""', 10)}),
    "more retries": ({}, {**DEFAULTS, "expression": argo.sparing_disruptions("true", 11)}),
    "more disruptions": ({}, {**DEFAULTS, "limit": 31}),
    "inherited, another expression": (DEFAULTS, {"expression": "true"}),
    "inherited, more retries": (DEFAULTS, {"expression": argo.sparing_disruptions("true", 50)}),
}


def workflow(own: Object, defaults: Object | None = None) -> Object:
    template = {"name": "train", "container": {"image": "train"}, "retryStrategy": own}
    spec: Object = {"entrypoint": "train", "templates": [template]}
    if defaults:
        spec["templateDefaults"] = {"retryStrategy": defaults}
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "train"}, "spec": spec}


def strategies_of(root: Object) -> list[Object]:
    """Return the retryStrategies of templateDefaults and of the templates."""
    spec = root["spec"]
    return [one["retryStrategy"] for one in (spec.get("templateDefaults"), *spec["templates"]) if one]


@pytest.mark.parametrize("limit", [10, "10"])
@pytest.mark.parametrize("expression", ["", "lastRetry.exitCode in ['1', \"(\"]", "((((((x))))))"])
def test_disruptions_that_argo_counts_do_not_exceed_the_limit(
    teams: Callable[[str], Teams], limit: int | str, expression: str
) -> None:
    own = {"limit": limit, **({"expression": expression} if expression else {})}
    for root in (workflow(own), workflow({"backoff": {"duration": "1"}}, own)):
        stored = create(teams("default").both, root)
        assert not is_refused(stored), stored
        assert all(found["limit"] == type(limit)(30) for found in strategies_of(stored))
        # As a CronWorkflow makes it while the webhook is away.
        again = create(teams("default").policies, {**root, "spec": stored["spec"]})
        assert not is_refused(again), again


@pytest.mark.parametrize(("defaults", "own"), FORGED.values(), ids=FORGED)
def test_an_author_cannot_write_the_sum_of_retries_and_disruptions(
    teams: Callable[[str], Teams], defaults: Object, own: Object
) -> None:
    assert not is_refused(create(teams("default").policies, workflow(DEFAULTS, DEFAULTS)))
    refused = create(teams("default").policies, workflow(own, defaults))
    assert is_refused(refused), refused
    assert re.match(r"spec\.templates\[0\]\.retryStrategy\.limit: [0-9]+ retries exceed the limit of 10", said(refused))
