"""Every rule, in the order in which the rules are applied: first those that edit objects, then those that deny them.

In a workload, the rules for JobSpecs are applied to each of its Jobs in turn, then the rules for its other fields. The
file of each rule says what the rule edits, and why; this file says when it applies.
"""

from collections.abc import Callable, Iterable
from functools import cache
from itertools import chain
from typing import Final

from webhook import attempts, capacity
from webhook.kinds import KindSpec, batch, core
from webhook.kinds.job_set import JOB_SET
from webhook.kube import names
from webhook.ledger.model import on_failure
from webhook.objects.patch import Pattern, at
from webhook.objects.problem import Problem
from webhook.policy.settings import count
from webhook.rules import annotations, in_place, limits, owner, retries
from webhook.rules.contexts import JobContext, PodContext, UnplacedPod, ValidationContext, WorkloadContext
from webhook.rules.job_sets import free_restarts, job_set, train_job
from webhook.rules.jobs import back_off, failure_policy, own_retries, schema, single_pod, timeouts
from webhook.rules.pods import avoid, delay, environment, groups, last_words, loss, memory, placement, protect, roles
from webhook.rules.rule import Rule, below
from webhook.rules.systems import argo, kubeflow, volcano

Writes = Callable[[KindSpec], tuple[Pattern, ...]]


def in_job_specs(*fields: Pattern) -> Writes:
    """Return the `writes` of a rule that edits fields of every JobSpec."""
    return lambda row: below(row.job_specs, fields)


def where_jobs_get_policies(*fields: Pattern) -> Writes:
    """Return the `writes` of a rule that edits JobSpecs, except those of a runtime: it edits their Jobs on creation."""
    return lambda row: below(row.job_specs, fields) if row.failure_policy else ()


def in_pods(*fields: Pattern) -> Writes:
    """Return the `writes` of a rule that edits pods."""
    return lambda row: fields if row is core.POD else ()


# JobSpecs


def gets_failure_policy(context: JobContext) -> bool:
    """Return False for a skipped object, and for one that will be denied: its problems count the author's rules."""
    return not context.settings.skip and not context.will_be_denied


def edit_failure_policy(context: JobContext) -> list[Problem]:
    """Inject a failure policy, except into a Job that runs once; warn once what the author's retries mean."""
    job, settings, budget, workload = context.job, context.settings, context.budget, context.workload
    had_policy = job.spec.get("podFailurePolicy") is not None
    warnings: list[Problem] = []
    if not context.runs_once:
        warnings = failure_policy.edit(job, settings, context.editor, context.wanted())
    if budget is None or workload.is_told:
        return warnings
    if workload.old and at(workload.old, budget.path) == at(workload.root, budget.path):
        return warnings
    found: list[Problem] = []
    if context.runs_once:
        found = own_retries.once_warning(budget.path, job, settings)
    elif not budget.replaceable and not had_policy:
        found = own_retries.meaning_warning(budget, job, settings, ledger=workload.facts.ledger)
    workload.is_told = bool(found)
    return warnings + found


def edit_free_restarts(context: JobContext) -> list[Problem]:
    """Make rules of a Job count if they would make restarts free without a bound."""
    return free_restarts.clamp_job(context.job, context.settings, context.editor, counted=context.is_counted)


def edit_retries(context: JobContext) -> list[Problem]:
    """Apply the default and the limit to a JobSpec."""
    job, settings, editor = context.job, context.settings, context.editor
    if context.budget is None:
        return []
    warnings = retries.edit(context.budget, settings, editor)
    if context.workload.clamps:
        path, counted = (*job.path, "template", "spec"), context.is_counted
        warnings += in_place.edit(path, job.pod_spec, settings, editor, counted=counted)
    return [*warnings, *retries.clamp_sum(job, settings, editor)]


def gets_back_off(context: JobContext) -> bool:
    """Return True if a Job is not skipped, and does not run only once."""
    return not context.settings.skip and not context.runs_once


