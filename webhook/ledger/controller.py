"""Writes the ledger: of all replicas one, the leader, writes accounts and acts on them.

What is written next follows from what the watches bring back, never from what was meant to be written. A write fails
where the account is not what it was; the watch then brings what it is.
"""

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

import structlog

from webhook import metrics
from webhook.admission import modes
from webhook.kinds import batch
from webhook.kinds.job_set import JOB_SET
from webhook.kube import names
from webhook.kube.client import CHANGED, UNREACHABLE, ApiError
from webhook.kube.events import Events, Notice
from webhook.kube.lease import Lease
from webhook.kube.slices import in_slices
from webhook.ledger import job_failer
from webhook.ledger.model import outcomes
from webhook.ledger.model.account import KEPT, LARGEST, encode
from webhook.ledger.model.counting import CountingPass
from webhook.ledger.model.pods import Exit, Pod
from webhook.ledger.model.tracker import Key
from webhook.ledger.trackers import UNSEEN_AFTER, Trackers, WorkloadState, read, where
from webhook.lookups.policy_source import PolicySource
from webhook.objects.problem import Json
from webhook.policy.model import Profile
from webhook.policy.settings import NamedProfile, Settings
from webhook.rules import annotations
from webhook.rules.jobs.lint import KILLED

# Seconds.
GATHERING: Final = 0.2  # from a pod's end to the write: others may end with it
INTERVAL: Final = 1.0  # between writes of one account
PATIENCE: Final = 5.0  # for the watch to bring back what was written
AFTER_TROUBLE: Final = 30.0
REMEMBERED: Final = 600.0  # that a crash waits to be settled
FORGOTTEN: Final = 60.0  # after which pods that went unseen are another leader's
WRITERS: Final = 8


API_VERSIONS: Final = {
    "Job": f"{batch.JOB.group}/{batch.JOB.versions[0]}",
    "JobSet": f"{JOB_SET.group}/{JOB_SET.versions[0]}",
}
ROWS: Final = {"Job": batch.JOB, "JobSet": JOB_SET}

log = structlog.get_logger()


@dataclass(slots=True)
class Crash:
    """When a crash was seen, and when next it is looked at, by the monotonic clock."""

    seen: float
    next: float = 0.0


