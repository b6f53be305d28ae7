"""Denies rules of an author that let failures cost no retry, without any bound.

Reads, in a JobSpec:
    podFailurePolicy.rules[*], as webhook/systems/job/rules/lint.py reads them
    activeDeadlineSeconds: whether it ends the Job soon
    managedBy, manualSelector, template.metadata.annotations[retry-policy.dev/skip]: whether the ledger counts the pods
    template.spec.{containers,initContainers}[*].name
in a JobSetSpec:
    failurePolicy.rules[*].{action,onJobFailureReasons,onJobFailureMessagePatterns,targetReplicatedJobs}
    replicatedJobs[*].name

A pod whose failure is ignored restarts at no cost, and so does a JobSet with an action that ends in
AndIgnoreMaxRestarts. Such rules are meant for disruptions, which `disruptions` bounds. After any other failure the
ledger counts a free restart, and ends the workload after `retries.limit` of them. A rule is denied if the ledger cannot
count it and no deadline ends the Job, or if it makes nearly every failure free: then there would be no retry limit.
Rules are judged in their order, as the Job controller (pkg/controller/job/pod_failure_policy.go of Kubernetes 1.36.3)
and the JobSet controller (pkg/controllers/failure_policy.go of JobSet 0.11) apply them.
"""

from collections.abc import Collection, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from webhook.kube import names
from webhook.objects import bounds
from webhook.objects.patch import EVERY, Pattern, at
from webhook.objects.problem import Json, Path, Problem
from webhook.pods import matching
from webhook.pods.matching import POD_FAILURE_POLICY, JobEnd
from webhook.policy.settings import Settings
from webhook.rules.rule import Rule, in_job_specs
from webhook.systems.job import spec as batch
from webhook.systems.job.rules import failure_costs, lint, schema
from webhook.systems.job_set.rules.job_set import MESSAGE_OF_DISRUPTION, RULES, replicated_job_name
from webhook.systems.job_set.spec import FREE, JOB_SET
from webhook.systems.kind_spec import EmbeddedJob

if TYPE_CHECKING:
    from webhook.rules.contexts import JobContext, WorkloadContext

ON_DISRUPTION: Final = [{"type": lint.DISRUPTION[0], "status": lint.DISRUPTION[1]}]
EXIT_CODES: Final = frozenset(range(1, 256))  # those with which a process on Linux can fail
FEW: Final = len(EXIT_CODES) // 2  # more codes than this are too many to ignore
# What the kubelet sets on nearly every pod that has failed (pkg/kubelet/status/generate.go).
ON_EVERY_FAILED_POD: Final = frozenset(
    {
        ("ContainersReady", "False"),
        ("Initialized", "True"),
        ("PodReadyToStartContainers", "False"),
        ("PodReadyToStartContainers", "True"),
        ("PodScheduled", "True"),
        ("Ready", "False"),
    }
)
MOST_WORK: Final = 20_000  # of matching a JobSet's rules; a rule that cannot be judged within it counts as free
# In a JobSpec.
WRITES: Final[tuple[Pattern, ...]] = (("podFailurePolicy", "rules", EVERY, "action"),)
# Seconds. The Job controller creates the next pod 10 s after the first failure, and doubles that up to 10 minutes after
# further ones, ignored ones too: so ten times in an hour (backoff_utils.go of pkg/controller/job).
LONGEST_DEADLINE: Final = 3600
CRASH: Final = 1  # the exit code of most bugs
DEADLINE_REMEDY: Final = f"use Count, or set activeDeadlineSeconds to {LONGEST_DEADLINE} or less"


def is_counted(job: EmbeddedJob, settings: Settings, *, ledger: bool) -> bool:
    """Return True if the ledger counts the pods of a Job; `ledger`: whether there is a ledger at all."""
    spec = job.spec
    skipped = settings.skip or (settings.profile.allow_skip and job.pod_annotations.get(names.SKIP) == "true")
    return ledger and batch.is_of_job_controller(spec) and not skipped and not spec.get("manualSelector")


def problems(job: EmbeddedJob, *, counted: bool) -> Iterator[Problem]:
    """Yield a problem for each rule of a Job's podFailurePolicy that makes restarts free without a bound.

    None for a policy that the schema rule denies. `counted`: whether the ledger counts the Job's pods.
    """
    if _ends_soon(job):
        return
    for rule, too_wide in _free_rules(job):
        if too_wide:
            what = f"ignores {too_wide}, so failures without limit cost no retry"
            yield Problem(rule.path, what, f"ignore only the few that are worth a retry, {DEADLINE_REMEDY}")
        elif not counted:
            yield Problem(rule.path, "failures cost no retry, and no ledger counts them", DEADLINE_REMEDY)