def edit_single_pod(context: JobContext) -> list[Problem]:
    """Make a Job of one pod Indexed, if the profile says so."""
    workload = context.workload
    single_pod.edit(workload.row, context.job, context.settings, context.editor, defaulted=workload.facts.defaulted)
    return []


def edit_back_off(context: JobContext) -> list[Problem]:
    """Give a Job a back-off for each completion index."""
    back_off.edit(context.job, context.settings, context.editor)
    return []


def edit_timeout(context: JobContext) -> list[Problem]:
    """Set the profile's attemptTimeout on a Job."""
    timeouts.edit(context.job, context.settings, context.editor)
    return []


def edit_job_annotations(context: JobContext) -> list[Problem]:
    """Copy the annotations for a Job to its template and its pods."""
    return annotations.edit_job(context.workload.root, context.job, context.settings, context.editor)


JOB_RULES: Final[tuple[Rule[JobContext], ...]] = (
    # First, because the rules after it depend on the failure policy that will be stored.
    Rule(
        name="failure_policy",
        applies_to="each Job",
        applies=gets_failure_policy,
        edit=edit_failure_policy,
        writes=where_jobs_get_policies(*failure_policy.WRITES),
    ),
    Rule(
        name="retries",
        applies_to="each Job whose own rules make restarts free, where the profile clamps",
        applies=lambda context: context.workload.clamps and context.has_free_restarts,
        edit=edit_free_restarts,
        writes=in_job_specs(*free_restarts.WRITES),
    ),
    Rule(name="retries", applies_to="each Job", edit=edit_retries, writes=in_job_specs(*retries.WRITES)),
    # Before back_off for Indexed Jobs, so that it applies to these Jobs too; after the limit, which back_off reads.
    Rule(
        name="back_off",
        applies_to="a Job or CronJob of one pod",
        applies=gets_back_off,
        edit=edit_single_pod,
        writes=single_pod.writes,
    ),
    Rule(
        name="back_off",
        applies_to="each Indexed Job",
        applies=gets_back_off,
        edit=edit_back_off,
        writes=where_jobs_get_policies(*back_off.WRITES),
    ),
    Rule(
        name="timeouts",
        applies_to="each Job",
        applies=lambda context: not context.settings.skip,
        edit=edit_timeout,
        writes=where_jobs_get_policies(timeouts.DEADLINE),
    ),
    Rule(name="annotations", applies_to="each Job", edit=edit_job_annotations, writes=annotations.writes_in_jobs),
)


# Other fields of workloads


def edit_job_set(context: WorkloadContext) -> list[Problem]:
    """Add rules to a JobSet: it restarts after a disruption, and fails at once on a bug."""
    disruption, restart_job = context.disruption_action, context.facts.restart_job
    return job_set.edit(context.root, context.settings, context.editor, disruption=disruption, restart_job=restart_job)


def edit_training_job(context: WorkloadContext) -> list[Problem]:
    """Let a bug fail a job of Kubeflow's training operator at once."""
    return kubeflow.edit(context.row, context.root, context.old, context.settings, context.editor)


def edit_volcano_job(context: WorkloadContext) -> list[Problem]:
    """Let a bug end a Volcano Job at once."""
    return volcano.edit(context.root, context.settings, context.editor)


def edit_free_restarts_of_set(context: WorkloadContext) -> list[Problem]:
    """Make rules of a JobSet count if they would make restarts after bugs free."""
    return free_restarts.clamp(context.root, context.jobs, context.settings, context.editor)


def edit_retries_beside(context: WorkloadContext) -> list[Problem]:
    """Apply the default and the limit to the retry fields of a kind, and to the containers of its pod templates."""
    row, root, settings, editor = context.row, context.root, context.settings, context.editor
    warnings: list[Problem] = []
    for budget in list(row.budgets(root)):
        warnings += retries.edit(budget, settings, editor)
    for path, template in row.templates(root):
        if context.clamps:
            warnings += in_place.edit((*path, "spec"), template.get("spec") or {}, settings, editor, counted=False)
    return warnings


