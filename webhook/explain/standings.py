"""Says where a workload stands before its next failure: its pods, its account, and the profile in force. Pure."""

from collections.abc import Iterable
from typing import Final

from webhook.accounts import counting, stored
from webhook.accounts.account import Account
from webhook.accounts.counted import counted_of
from webhook.accounts.forecast import Standing
from webhook.kube import names, terminal
from webhook.objects.left_out import LeftOut
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.pods import pods
from webhook.pods.pods import Pod
from webhook.policy.applied import profile_of
from webhook.policy.model import Disruptions, FailurePolicy, Profile
from webhook.policy.settings import NamedProfile, Settings
from webhook.rules import annotations, undo
from webhook.systems.accounts import SYSTEMS
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec

# The profile of a Job without a record of one: it injects nothing and has no limits.
NOBODYS: Final = NamedProfile(
    "",
    Profile(failure_policy=FailurePolicy(inject="Never"), disruptions=Disruptions(limit=batch.UNLIMITED)),
)
EVENT: Final = "Event"


def pods_in(parts: Iterable[Json], left_out: LeftOut) -> tuple[list[Json], list[Pod]]:
    """Return the pods among the parts of a workload, as the API has them and as the ledger reads them."""
    roots, found = [], []
    for part in parts:
        with left_out.around("Pod", part):
            if part.get("kind") != EVENT and not stored.is_account(part):
                found.append(pods.read(part))
                roots.append(part)
    return roots, found


def account_with(  # noqa: PLR0913, PLR0917 - all that is known of a workload
    kind: KindSpec, root: Json, jobs: list[Json], parts: list[Json], found: Iterable[Pod], left_out: LeftOut, now: float
) -> Account:
    """Return the account of a workload with the failed pods that it does not have yet; raise UnfitError.

    `jobs`: a Job itself, or those of a JobSet. `parts`: one of them may be its Account. `found`: its pods. `now`: Unix
    time; disruptions may count no more by then.
    """
    account, system = stored.account_of(kind, root, parts), SYSTEMS[kind]
    keeps = any(detail.message for detail in account.last)  # the profile that `explain` knows does not say it
    # Other kinds than Job create pods of the same name.
    counted = {detail.pod for detail in account.last if system.has_jobs and not detail.restart}
    has_ended = not system.has_jobs and system.has_ended(root)
    by_uid = {job["metadata"]["uid"]: job for job in jobs} if system.has_jobs else {}
    for pod in sorted((pod for pod in found if pod.enters_account), key=lambda pod: pod.ended):
        with left_out.around("Pod", pod):
            job = by_uid.get(pod.job_uid) if system.has_jobs else root
            if job is not None and pod.name not in counted and not account.has(pod):
                of_pod = counted_of(system, job, root if kind is JOB_SET else None, settings_of(job, account))
                counting.count(account, pod, of_pod, has_ended=has_ended, keeps_messages=keeps)
    if account.suspended and not at(root, ("spec", "suspend")):
        account.reset_limits()
    account.renew(now, settings_of(root, account).profile.disruptions.per)
    return account


def standings_of(  # noqa: PLR0913, PLR0917 - all that is known of a workload
    kind: KindSpec, root: Json, jobs: list[Json], account: Account, found: list[Pod], now: float
) -> list[Standing]:
    """Return where the Jobs of a workload stand, or the workload if it has none; nothing if it has ended.

    Nothing either if it is of another kind than Job, and nothing says what its profile is.
    """
    system, live = SYSTEMS[kind], tuple(pod for pod in found if not pod.has_ended)
    if system.has_jobs:
        if terminal.condition_of(root) or terminal.is_decided(root.get("status") or {}):
            return []
        job_set = root if kind is JOB_SET else None
        profiles = ((job, _policy_of(job, account) or NOBODYS) for job in jobs)
        return [
            Standing(job=job, job_set=job_set, account=account, live=live, profile=profile, now=now)
            for job, profile in profiles
        ]
    recorded = _policy_of(root, account)
    profile = recorded
    if profile is None and account.applied is not None and annotations.of(root).get(names.SKIP) != "true":
        noted, codes = undo.read(root), FailurePolicy().retriable_exit_codes
        profile = NamedProfile("" if noted is None else noted.profile, profile_of(account.applied, codes))
    if profile is None or system.has_ended(root):
        return []
    live = tuple(pod for pod in live if not pod.deleting)
    return [
        Standing(kind=kind, job=root, account=account, live=live, profile=profile, knows_codes=recorded is not None)
    ]


def of_job(job: Json, found: Iterable[Pod]) -> list[Pod]:
    """Return the pods of a Job."""
    return [pod for pod in found if pod.job_uid == job["metadata"]["uid"]]


def _policy_of(root: Json, account: Account) -> NamedProfile | None:
    """Return the profile recorded on a workload and in its account; None if it is skipped or has no record."""
    record = undo.read(root)
    if record is None or record.applied is None or annotations.of(root).get(names.SKIP) == "true":
        return None
    kept = account.applied or record.applied
    return NamedProfile(record.profile, profile_of(kept, record.retriable_exit_codes, record.on_failure))


def settings_of(root: Json, account: Account) -> Settings:
    """Return the settings recorded on a workload and in its account."""
    return (_policy_of(root, account) or NOBODYS).settings(annotations.of(root))