class Ledger:
    """The accounts of all workloads, while this replica leads."""

    def __init__(self, books: Trackers, policy: PolicySource, events: Events, lease: Lease) -> None:
        self.api = books.cluster.api
        self.books = books
        books.news = self.wake
        books.crashed = self.see_crash
        self.policy = policy
        self.events = events
        self.lease = lease
        lease.since = lambda: books.watching_since
        lease.refused, lease.allowed = self.see_refused, self.see_allowed
        self.crashes: dict[tuple[Key, str], Crash] = {}  # of pods that may have crashed by a bug
        self.queue: asyncio.Queue[Key] = asyncio.Queue()
        self.leading = self.forbidden = False
        metrics.LEDGER_LEADING.set_function(lambda: self.leading)
        metrics.LEDGER_FORBIDDEN.set_function(lambda: self.forbidden)

    async def run(self) -> None:
        """Watch until cancelled, and write while leading."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.books.pods.run())
            group.create_task(self.settle())
            group.create_task(self.lease.lead(self.work))

    def see_refused(self) -> None:
        """Take in that the Role which lets a ledger be written is missing."""
        if not self.forbidden:
            log.error("no ledger: its Role is not installed", disruptions="have no limit", settle="acts as Retry")
        self.forbidden = True

    def see_allowed(self) -> None:
        """Take in that it is there."""
        self.forbidden = False

    def see_crash(self, key: Key, pod: Pod, job: Json) -> None:
        """Take in that a pod has failed by itself."""
        settings = self.settings_of(job)
        if not job_failer.may_settle(job, settings):
            return
        if all(is_retriable(one, settings) for one in pod.exits):
            self.books.page(key).book.disturbed = time.monotonic()  # it was told to end
        else:
            self.crashes[key, pod.uid] = Crash(time.monotonic())

    async def work(self) -> None:
        """Write accounts until cancelled."""
        self.leading = True
        try:
            await self.books.pods.synced.wait()
            await self.books.cluster.jobs.synced.wait()
            await self.books.cluster.namespaces.synced.wait()
            async for key in in_slices(list(self.books.pages)):
                self.wake(key)
            async with asyncio.TaskGroup() as group:
                for _ in range(WRITERS):
                    group.create_task(self.write_what_is_queued())
        finally:
            self.leading = False
            self.queue = asyncio.Queue()
            for page in self.books.pages.values():
                page.queued = False

    def wake(self, key: Key, delay: float = 0.0) -> None:
        """Have an account written in so many seconds, or a little later."""
        page = self.books.pages.get(key)
        if not self.leading or page is None or page.queued:
            return
        page.queued = True
        pause = max(delay, GATHERING, page.written + INTERVAL - time.monotonic())
        asyncio.get_running_loop().call_later(pause, self.queue.put_nowait, key)

    async def write_what_is_queued(self) -> None:
        """Write one account after the other."""
        while True:
            key = await self.queue.get()
            page = self.books.pages.get(key)
            if page is None:
                continue
            page.queued = False
            await asyncio.sleep(0)  # what is written may need no waiting, and admissions wait
            page.trouble = pause = min(max(INTERVAL, 2 * page.trouble), AFTER_TROUBLE)
            try:
                await self.write(key, page)
                page.trouble = 0.0
                continue
            except ApiError as error:
                changed = error.status in {HTTPStatus.NOT_FOUND, *CHANGED}
                if not changed:
                    pause = AFTER_TROUBLE
                    log.warning("account not written", **where(key), error=str(error), retry_in=pause)
                metrics.LEDGER_WRITES.labels("conflict" if changed else "bad").inc()
            except UNREACHABLE as error:
                pause = INTERVAL
                log.warning("account not written", **where(key), error=repr(error), retry_in=pause)
                metrics.LEDGER_WRITES.labels("bad").inc()
            except Exception:  # what nobody foresaw in one workload must not end the accounts of all others
                pause = AFTER_TROUBLE
                log.exception("account not written", **where(key), retry_in=pause)
                metrics.LEDGER_WRITES.labels("bad").inc()
            self.wake(key, pause)

    async def write(self, key: Key, page: WorkloadState) -> None:
        """Count the pods that are not counted yet, and do what follows from it."""
        root = self.books.root_of(key)
        if root is None:
            return
        if ("", key.namespace) not in self.books.cluster.namespaces.items:
            self.wake(key, AFTER_TROUBLE)  # not opted in: anybody may write our label; or perhaps not seen to be yet
            return
        if page.awaited is not None and time.monotonic() < page.written + PATIENCE:
            self.wake(key, INTERVAL)
            return
        page.awaited = None
        account = read(key, page.text)
        account.forget(KEPT, page.book.staying_ids(account.recent))
        round_ = CountingPass(key, root, self.books.job_set_of(key), page.book, account, self.settings_of)
        complete = self.count(round_, page)
        if round_.changed:
            await self.store(round_, page)
        page.bugs.clear()
        if page.exceeded:
            if self.may_act(key):
                await self.fail(round_)
            page.exceeded = False
        if len(account.recent) > KEPT:
            for pod in list(page.book.staying()):
                await self.mark(pod)
        if not complete:
            self.wake(key, INTERVAL)

    def count(self, round_: CountingPass, page: WorkloadState) -> bool:
        """Count what is not counted yet; tell whether that was all of it."""
        book, account = page.book, round_.account
        doubtful = book.doubtful(time.monotonic(), current=self.books.cluster.jobs.live)
        new = [pod for pod in book.uncounted(account) if pod.uid not in doubtful]
        complete = len(new) <= account.room and not doubtful
        round_.count(new[: account.room])
        if account.suspended and not round_.root["spec"].get("suspend"):
            account.grant()
            round_.changed = True
        for name in page.bugs:
            round_.settle(name)
        if complete:
            self.count_unseen(round_, page, time.monotonic())
        return complete

    async def store(self, round_: CountingPass, page: WorkloadState) -> None:
        """Write the account, and with it suspend a Job that had more disruptions than it may."""
        suspends = self.may_act(round_.key) and round_.suspends()
        page.exceeded |= any(round_.exceeded(round_.details)) or any(round_.free_too_often(round_.details))
        if suspends:
            round_.account.suspended = True
        text = encode(round_.account)
        await self.api.patch(path_of(round_.key), operations(round_.root, page.text, text, suspends=suspends))
        page.awaited, page.written = text, time.monotonic()
        if round_.unseen_counted:
            page.book.vanished.clear()
        metrics.LEDGER_WRITES.labels("good").inc()
        self.tell(round_, suspended=suspends)

    def count_unseen(self, round_: CountingPass, page: WorkloadState, now: float) -> None:
        """Count what only the Job's status tells of, once it is sure that no pod of it will be seen any more."""
        if now - round_.book.gap > FORGOTTEN:
            round_.book.vanished.clear()  # another replica led, and counted them
        short, vanished = round_.unseen()
        if not short and not vanished:
            page.short = None
        elif page.short is None:
            page.short = now
            self.wake(round_.key, UNSEEN_AFTER)
        elif now - page.short >= UNSEEN_AFTER:
            page.short = None
            round_.count_unseen(short)

    async def mark(self, pod: Pod) -> None:
        """Mark a counted pod that stays, so that the account can forget its id; raise what `Api` raises."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        test = {"op": "test", "path": "/metadata/uid", "value": pod.uid}
        marks = [test, *annotated(names.COUNTED, now, first=not pod.annotated)]
        try:
            await self.api.patch(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}", marks)
        except ApiError as error:
            if error.status not in {HTTPStatus.NOT_FOUND, *CHANGED}:  # it is gone, or will be marked next time
                raise
        else:
            metrics.LEDGER_WRITES.labels("mark").inc()

    async def fail(self, round_: CountingPass) -> None:
        """End a workload that restarted at no cost too often, or was disrupted too often where that is to end it."""
        namespace, last = round_.key.namespace, round_.account.last
        found = next(round_.free_too_often(last), None)
        reason, what = job_failer.FREE_TOO_OFTEN, "free restart"
        if found is None and round_.settings.profile.disruptions.on_exceed == "Fail":
            found = next(round_.exceeded(last), None)
            reason, what = job_failer.LIMIT_EXCEEDED, "disruption"
        if found is None:
            return
        detail, job, terms = found
        limit = terms.free_restarts if reason == job_failer.FREE_TOO_OFTEN else terms.disruptions
        message = f"pod {namespace}/{detail.pod}: {what} {limit + 1} exceeds the limit of {limit}"
        if round_.key.job_set:
            await job_failer.fail_set(self.api, path_of(round_.key), reason, message)
        else:
            await job_failer.fail(self.api, namespace, job["metadata"]["name"], reason, message)

    async def settle(self) -> None:
        """Decide, some time after each crash of pods that depend on each other, whether it was a bug."""
        while True:
            await asyncio.sleep(INTERVAL)
            now = time.monotonic()
            async for (key, uid), crash in in_slices(list(self.crashes.items())):
                if now - crash.seen > REMEMBERED or (
                    self.leading and now >= crash.next and await self.tried(key, uid, crash)
                ):
                    self.crashes.pop((key, uid), None)

    async def tried(self, key: Key, uid: str, crash: "Crash") -> bool:
        """Decide what a crash was, if it is time; tell whether nothing is left to do."""
        try:
            return await self.decide(key, uid, crash)
        except (ApiError, *UNREACHABLE) as error:
            conflict = isinstance(error, ApiError) and error.status == HTTPStatus.CONFLICT
            pause = INTERVAL if conflict else AFTER_TROUBLE
            crash.next = time.monotonic() + pause
            log.warning("crash not settled", **where(key), error=repr(error), retry_in=pause)
        except Exception:  # what nobody foresaw in one workload must not end the accounts of all others
            log.exception("crash not settled", **where(key))
            return True
        return False

    async def decide(self, key: Key, uid: str, crash: "Crash") -> bool:
        """Decide what a crash was, if it is time; tell whether it is decided. Raises what the API raises."""
        page = self.books.pages.get(key)
        pod = None if page is None else page.book.failed.get(uid)
        job = None if page is None or pod is None else page.book.jobs.get(pod.job_uid)
        if page is None or pod is None or job is None or outcomes.is_over(job["status"]) or not self.may_act(key):
            return True
        settings = self.settings_of(job)
        within = job_failer.window(job, settings)
        if page.book.disturbed >= crash.seen - within or crash.seen - within < self.books.watching_since:
            return True  # the echo of a disruption, or of one that nobody would have seen
        end = crash.seen + within
        if time.monotonic() < end or not page.book.has_counted(uid):
            return False
        if not (self.books.pods.live and self.books.pods.heard > end):
            crash.next = time.monotonic() + PATIENCE
            await self.mark(pod)  # when the watch tells of that, it has told of all that was before
            return False
        if await job_failer.settle(self.api, settings, pod, within, self.books.job_set_of(key)):
            page.bugs.add(pod.name)
            self.wake(key)
        return True

    def tell(self, round_: CountingPass, *, suspended: bool) -> None:
        """Write an Event on the workload, and count."""
        measure(round_)
        key, metadata = round_.key, round_.root["metadata"]
        about: dict[str, Any] = {
            "kind": key.kind,
            "api_version": API_VERSIONS[key.kind],
            "namespace": key.namespace,
            "name": key.name,
        }
        if round_.details:
            message = round_.sentence()
            self.events.tell(
                Notice(**about, uid=metadata["uid"], type="Normal", reason="AttemptEnded", message=message)
            )
        if suspended:
            resume = (
                f'kubectl patch job {key.name} -n {key.namespace} --type=merge -p \'{{"spec":{{"suspend":false}}}}\''
            )
            message = f"suspended after {round_.terms.disruptions + 1} disruptions; to allow as many again: {resume}"
            self.events.tell(
                Notice(**about, uid=metadata["uid"], type="Warning", reason="DisruptionLimitExceeded", message=message)
            )

    def settings_of(self, root: Json) -> Settings:
        """Return what applies to a workload by its Namespace's profile, the defaults where the policy has none such."""
        name, _ = self.books.cluster.namespaces.items.get(("", root["metadata"]["namespace"]), (None, None))
        policy = self.policy.current
        profile = Profile() if policy is None else policy.profiles.get(name or "") or Profile()
        return NamedProfile(name or "", profile).settings(annotations.of(root))

    def may_act(self, key: Key) -> bool:
        """Tell whether the policy is in force where a workload is."""
        profile, mode = self.books.cluster.namespaces.items.get(("", key.namespace), (None, None))
        policy = self.policy.current
        return policy is not None and profile in policy.profiles and mode in modes.ENFORCED