def edit_retry_strategies(context: WorkloadContext) -> list[Problem]:
    """Inject an expression into the retryStrategies of a workload of Argo."""
    return argo.edit(context.row, context.root, context.settings, context.editor)


def edit_timeout_fields(context: WorkloadContext) -> list[Problem]:
    """Set the profile's attemptTimeout in the timeout fields of a kind."""
    timeouts.edit_fields(context.row, context.root, context.settings, context.editor)
    return []


def edit_train_job(context: WorkloadContext) -> list[Problem]:
    """Copy the annotations of a TrainJob to the field from which its JobSet gets them."""
    known = context.facts.runtime_patches
    return train_job.edit(context.root, context.settings, context.editor, context.old, runtime_patches=known)


def edit_annotations(context: WorkloadContext) -> list[Problem]:
    """Copy the annotations of a workload to its pods, and to workloads that are made of it."""
    return annotations.edit(context.row, context.root, context.settings, context.editor)


WORKLOAD_RULES: Final[tuple[Rule[WorkloadContext], ...]] = (
    # After the failure policies of its Jobs: only if a Job fails by one can the set restart for it.
    Rule(
        name="failure_policy",
        applies_to="a JobSet",
        applies=lambda context: not context.settings.skip and not context.is_denied,
        edit=edit_job_set,
        writes=job_set.writes,
    ),
    Rule(
        name="failure_policy",
        applies_to="a job of Kubeflow's training operator, where a leader bounds the retries",
        applies=lambda context: not context.settings.skip and context.facts.bounds_retries(context.settings),
        edit=edit_training_job,
        writes=kubeflow.writes,
    ),
    Rule(
        name="failure_policy",
        applies_to="a Volcano Job that restarts pods that failed",
        applies=lambda context: not context.settings.skip,
        edit=edit_volcano_job,
        writes=volcano.writes,
    ),
    Rule(
        name="retries",
        applies_to="a JobSet whose own rules make restarts free, where the profile clamps",
        applies=lambda context: context.clamps,
        edit=edit_free_restarts_of_set,
        writes=free_restarts.writes_in_set,
    ),
    Rule(
        name="retries",
        applies_to="the retry fields and pod templates of a kind",
        edit=edit_retries_beside,
        writes=retries.writes_beside,
    ),
    # After the limit, from which it takes the number of retries.
    Rule(
        name="failure_policy",
        applies_to="the retryStrategies of a workload of Argo Workflows",
        edit=edit_retry_strategies,
        writes=argo.writes,
    ),
    Rule(
        name="timeouts",
        applies_to="the timeout fields of a kind",
        applies=lambda context: not context.settings.skip,
        edit=edit_timeout_fields,
        writes=timeouts.writes_beside,
    ),
    Rule(name="annotations", applies_to="a TrainJob", edit=edit_train_job, writes=train_job.writes),
    Rule(
        name="annotations",
        applies_to="the pod templates of a kind, and workloads made of it",
        edit=edit_annotations,
        writes=annotations.writes_beside,
    ),
)


# Pods


def waits_by_ledger(context: PodContext) -> bool:
    """Return True if a pod is of a Job whose disruptions the ledger counts, and was not edited already.

    In a second round of the same admission the pod has ATTEMPT_SOURCE from the first, which did this edit.
    """
    said = context.evidence.annotations
    return context.facts.ledger and context.is_of_job and names.ATTEMPT_SOURCE not in said


def edit_pod_back_off(context: PodContext) -> list[Problem]:
    """Subtract a disruption from the count from which the Job controller computes an index's back-off."""
    back_off.edit_pod(context.evidence, context.editor)
    return []