def warnings(job: EmbeddedJob, settings: Settings) -> Iterator[Problem]:
    """Yield a warning for each rule of an author that makes restarts free within the ledger's limit."""
    if not _ends_soon(job):
        limit = settings.profile.retries.limit
        ours = {
            matching.exit_codes_of(one) for one in failure_costs.rules(job, settings, failing="Count", counted=True)
        }
        for rule, too_wide in _free_rules(job):
            if not too_wide and (rule.exit_codes is None or rule.exit_codes not in ours):
                yield Problem(rule.path, "costs no retry", f"the ledger fails the Job after {limit} such failures")


def _ends_soon(job: EmbeddedJob) -> bool:
    deadline = job.spec.get("activeDeadlineSeconds")
    return deadline is not None and deadline <= LONGEST_DEADLINE


def _free_rules(job: EmbeddedJob) -> Iterator[tuple[lint.LintRule, str]]:
    """Yield the rules that ignore failures other than disruptions, each with what makes it too wide; "" if nothing."""
    raw = at(job.spec, ("podFailurePolicy", "rules")) or ()
    if not any(map(_may_ignore_failures, islice(raw, bounds.MAX_RULES))):
        return  # the fast path: nearly all Jobs
    if any(schema.problems(job.spec, job.path)):
        return  # /validate denies it for them
    rules = lint.read(job.spec, (*job.path, "podFailurePolicy", "rules"))
    by_codes = _ignored_codes(rules, schema.container_names(job.spec))
    for index, rule in enumerate(rules):
        if rule.action != "Ignore":
            continue
        if rule.exit_codes is not None:
            if rule.path in by_codes:
                yield rule, by_codes[rule.path]
        elif rule.conditions != {lint.DISRUPTION} and not lint.is_shadowed(rule, rules[:index]):
            wide = sorted(rule.conditions & ON_EVERY_FAILED_POD)
            yield rule, "".join(f"{kind}={status}, as nearly every failed pod has it" for kind, status in wide[:1])


def _may_ignore_failures(rule: Json) -> bool:
    """Return True if a rule has the action Ignore, and is not the usual one for disruptions."""
    return rule.get("action") == "Ignore" and rule.get("onPodConditions") != ON_DISRUPTION


def _ignored_codes(rules: list[lint.LintRule], containers: Collection[str]) -> dict[Path, str]:
    """Return, by its path, each exit-code rule that ignores a code, with what makes it too wide; "" if it is not.

    If several rules together ignore most codes of a container, the first of them counts as too wide.
    """
    found: dict[Path, str] = {}
    for scope in _scopes_of(rules, containers):
        ignored: set[int] = set()
        first: lint.LintRule | None = None
        left = EXIT_CODES
        for rule in rules:
            if rule.exit_codes is None or not _concerns(rule, scope):
                continue
            values = frozenset(rule.exit_codes.values)
            taken = left - values if rule.exit_codes.excluding else left & values
            left -= taken
            if rule.action == "Ignore" and taken:
                found.setdefault(rule.path, "")
                first = first or rule
                ignored |= taken
        if first is not None and len(ignored) > FEW:
            found[first.path] = f"{len(ignored)} of the {len(EXIT_CODES)} exit codes"
    return found


def _scopes_of(rules: list[lint.LintRule], containers: Collection[str]) -> list[str | None]:
    """Return the containers that rules name, each once, and None for all others if there are others."""
    named = {rule.exit_codes.container for rule in rules if rule.exit_codes is not None}
    known = set(containers)
    scopes: list[str | None] = [*sorted(name for name in named & known if name is not None)]
    return [*scopes, None] if known - named else scopes


def _concerns(rule: lint.LintRule, scope: str | None) -> bool:
    """Return True if a rule about exit codes applies to the containers of a scope."""
    return rule.exit_codes is not None and rule.exit_codes.container in {None, scope}


def set_problems(root: Json, jobs: list[EmbeddedJob]) -> Iterator[Problem]:
    """Yield a problem for each rule by which a JobSet restarts at no cost after bugs; `jobs`: those of the set."""
    for path, ending in free_after_bugs(root, jobs).items():
        action = at(root, path)
        what = f"restarts without limit and at no cost after {ending.reason}: {ending.message}"
        yield Problem(path, what, f"use {_counting(action)}, which maxRestarts limits")


