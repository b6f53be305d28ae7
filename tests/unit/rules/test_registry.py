"""Rules edit only the fields that they declare in `writes`; rules that deny edit nothing."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.admission import mutate, policy
from tests.job_sets import job_sets
from tests.objects import exit_codes, job, job_spec, pod, stored_job
from tests.strategies import examples, maybe
from tests.unit.accounts.pods import failed
from tests.unit.systems.job_set.rules.test_job_set import job_set
from tests.unit.systems.trainer.test_rules import train_job
from tests.unit.test_properties import CRON_JOBS, FACTS, JOBS, OTHER_KINDS, PODS, PROFILES
from tests.volcano import on, volcano_job
from webhook.admission import edit_immutable, edit_pod, edit_workload
from webhook.kube import names
from webhook.objects.patch import Edit, Editor, Pattern, fits
from webhook.objects.problem import Json, Path
from webhook.policy.model import (
    BackOff,
    Delay,
    Diagnostics,
    Duration,
    FailurePolicy,
    FailureRule,
    Match,
    MemoryGrowth,
    Next,
    Placement,
    Policy,
    Profile,
    RequestedRetry,
    Retries,
)
from webhook.policy.settings import NamedProfile
from webhook.rules import registry, undo
from webhook.rules.annotations import OWN
from webhook.rules.contexts import ValidationContext
from webhook.rules.facts import Facts
from webhook.rules.pods import decision, environment, memory, nodes
from webhook.rules.rule import Rule, apply, problems
from webhook.systems import core
from webhook.systems.job import spec as batch
from webhook.systems.job.spec import INDEX_IGNORED_FAILURES
from webhook.systems.job_set.spec import SET_NAME
from webhook.systems.kind_spec import OwnerReference
from webhook.systems.kinds import KINDS, kind_of
from webhook.systems.trainer import spec as trainer

JOB_SETS = job_sets((None, 0, 3, 12), (None, "Never", "OnFailure"))
POLICIES = st.builds(
    lambda profile, timeout, retryable: policy(
        default=msgspec.structs.replace(
            profile,
            attempt_timeout=timeout,
            requested_retry=RequestedRetry(retryable=retryable),
            environment=retryable,
            diagnostics=Diagnostics(last_words=retryable),
        )
    ),
    PROFILES,
    maybe(st.just(Duration(600))),
    st.booleans(),
)


def outside(edits: Iterable[Edit], patterns: tuple[Pattern, ...]) -> list[Path]:
    """Return the paths of edits that no pattern matches; for a new map, the paths of its entries."""
    return [path for edit in edits for path in not_within(edit.path, decoded(edit), patterns)]


def decoded(edit: Edit) -> Any:
    return None if edit.value is None else msgspec.json.decode(edit.value)


def not_within(path: Path, value: Any, patterns: tuple[Pattern, ...]) -> list[Path]:
    if any(fits(path, pattern) for pattern in patterns):
        return []
    if isinstance(value, dict) and value:
        return [wrong for key, inner in value.items() for wrong in not_within((*path, key), inner, patterns)]
    return [path]


def written_by(path: Path, value: Any) -> list[Path]:
    """Return the path of an edit; for a new map, those of its entries too."""
    inner = value.items() if isinstance(value, dict) else ()
    return [path, *(one for key, entry in inner for one in written_by((*path, key), entry))]


class Watched:
    """Applies rules like the engine, and checks the edits of each."""

    def __init__(self) -> None:
        self.edited: set[tuple[str, str]] = set()  # rules that have edited something
        self.reached: set[Pattern] = set()  # declared patterns that an edit has matched

    def apply(self, rules: Iterable[Rule[Any]], context: Any, editor: Editor) -> list[Any]:
        row = kind_of(editor.root) or core.POD  # only some fields of a pod are read, its kind not among them
        warnings = []
        for rule in rules:
            before = len(editor.edits)
            warnings += apply((rule,), context, editor)
            edits = editor.edits[before:]
            assert outside(edits, rule.writes(row)) == [], rule
            assert {edit.rule for edit in edits} <= {rule.name}
            if edits:
                self.edited.add((rule.name, rule.applies_to))
            written = [path for edit in edits for path in written_by(edit.path, decoded(edit))]
            self.reached |= {pattern for pattern in rule.writes(row) for path in written if fits(path, pattern)}
        return warnings


@contextmanager
def watching() -> Iterator[Watched]:
    """Make the engine apply its rules through a Watched."""
    watched = Watched()
    with pytest.MonkeyPatch.context() as patch:
        for module in (edit_immutable, edit_pod, edit_workload):
            patch.setattr(module, "apply", watched.apply)
        yield watched


@given(JOBS | CRON_JOBS | PODS | JOB_SETS | OTHER_KINDS, POLICIES, POLICIES, FACTS)
@examples(500)
def admit(root: Json, under: Policy, later: Policy, facts: Facts) -> None:
    """Create an object, create it again under another policy as a copy, and update it."""
    stored = mutate(root, facts, under).object
    mutate(stored, facts, later)
    if root["kind"] != "Pod":
        mutate(stored, facts, later, old=stored)


def test_a_rule_edits_only_fields_that_it_declares() -> None:
    with watching():
        admit()


CLAMPING = Profile(
    retries=Retries(on_exceed="Clamp"),
    failure_policy=FailurePolicy(on_failure_restart_policy="Never", many_pods="Index"),
    requested_retry=RequestedRetry(retryable=True),
    back_off=BackOff(single_pod="Indexed"),
    attempt_timeout=Duration(600),
    placement=Placement(provider="gke", spot="Require", protect="Always"),
    environment=True,
    diagnostics=Diagnostics(last_words=True),
    on_failure=(
        FailureRule(
            match=Match(cause="OOMKilled"),
            next=Next(memory=MemoryGrowth(limit="8Gi"), avoid="Node", delay=Delay(initial=Duration(30))),
        ),
    ),
)
KILLED = failed(1, 137, exit_reason="OOMKilled")
ANNOTATIONS = {names.INTERRUPTIBLE: "false"}
RESTARTING: Json = {"name": "a", "restartPolicy": "Always", "restartPolicyRules": [{"action": "Restart"}]}
RESTARTS = {"rules": [{"name": "mine", "action": "RestartJobSetAndIgnoreMaxRestarts"}]}
EXAMPLES = [
    job(job_spec(rules=[exit_codes("Ignore", "NotIn", 0)], backoffLimit=12), annotations=ANNOTATIONS),
    job(job_spec(podReplacementPolicy="TerminatingOrFailed")),
    job(job_spec(completions=4)),
    job(job_spec(restart_policy="OnFailure")),
    job(job_spec(containers=(RESTARTING,), init_containers=({**RESTARTING, "restartPolicy": "OnFailure"},))),
    job_set(job_spec(), job_spec(), failure_policy=RESTARTS),
    train_job(ANNOTATIONS),
    {
        "apiVersion": "tekton.dev/v1",
        "kind": "TaskRun",
        "metadata": {"name": "a", "annotations": ANNOTATIONS},
        "spec": {"retries": 12},
    },
    {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "a", "annotations": ANNOTATIONS},
        "spec": {"templates": [{"name": "main"}], "retryStrategy": {"limit": 2}},
    },
    {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "a"},
        "spec": {"pytorchReplicaSpecs": {"Master": {"template": {}}}},
    },
    volcano_job(on("PodFailed", action="RestartPod")),
    pod(annotations={INDEX_IGNORED_FAILURES: "1"}),
    pod({"containers": [{"name": "main", "image": "x", "resources": {"limits": {"memory": "1Gi"}}}]}),
]


def test_each_rule_edits_one_of_the_examples() -> None:
    owner = stored_job(job_spec(completions=4, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=3))
    facts = Facts(profile_name="default", owner=owner, disruptions=1, ended=(KILLED,))
    with watching() as watched:
        for root in EXAMPLES:
            mutate(root, facts if root["kind"] == "Pod" else Facts(profile_name="default"), policy(default=CLAMPING))
    rules: tuple[Rule[Any], ...] = (*registry.JOB_RULES, *registry.WORKLOAD_RULES, *registry.POD_RULES)
    idle = {(rule.name, rule.applies_to) for rule in rules} - watched.edited
    assert idle == set(), "add an object that they edit to EXAMPLES in tests/unit/rules/test_registry.py"
    never = set(registry.written_by_rules(batch.JOB)) - watched.reached
    assert never == set(), "no edit of an object in EXAMPLES is there: correct `writes`, or add an object"


OF_NO_SET = {"metadata": {"labels": {SET_NAME: "train"}}}
CONTROLLER = OwnerReference("jobset.x-k8s.io", "v1alpha2", "JobSet", "train", "uid-1")
OWNED_BY_NONE = [
    {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "train", "uid": "uid-1", "controller": True}
]
DENIED = [
    job(job_spec(), annotations={names.INTERRUPTIBLE: "perhaps"}),
    job({**job_spec(), "template": {**job_spec()["template"], **OF_NO_SET}}),
    job(job_spec(backoffLimit=1000)),
    job(job_spec(rules=[{"action": "Ignore"}])),
    {**job(job_spec()), "metadata": {"name": "train-0", "ownerReferences": OWNED_BY_NONE}},
]


def test_each_rule_that_denies_denies_one_of_the_examples_and_edits_nothing() -> None:
    rules = (*registry.VALIDATING_RULES, registry.CONTROLLED)
    facts = Facts(profile_name="default", owners_known=True)
    profile = NamedProfile("default", Profile())
    contexts = [ValidationContext(batch.JOB, root, None, profile, facts, CONTROLLER) for root in DENIED]
    denying = [[rule for rule in rules if [*problems((rule,), context)]] for context in contexts]
    assert denying == [[rule] for rule in rules]
    assert not any(rule.writes(row) for rule in rules for row in KINDS.values())


@pytest.mark.parametrize(("field", "written"), [("backoffLimit", True), ("podReplacementPolicy", False)])
def test_a_field_that_no_rule_writes_in_a_kind_is_not_undone_there(field: str, *, written: bool) -> None:
    """The Jobs of a runtime get their failure policy when they are created, not in the runtime."""
    in_runtime = ("spec", "template", "spec", "replicatedJobs", 0, "template", "spec", field)
    assert undo.is_ours(in_runtime, trainer.TRAINING_RUNTIME) == written
    assert undo.is_ours(("spec", field), batch.JOB)


def test_our_keys_on_an_object_are_not_undone() -> None:
    assert (*OWN, names.RETRYABLE) in registry.written_by_rules(batch.JOB)
    assert not undo.is_ours((*OWN, names.RETRYABLE), batch.JOB)


def test_what_reads_the_placement_of_a_pod_comes_after_it() -> None:
    order = registry.POD_RULES
    assert all(order.index(nodes.RULE) < order.index(one) for one in (memory.RULE, decision.RULE, environment.RULE))