def measure(round_: CountingPass) -> None:
    """Count a round in the metrics."""
    for detail in round_.details:
        metrics.LEDGER_ATTEMPTS.labels(detail.cause, detail.cost).inc()
        if detail.cause == "Disruption":
            reason = detail.reason if detail.reason in outcomes.DISRUPTIONS else "Other"
            metrics.LEDGER_DISRUPTIONS.labels(reason).inc()
        if detail.placement == "Spot":
            metrics.LEDGER_SPOT_LOST.inc()
    metrics.LEDGER_SAVED.inc(round_.saved)


def path_of(key: Key) -> str:
    """Return the path of the object that an account is kept on."""
    return f"/apis/{API_VERSIONS[key.kind]}/namespaces/{key.namespace}/{ROWS[key.kind].resource}/{key.name}"


def operations(root: Json, before: str | None, now: str, *, suspends: bool) -> list[Json]:
    """Return the JSON Patch that replaces the account of an object, and fails where it is not what it was.

    `suspends`: whether it suspends a Job too. Then, and where what was before is too long to be kept whole, it fails
    wherever the object has changed.
    """
    metadata, path = root["metadata"], f"/metadata/annotations/{pointer(names.LEDGER)}"
    first, is_whole = "annotations" not in metadata, before is None or len(before) <= LARGEST
    found: list[Json] = []
    if suspends or not is_whole:
        found.append({"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]})
    if is_whole and not first:
        found.append({"op": "test", "path": path, "value": before})
    found += annotated(names.LEDGER, now, first=first)
    if suspends:
        found.append({"op": "add", "path": "/spec/suspend", "value": True})
    return found


def annotated(key: str, value: str, *, first: bool) -> list[Json]:
    """Return the JSON Patch that sets an annotation; `first`: on an object that has none, if it still has none."""
    path = "/metadata/annotations"
    if first:
        return [{"op": "test", "path": path, "value": None}, {"op": "add", "path": path, "value": {key: value}}]
    return [{"op": "add", "path": f"{path}/{pointer(key)}", "value": value}]


def is_retriable(exited: Exit, settings: Settings) -> bool:
    """Tell whether a container ended as one that is told to, or killed: not by its own bug."""
    codes = settings.profile.failure_policy.retriable_exit_codes
    return exited.code in codes or (exited.code == KILLED and exited.reason != outcomes.OOM)


def pointer(key: str) -> str:
    """Escape a key for a JSON Pointer."""
    return key.replace("~", "~0").replace("/", "~1")