def free_after_bugs(root: Json, jobs: list[EmbeddedJob]) -> dict[Path, JobEnd]:
    """Return the paths of the actions by which a JobSet restarts at no cost after a bug, each with such a Job's end."""
    found: dict[Path, JobEnd] = {}
    if not any(map(_may_be_free_after_bugs, at(root, RULES) or ())):
        return found
    work = matching.Work(MOST_WORK)
    for job in jobs:
        for ending in _endings_by_bugs(root, job):
            index, action = matching.rule_of_set(root, replicated_job_name(root, job), ending, work, FREE)
            if action.endswith(FREE) and index is not None:
                found.setdefault((*RULES, index, "action"), ending)
    return found


def _may_be_free_after_bugs(rule: Json) -> bool:
    """Return True if a rule of a JobSet restarts it at no cost, and is not limited to disruptions as ours is."""
    return (rule.get("action") or "").endswith(FREE) and rule.get("onJobFailureMessagePatterns") != [
        MESSAGE_OF_DISRUPTION
    ]


def restarts(job_set: Json | None) -> bool:
    """Return True if a JobSet restarts after some failure because of its author, not because of a rule of ours."""
    policy = at(job_set, ("spec", "failurePolicy"))
    if not isinstance(policy, dict):
        return False  # no JobSet, no policy, or an object of another kind
    return bool(policy.get("maxRestarts")) or any(map(_may_be_free_after_bugs, policy.get("rules") or ()))


def _endings_by_bugs(root: Json, job: EmbeddedJob) -> Iterator[JobEnd]:
    """Yield the ways in which a Job of a set ends when its program has a bug (pkg/controller/job of Kubernetes)."""
    spec = job.spec
    yield matching.TOO_MANY_FAILURES
    if spec.get("activeDeadlineSeconds") is not None:
        yield matching.OVERDUE
    if batch.has_index_budgets(spec):
        yield matching.FAILED_INDEXES
        yield matching.TOO_MANY_INDEXES
    rules = [rule for rule in lint.read(spec, ()) if rule.exit_codes is not None]
    containers = schema.container_names(spec)
    for scope in _scopes_of(rules, containers):
        for rule in rules:
            if _concerns(rule, scope) and rule.exit_codes is not None and rule.exit_codes.match(CRASH):
                if rule.action == "FailJob":
                    yield _crashed(root, replicated_job_name(root, job), scope or next(iter(containers)), rule.path[-1])
                break


def _crashed(job_set: Json, replicated_job: str, container: str, index: str | int) -> JobEnd:
    """Return the end of a Job that the FailJob rule at `index` has failed because of exit code 1."""
    namespace, name = (at(job_set, ("metadata", field)) or "" for field in ("namespace", "name"))
    pod = f"{namespace}/{name}-{replicated_job}-0-0"
    message = (
        f"Container {container} for pod {pod} failed with exit code {CRASH} matching FailJob rule at index {index}"
    )
    return JobEnd(POD_FAILURE_POLICY, message)


def _clamp_in_job(context: "JobContext") -> list[Problem]:
    """Change to Count the rules of a Job's podFailurePolicy that would be denied; return warnings."""
    warnings = []
    for problem in list(problems(context.job, counted=context.is_counted)):
        path = (*problem.path, "action")
        context.editor.set(path, "Count")
        remedy = f"profile {context.settings.profile_name!r} allows no unlimited retries"
        warnings.append(Problem(path, "changed to Count", remedy))
    return warnings


def _clamp_in_set(context: "WorkloadContext") -> list[Problem]:
    """Change the rules that restart a JobSet at no cost after bugs, so that they count; return warnings."""
    warnings = []
    for path in free_after_bugs(context.root, context.jobs):
        action = _counting(at(context.root, path))
        context.editor.set(path, action)
        remedy = f"profile {context.settings.profile_name!r} allows no unlimited restarts"
        warnings.append(Problem(path, f"changed to {action}", remedy))
    return warnings


def _counting(action: str) -> str:
    return action.removesuffix(FREE)


IN_JOB: Final[Rule["JobContext"]] = Rule(
    name="retries",
    applies_to="each Job whose own rules make restarts free, where the profile clamps",
    applies=lambda context: context.workload.clamps and context.has_free_restarts,
    even_if_skipped=True,
    edit=_clamp_in_job,
    writes=in_job_specs(*WRITES),
)
IN_SET: Final[Rule["WorkloadContext"]] = Rule(
    name="retries",
    applies_to="a JobSet whose own rules make restarts free, where the profile clamps",
    applies=lambda context: context.clamps,
    even_if_skipped=True,
    edit=_clamp_in_set,
    writes=lambda kind: ((*RULES, EVERY, "action"),) if kind is JOB_SET else (),
)