def edit_placement(context: PodContext) -> list[Problem]:
    """Choose the nodes of a pod; the rules after this one read the placement and the decision."""
    evidence, recognised = context.evidence, context.facts.recognised
    settings, asked = evidence.settings, context.asked
    chosen = settings.profile.placement
    levels = attempts.levels(evidence)
    lost = loss.is_lost_when_disrupted(evidence, levels)
    on_demand = asked.on_demand or (chosen.roles != "Alike" and leads(evidence))
    decision = placement.decide(levels, settings, lost=lost, asked=on_demand)
    context.placed = placement.edit(evidence.pod, decision, settings, recognised, context.editor)
    context.decision = decision
    if asked.avoid_nodes or asked.avoid_zones or chosen.wave is not None:
        edit_avoid(context)
    if chosen.protect in {context.placed, "Always"}:  # both have the value OnDemand
        protect.edit(evidence.annotations, context.editor)
    return []


def leads(evidence: attempts.Evidence) -> bool:
    """Return True if a pod leads its workload, and its author has not waived on-demand nodes for it."""
    return not evidence.settings.interruptible and roles.leads(evidence.labels, evidence.annotations)


def edit_avoid(context: PodContext) -> None:
    """Prefer other nodes and zones than those where attempts failed, or that lose their spot nodes."""
    evidence, editor, asked = context.evidence, context.editor, context.asked
    zones = dict.fromkeys((*asked.avoid_zones, *zones_that_lose_spot(context)))
    if not (zones or asked.avoid_nodes) or groups.is_grouped(evidence.pod):
        return
    if zones:
        provider = placement.provider_of(evidence.settings.profile, context.facts.recognised)
        on_spot = capacity.spot_preferences(provider) if provider is not None and context.placed == "Spot" else []
        avoid.zones(editor, [*zones], on_spot)
    avoid.nodes(editor, asked.avoid_nodes)


def zones_that_lose_spot(context: PodContext) -> tuple[str, ...]:
    """Return the zones that a pod on spot nodes avoids because they lose their spot pods."""
    wave, waves = context.evidence.settings.profile.placement.wave, context.facts.waves
    if wave is None or waves is None or context.placed != "Spot":
        return ()
    return waves.avoided(wave.share, wave.avoid_for, context.facts.now)


def grows(context: PodContext) -> bool:
    """Return True if a container of the scope was killed for its memory, and a rule of onFailure gives it more."""
    return bool(context.asked.kills)


def edit_memory(context: PodContext) -> list[Problem]:
    """Raise the memory of containers that were killed for it, unless an earlier round of the same admission did."""
    said, asked = context.evidence.annotations, context.asked
    if memory.is_done(said, asked):
        context.growth_note = said[names.MEMORY]
        return []
    context.growths = memory.edit(context.evidence, asked, context.facts, context.editor)
    context.growth_note = "; ".join(map(str, context.growths))
    return []


def is_delayed(context: PodContext) -> bool:
    """Return True if a rule of onFailure asks for a delay of a pod, and a leader would end it."""
    return bool(context.asked.not_before) and context.facts.ledger


def edit_delay(context: PodContext) -> list[Problem]:
    """Hold a pod back until the delay is over."""
    delay.edit(context.asked, context.facts.now, context.editor)
    return []


def edit_pod_annotations(context: PodContext) -> list[Problem]:
    """Annotate a pod with the decision and its source; return the warnings about malformed sources of its attempt."""
    said, editor, decision = context.evidence.annotations, context.editor, context.decision
    if decision is None:
        return []
    retries, disruptions = decision.retries, decision.disruptions
    notes = {names.PLACEMENT: context.placed, names.ATTEMPT_SOURCE: retries.source}
    if names.ATTEMPT not in said or count(said[names.ATTEMPT]) != retries.attempt:
        notes[names.ATTEMPT] = str(retries.attempt)
    if names.MAX_RETRIES not in said:
        notes[names.MAX_RETRIES] = str(retries.budget)
    is_known = context.evidence.disruptions is not None
    if disruptions is not None and (is_known or not is_short_of_disruptions(context)):
        notes |= {names.DISRUPTIONS: str(disruptions.attempt), names.MAX_DISRUPTIONS: str(disruptions.budget)}
    if context.asked != on_failure.NONE:
        notes[names.AFTER_FAILURE] = on_failure.written(context.asked)
        if context.growth_note:
            notes[names.MEMORY] = context.growth_note
    if not RECORDS.isdisjoint(said):
        for key in sorted(RECORDS - notes.keys()):  # copied from its template
            editor.remove((*annotations.OWN, key))
    state_key = context.facts.state_key
    if state_key is not None:
        notes[names.PROOF] = state_key.proof_of_state(*context.belongs_to, said | notes)
    editor.update(annotations.OWN, notes)
    editor.update(("metadata", "labels"), {names.PROFILE: context.profile.name})
    return context.evidence.warnings


