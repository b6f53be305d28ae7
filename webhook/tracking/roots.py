"""Names the workloads that have an account, and reads it."""

from collections.abc import Callable

import structlog

from webhook.accounts.account import Account
from webhook.accounts.cached import CachedJob, CachedJobSet, CachedRoot
from webhook.accounts.stored import decode
from webhook.accounts.tracker import Key
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import controller_of

Root = CachedJob | CachedJobSet | CachedRoot  # the object that has an account

log = structlog.get_logger()


def key_of_job(job: CachedJob) -> Key:
    """Return the workload for which a Job's pods are counted: its JobSet, or else the Job."""
    metadata = job["metadata"]
    controller = controller_of(job)
    if controller is not None and (controller.group, controller.kind) == (JOB_SET.group, JOB_SET.kind):
        return Key(metadata["namespace"], JOB_SET, controller.name)
    return Key(metadata["namespace"], batch.JOB, metadata["name"])


def key_of_job_set(job_set: CachedJobSet) -> Key:
    """Return the key of a JobSet."""
    return Key(job_set["metadata"]["namespace"], JOB_SET, job_set["metadata"]["name"])


def read(key: Key, text: str | None, decoded: Callable[[str | None], Account] = decode) -> Account:
    """Return the account in a status; an empty one, with a line in the log, if it is malformed or too long."""
    try:
        return decoded(text)
    except ValueError as error:
        log.warning("account unreadable, begun anew", **where(key), error=str(error))
        return Account()


def where(key: Key) -> dict[str, str]:
    """Return the fields of a log line that name a workload."""
    return {"kind": key.kind, "namespace": key.namespace, "name": key.name}
