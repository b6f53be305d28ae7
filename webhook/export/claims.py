"""What the exported policies hold, and what only the webhook does: the table that the output, docs and tests show."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from webhook.export import failure_policy, placement
from webhook.export.profiles import clamps
from webhook.policy.model import Policy, Profile


def always(_profile: Profile) -> bool:
    """Return True."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One thing that the webhook does, and how much of it the exported policies do while it is away.

    `of`: the field of the policy or the annotation. `held`: whether they do it. `concerns`: of which profiles it is
    true.
    """

    name: str
    of: str
    held: bool
    what: str
    concerns: Callable[[Profile], bool] = always


def has_named_provider(profile: Profile) -> bool:
    """Return True if a profile names its provider."""
    return placement.is_placed(profile)


def has_no_named_provider(profile: Profile) -> bool:
    """Return True if the provider of a profile is recognised from the nodes."""
    return not placement.is_placed(profile)


def injects(profile: Profile) -> bool:
    """Return True if the exported policies inject failure policies."""
    return failure_policy.inject(profile) != "Never"


def has_rules(profile: Profile) -> bool:
    """Return True if a profile has rules about ended attempts."""
    return bool(profile.on_failure)


def merges(profile: Profile) -> bool:
    """Return True if a profile adds rules to those of an author."""
    return failure_policy.inject(profile) == "Merge"


def is_not_always_on_spot(profile: Profile) -> bool:
    """Return True if the placement of pods depends on the attempt."""
    return not placement.is_always_on_spot(profile)


CLAIMS: Final = (
    Claim(
        name="limit",
        of="retries.limit",
        held=True,
        what="every retry field of every kind, at creation and in updates: more retries are refused",
    ),
    Claim(
        name="unlimited",
        of="retries.limit",
        held=True,
        what="values that mean unlimited retries are refused",
    ),
    Claim(
        name="containers",
        of="retries.limit",
        held=True,
        what="containers that restart in place without limit, or after exit codes that the profile does not retry, are"
        " refused; only the ledger limits restarts after the other codes",
    ),
    Claim(
        name="total",
        of="retries.total",
        held=True,
        what="the retries of all completion indexes together",
    ),
    Claim(
        name="nested",
        of="retries.limit",
        held=True,
        what="templates and pipelines in templates and pipelines, 8 levels deep; deeper ones are refused",
    ),
    Claim(
        name="annotations",
        of="our annotations",
        held=True,
        what="malformed or forbidden values are refused, also in pod templates, and `skip` where `allowSkip` is false",
    ),
    Claim(
        name="max-retries",
        of="max-retries",
        held=True,
        what="at creation, the annotation sets the retry fields",
    ),
    Claim(
        name="default",
        of="retries.default",
        held=True,
        what="at creation, replaces unlimited retries, and a backoffLimit that the author left out",
    ),
    Claim(
        name="clamp",
        of="retries.onExceed: Clamp",
        held=True,
        what="at creation, retry fields are lowered to the limit",
        concerns=clamps,
    ),
    Claim(
        name="clamp-others",
        of="retries.onExceed: Clamp",
        held=False,
        what="updates, restarts of containers in place and `retries.total`: these are refused, not lowered",
        concerns=clamps,
    ),
    Claim(
        name="skip",
        of="skip",
        held=True,
        what="nothing is set in the workload; the limit holds all the same",
    ),
    Claim(
        name="failure-policy",
        of="failurePolicy",
        held=True,
        what="a Job without a podFailurePolicy gets the webhook's, also a Job of a CronJob",
        concerns=injects,
    ),
    Claim(
        name="noted",
        of="the label `profile`, the annotation `policy`",
        held=True,
        what="a Job gets both, so that the ledger counts it, and its later pods are placed, when the webhook is back",
    ),
    Claim(
        name="merge",
        of="failurePolicy.inject: Merge",
        held=False,
        what="a Job that has rules of its own keeps them, and gets none",
        concerns=merges,
    ),
    Claim(
        name="sets",
        of="failurePolicy, jobSet",
        held=False,
        what="a JobSet gets no rules, nor do its Jobs: a disruption costs a restart",
        concerns=injects,
    ),
    Claim(
        name="free-restarts",
        of="retries.limit",
        held=False,
        what=(
            "rules of an author that ignore failures, or restart a JobSet at no cost, are not judged: "
            "what they make free has no limit"
        ),
    ),
    Claim(
        name="ledger",
        of="disruptions, failurePolicy.coupled: Settle",
        held=False,
        what="nothing counts disruptions, and no crash is recognised as a bug in Jobs whose pods depend on each other",
    ),
    Claim(
        name="interruptible",
        of="interruptible",
        held=True,
        what='a pod that says "false" itself gets on-demand nodes',
        concerns=has_named_provider,
    ),
    Claim(
        name="always-on-spot",
        of="placement",
        held=True,
        what="the pods of Jobs get spot nodes for every attempt",
        concerns=placement.is_always_on_spot,
    ),
    Claim(
        name="provider",
        of="placement.provider: auto",
        held=False,
        what="the provider is recognised from the nodes, so no pod is placed; name one to have `interruptible` held",
        concerns=has_no_named_provider,
    ),
    Claim(
        name="on-failure",
        of="onFailure",
        held=False,
        what="no rule about ended attempts has an effect, and no Job of such a profile gets a podFailurePolicy",
        concerns=has_rules,
    ),
    Claim(
        name="attempts",
        of="placement",
        held=False,
        what="no pod is placed by its attempt, and none gets the annotations `attempt` and `placement`",
        concerns=is_not_always_on_spot,
    ),
    Claim(
        name="protection",
        of="placement.protect",
        held=False,
        what="no pod asks the node autoscaler not to remove its node",
        concerns=lambda profile: profile.placement.protect != "Never",
    ),
    Claim(
        name="copies",
        of="interruptible, max-retries",
        held=False,
        what="annotations of a workload are not copied to its pods, nor to workloads that are made of it",
    ),
    Claim(
        name="back-off",
        of="backOff, attemptTimeout",
        held=False,
        what="not set",
    ),
    Claim(
        name="embedded",
        of="retries.limit",
        held=False,
        what="objects in an AppWrapper or TriggerTemplate are refused when they are created from it, not before",
    ),
    Claim(
        name="expressions",
        of="retries.limit",
        held=False,
        what="a limit of Argo that is an expression is not judged, nor are templates in the status of a Workflow",
    ),
    Claim(
        name="modes",
        of="the label `mode`",
        held=True,
        what="Warn warns about and Audit records what would be refused; both change nothing",
    ),
    Claim(
        name="would-change",
        of="the label `mode`",
        held=False,
        what=(
            "Warn and Audit say nothing about what would be set, and judge fields as if neither `max-retries` nor the "
            "default had set them"
        ),
    ),
    Claim(
        name="replace",
        of="updates",
        held=False,
        what=(
            "nothing is put back that an update leaves out, so the API server refuses such an update of a Job; "
            "`kubectl apply` of an unchanged manifest works"
        ),
    ),
    Claim(
        name="types",
        of="values of a wrong type",
        held=False,
        what="where a CRD does not check types, some pass, and others are refused with the message of CEL",
    ),
    Claim(
        name="requested-retries",
        of="requestedRetry",
        held=False,
        what="nothing is run again, and `retryable` is not written",
    ),
    Claim(
        name="lint",
        of="warnings",
        held=False,
        what="no warnings about fields that do not do what their author wants, nor about misspelt keys",
    ),
)


def of_policy(policy: Policy, *, held: bool) -> list[Claim]:
    """Return the claims that are true of a profile of the policy."""
    profiles = policy.profiles.values()
    return [claim for claim in CLAIMS if claim.held is held and any(map(claim.concerns, profiles))]


def line(claim: Claim) -> str:
    """Return a claim as a line of text."""
    return f"{claim.of}: {claim.what}"