def mark_unplaced_pod(pod: UnplacedPod) -> list[Problem]:
    """Label a pod that is not placed, and remove our annotations from it."""
    said = annotations.of(pod.editor.root)
    for key in WRITTEN_ON_PODS:
        if key in said:
            pod.editor.remove((*annotations.OWN, key))
    pod.editor.update(("metadata", "labels"), {names.PROFILE: pod.profile_name})
    return []


def is_short_of_disruptions(context: PodContext) -> bool:
    """Return True if the Job controller's count of an index, without the ledger's, lacks what the ledger has counted.

    Admission subtracts them. The ledger reads the annotation, so that none is better than one that is too low.
    """
    return context.facts.ledger and batch.INDEX_IGNORED_FAILURES in context.evidence.annotations


def edit_environment(context: PodContext) -> list[Problem]:
    """Tell the containers of a pod its attempt, and why the last one ended."""
    if context.decision is not None:
        values = environment.variables(context.decision, context.placed or "None", context.after.cause)
        environment.edit(values, context.editor_of_whole())
    return []


def edit_last_words(context: PodContext) -> list[Problem]:
    """Let the kubelet report the end of the log of containers that fail."""
    last_words.edit(context.editor_of_whole())
    return []


# Keys that record something about one pod, or about a workload, from which Tekton copies all annotations to its pods.
# With a copied COUNTED the ledger would not count another pod.
RECORDS: Final = frozenset({names.AFTER_FAILURE, names.COUNTED, names.DISRUPTIONS, names.MEMORY, names.PROOF})
POD_KEYS: Final = (
    names.AFTER_FAILURE,
    *(names.ATTEMPT, names.ATTEMPT_SOURCE, names.COUNTED, names.DISRUPTIONS, names.MAX_DISRUPTIONS, names.MAX_RETRIES),
    names.MEMORY,
    names.PLACEMENT,
    names.PROOF,
)
WRITTEN_ON_PODS: Final = tuple(key for key in POD_KEYS if key not in {names.ATTEMPT, names.MAX_RETRIES})
POD_RULES: Final[tuple[Rule[PodContext], ...]] = (
    # Before the placement: both read this annotation of the Job controller.
    Rule(
        name="back_off",
        applies_to="a pod of a Job",
        applies=waits_by_ledger,
        edit=edit_pod_back_off,
        writes=in_pods(back_off.IGNORED_FAILURES),
    ),
    Rule(
        name="placement",
        applies_to="each pod",
        edit=edit_placement,
        writes=in_pods(*placement.WRITES, *avoid.WRITES, *protect.WRITES),
    ),
    # After the placement: the pod's memory is bounded by the largest node on which it may run.
    Rule(
        name="memory",
        applies_to="a pod that the ledger counts, after a container was killed for its memory",
        applies=grows,
        edit=edit_memory,
        writes=in_pods(*memory.WRITES),
    ),
    Rule(
        name="back_off",
        applies_to="a pod that the ledger counts, after an attempt for which a rule of onFailure asks for a delay",
        applies=is_delayed,
        edit=edit_delay,
        writes=in_pods(delay.GATES),
    ),
    Rule(
        name="annotations",
        applies_to="each pod",
        edit=edit_pod_annotations,
        writes=in_pods(*((*annotations.OWN, key) for key in POD_KEYS), ("metadata", "labels", names.PROFILE)),
    ),
    # After the placement, which it tells the program.
    Rule(
        name="environment",
        applies_to="each pod, where the profile says so",
        applies=lambda context: context.profile.profile.environment,
        edit=edit_environment,
        writes=in_pods(*environment.WRITES),
    ),
    Rule(
        name="last_words",
        applies_to="each pod, where the profile says so",
        applies=lambda context: context.profile.profile.diagnostics.last_words,
        edit=edit_last_words,
        writes=in_pods(*last_words.WRITES),
    ),
)


# Whatever its shape, a pod of a batch workload is counted, and nothing that it says of itself in our name is believed.
UNPLACED_POD_RULES: Final[tuple[Rule[UnplacedPod], ...]] = (
    Rule(
        name="annotations",
        applies_to="a pod of a batch workload that is skipped, has a node already, or is too large for the rules",
        edit=mark_unplaced_pod,
        writes=in_pods(*((*annotations.OWN, key) for key in WRITTEN_ON_PODS), ("metadata", "labels", names.PROFILE)),
    ),
)


# Rules that deny


def problems_of_annotations(context: ValidationContext) -> Iterable[Problem]:
    """Return the malformed or forbidden values of our annotations."""
    return annotations.problems(context.row, context.root, context.jobs, context.profile)


def problems_of_labels(context: ValidationContext) -> Iterable[Problem]:
    """Return the labels with which the pods of a Job would count for a JobSet that does not control it."""
    return chain.from_iterable(map(owner.label_problems, context.jobs))


def problems_of_schema(context: ValidationContext) -> Iterable[Problem]:
    """Return what the API server would refuse."""
    return chain.from_iterable(schema.problems(job.spec, job.path) for job in context.jobs)


def problems_of_controller(context: ValidationContext) -> Iterable[Problem]:
    """Return what is wrong with the controller that a Job names."""
    return () if context.owner is None else owner.problems(context.root, context.owner, context.facts.owner)


VALIDATING_RULES: Final[tuple[Rule[ValidationContext], ...]] = (
    Rule(name="annotations", applies_to="each object", problems=problems_of_annotations),
    Rule(
        name="owner",
        applies_to="each Job, but for those of a JobSet",
        applies=lambda context: context.row is not JOB_SET,
        problems=problems_of_labels,
    ),
    Rule(name="retries", applies_to="each object", problems=limits.problems),
    Rule(name="schema", applies_to="each Job", problems=problems_of_schema),
)
# Not for embedded objects: they have no controller yet.
CONTROLLED: Final[Rule[ValidationContext]] = Rule(
    name="owner",
    applies_to="a Job that a controller has created",
    applies=lambda context: context.row is batch.JOB and context.facts.owners_known,
    problems=problems_of_controller,
)


@cache
def pod_rules(asked: bool, variables: bool, last_words: bool) -> tuple[Rule[PodContext], ...]:  # noqa: FBT001
    """Return the rules for pods that may have something to do for one of them.

    `asked`: whether rules of onFailure ask for memory or a delay. `variables`, `last_words`: whether the profile wants
    them.
    """
    idle = {
        *(() if asked else (edit_memory, edit_delay)),
        *(() if variables else (edit_environment,)),
        *(() if last_words else (edit_last_words,)),
    }
    return tuple(rule for rule in POD_RULES if rule.edit not in idle)


@cache
def job_rules(row: KindSpec) -> tuple[Rule[JobContext], ...]:
    """Return the rules for the JobSpecs of a kind: those that write something in it."""
    return tuple(rule for rule in JOB_RULES if rule.writes(row))


@cache
def workload_rules(row: KindSpec) -> tuple[Rule[WorkloadContext], ...]:
    """Return the rules for the other fields of a kind: those that write something in it."""
    return tuple(rule for rule in WORKLOAD_RULES if rule.writes(row))


@cache
def written_by_rules(row: KindSpec) -> tuple[Pattern, ...]:
    """Return the patterns of all fields that rules write in a kind of workload, each once."""
    of_jobs = (pattern for rule in JOB_RULES for pattern in rule.writes(row))
    beside = (pattern for rule in WORKLOAD_RULES for pattern in rule.writes(row))
    return tuple(dict.fromkeys((*of_jobs, *beside)))
