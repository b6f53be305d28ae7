"""The handlers of HTTP requests: decode a review, look up the facts that the rules need, encode the answer."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from time import monotonic, perf_counter, time
from typing import TYPE_CHECKING, Any, Final, TypeVar

import structlog
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from webhook import metrics
from webhook.admission import configuration, engine, review
from webhook.admission.object_name import ObjectName, object_name
from webhook.admission.review import BadReviewError, Request, Response
from webhook.admission.subject import Subject, read, subject_of
from webhook.kube.informer import Informer
from webhook.objects.problem import cut
from webhook.pods.work_history import WorkHistory
from webhook.policy import costs, emergency
from webhook.policy.model import FailureRule, Policy
from webhook.program.logs import LogLines
from webhook.rules.facts import NO_RESTRICTIONS, Facts
from webhook.rules.pods import memory
from webhook.serving.bodies import Bodies
from webhook.serving.limits import LIMITS, Limits
from webhook.serving.places import CrowdedError, Places
from webhook.serving.server import Handler, HttpResponse, Routes, text
from webhook.systems import core
from webhook.systems.job import spec as batch
from webhook.systems.pods import place_of
from webhook.tracking.admission_counts import UNKNOWN, AdmissionCounts
from webhook.tracking.cluster import Cluster, UnavailableError, opt_in_of
from webhook.tracking.policy_source import PolicySource
from webhook.tracking.trackers import Trackers

if TYPE_CHECKING:
    from webhook.retry.admission import RetryAdmission
    from webhook.retry.admission import UserRequest as RetryRequest


# Pairs of a namespace and a profile that the metrics tell apart. Users may create namespaces, and change their labels.
PAIRS: Final = 200
OTHER: Final = "(other)"  # no namespace can have this name

log = structlog.get_logger()


class NotEnforced:
    """Reports what Enforce would deny or change in namespaces of mode Warn or Audit: a line in the log, a metric.

    A line has the names of the object, the profile and the rules, and nothing else of the object. `lines` bounds them.
    """

    def __init__(self, lines: LogLines) -> None:
        self.lines = lines
        self.pairs: set[tuple[str, str]] = set()

    def report(self, name: ObjectName, response: Response, profile_name: str, mode: str) -> None:
        """Log and count what Enforce would do to an object."""
        for would_be, found in (("denied", response.would_deny), ("changed", response.would_change)):
            if not found:
                continue
            metrics.not_enforced(self.label(name.namespace, profile_name), profile_name, would_be).inc()
            rules = sorted({rule for rule, _ in found})
            if self.lines.has_room(name.namespace, (would_be, name.kind, name.controller or name.name, *rules)):
                what = {"would_be": would_be, "profile": profile_name, "mode": mode, "rules": rules}
                log.info("not enforced", **name.fields, **what)

    def label(self, namespace: str, profile_name: str) -> str:
        """Return the value of the label `namespace` of a metric: the name, if it is among the first ones."""
        pair = namespace, profile_name
        if pair not in self.pairs:
            if len(self.pairs) >= PAIRS:
                return OTHER
            self.pairs.add(pair)
        return namespace


LOGGED: Final = 10  # problems of one denial
LOGGED_LENGTH: Final = 200  # characters of one of them
# Bytes: larger bodies are processed one at a time, in the order of their arrival; work on 256 KiB takes 20 ms.
LARGE: Final = 256 * 1024
# Bytes of large bodies that may wait, for their turn or for the API: half of the bytes that may be held, so that small
# bodies have room. `places` bounds the number of decoded ones that wait for the API.
QUEUED: Final = LIMITS.held_bytes // 2
LISTS_AWAITED: Final = 7.0  # seconds in which a replica is not ready because Jobs or pods are not listed yet
RETRY_AFTER: Final = {"Retry-After": "1"}  # the API server sends the request again, within the timeout of the call

Rules = Callable[[Subject, Policy, Facts], Response]
Read = TypeVar("Read", bound=Request)
Reader = Callable[[bytes], Read]
Judge = Callable[[Read, bytes], Awaitable[Response | None]]  # returns None if no rule applies


class Endpoints:
    """Answers requests; if `cluster` is None there is no API, and every namespace has the profile default.

    `retry_requests`: None if requested retries are not enabled. `certificate_troubles` returns the reasons why no TLS
    connection is possible. `keeps_ledger` returns True if the leader may write the ledger; by default if there are
    trackers.
    """

    def __init__(  # noqa: PLR0913 - the parts of the server that requests need
        self,
        policy: PolicySource,
        cluster: Cluster | None,
        trackers: Trackers | None = None,
        retry_requests: "RetryAdmission | None" = None,
        *,
        certificate_troubles: Callable[[], list[str]] = list,
        keeps_ledger: Callable[[], bool] | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self.bodies = Bodies(limits)
        self.places = Places(limits, lambda namespace: cluster is not None and cluster.serves(namespace))
        metrics.WAITING.set_function(lambda: self.places.requests)
        metrics.HELD_BYTES.set_function(lambda: self.bodies.held)
        metrics.READY.set_function(lambda: not self.reasons())
        self.policy = policy
        self.cluster = cluster
        self.trackers = trackers
        self.waves = None if trackers is None else trackers.waves
        self.rejections = None if trackers is None else trackers.rejections
        self.faulty_nodes = None if trackers is None else trackers.faulty_nodes
        self.counts = None if trackers is None else AdmissionCounts(trackers)
        self.work_history = WorkHistory() if trackers is None else WorkHistory(trackers.cluster.jobs.get)
        if trackers is not None:
            trackers.pods.observers.append(self.work_history)
        self.retry_requests = retry_requests
        self.log_lines = LogLines()
        self.not_enforced = NotEnforced(self.log_lines)
        self.draining = False
        self.queued = 0  # bytes of large bodies
        self.turns = asyncio.Lock()
        self.certificate_troubles = certificate_troubles
        self.keeps_ledger = keeps_ledger or (lambda: trackers is not None)
        self.filled: float | None = None  # when all but the awaited lists were seen to be there

    def admission(self) -> Routes:
        """Return the routes over HTTPS: /mutate, /validate and, if requested retries are enabled, /retry."""
        found = {
            "/mutate": ("POST", self.handler("mutate", read, partial(self.judge, engine.mutate))),
            "/validate": ("POST", self.handler("validate", read, partial(self.judge, engine.validate))),
        }
        if self.retry_requests is not None:
            found["/retry"] = (
                "POST",
                self.handler("retry", self.retry_requests.read, partial(self.judge_retry_request, self.retry_requests)),
            )
        return Routes(self.bodies, found, _refused)

    def health(self) -> Routes:
        """Return the routes over HTTP: /healthz, /readyz and /metrics."""
        found = {"/healthz": self.healthz, "/readyz": self.readyz, "/metrics": self.metrics}
        return Routes(Bodies(self.bodies.limits), {path: ("GET", handler) for path, handler in found.items()})

    def handler(self, path: str, reader: Reader[Read], judge: Judge[Read]) -> Handler:
        """Return the handler of one admission path."""
        duration = metrics.DURATION.labels(path)

        async def handle(body: bytes) -> HttpResponse:
            start = perf_counter()
            if len(body) > LARGE:
                answer = await self.in_turn(body, path, reader, judge)
            else:
                answer = await self.answer(body, path, reader, judge)
            if self.draining:
                answer.closes = True
            duration.observe(perf_counter() - start)
            return answer

        return handle

    async def in_turn(self, body: bytes, path: str, reader: Reader[Read], judge: Judge[Read]) -> HttpResponse:
        """Answer a request with a large body when its turn comes, or with 429 if too many large bodies wait.

        After each look-up the request waits for its turn again.
        """
        if self.queued and self.queued + len(body) > QUEUED:
            _refused(f"/{path}", HTTPStatus.TOO_MANY_REQUESTS)
            return text("too many large requests wait; try again in a second", 429, headers=RETRY_AFTER)
        self.queued += len(body)
        try:
            await self.turn()
            return await self.answer(body, path, reader, judge)
        finally:
            self.queued -= len(body)

    async def turn(self) -> None:
        """Wait for earlier large requests, and for one iteration of the event loop, which answers small requests."""
        async with self.turns:
            await asyncio.sleep(0)

    async def answer(self, body: bytes, path: str, reader: Reader[Read], judge: Judge[Read]) -> HttpResponse:
        """Return the answer to one AdmissionReview; an exception becomes an error status."""
        uid = kind = operation = ""
        try:
            request = reader(body)
            uid, kind, operation = request.uid, request.kind.kind, request.operation
            response = await judge(request, body)
            encoded = review.encode(uid, response or Response())
        except BadReviewError as error:
            metrics.requests(path, "", "", "bad").inc()
            return text(str(error), 400)
        except RecursionError:
            metrics.requests(path, kind, operation, "bad").inc()
            return text(review.TOO_DEEP, 400)
        except UnavailableError as error:
            metrics.requests(path, kind, operation, "unavailable").inc()
            log.warning("not answered", uid=uid, kind=kind, reason=str(error))
            # Over another connection the next attempt may reach a replica that can reach the API.
            answer = text(str(error), 503, headers=RETRY_AFTER)
            answer.closes = True
            return answer
        except CrowdedError as error:
            metrics.requests(path, kind, operation, "overloaded").inc()
            return text(str(error), 429, headers=RETRY_AFTER)
        except Exception:
            # With status 500 the failurePolicy of the webhook configuration decides; a denial would bypass it.
            metrics.requests(path, kind, operation, "error").inc()
            log.exception("internal error", uid=uid, kind=kind, operation=operation)
            return text(f"internal error; read the server's log at uid {uid}", 500)
        # Only kinds that a rule applies to become label values: a client may send any number of other names.
        known, result = "", "untouched"
        if response is not None:
            known, result = kind, "denied" if response.found else "patched" if response.patch else "allowed"
        metrics.requests(path, known, operation, result).inc()
        return HttpResponse(encoded)

    async def judge(self, rules: Rules, request: Request, body: bytes) -> Response | None:
        """Look up the facts that the rules need, and apply the rules; return None if no rule applies to the request.

        Raise UnavailableError if the API does not answer, and CrowdedError if too many requests wait for it.
        """
        if rules is engine.validate and configuration.is_asked_about(request, self.policy.config_map):
            in_use = {} if self.cluster is None else self.cluster.profiles_in_use()
            response = configuration.validate(request, self.policy.current, in_use, self.policy.uid)
            profile_name = mode = None
        else:
            subject = subject_of(request, body=body)
            if subject is None:
                return None
            if self.policy.current is None:
                raise UnavailableError(f"no policy in force: {self.policy.trouble}; correct the policy")
            facts = await self.places.wait(self.facts(subject), request.namespace, len(body))
            if len(body) > LARGE:
                await self.turn()
            response = rules(subject, self.policy.current, facts)
            profile_name, mode = facts.profile_name, facts.mode
        if not request.dry_run:
            count(response, mode or "Enforce")
            if mode is not None and profile_name is not None and (response.would_deny or response.would_change):
                self.not_enforced.report(object_name(request, body), response, profile_name, mode)
        if response.found or response.warnings:
            self.tell(request, body, response, profile_name)
        return response

    def tell(self, request: Request, body: bytes, response: Response, profile_name: str | None) -> None:
        """Add the object's name and the profile's message to an answer with problems or warnings; report a denial."""
        name = object_name(request, body)
        response.name = str(name)
        policy = self.policy.current
        if policy is not None and profile_name is not None and profile_name in policy.profiles:
            response.message = emergency.profile_to_edit(policy, profile_name).message
        if response.found:
            self.log_denial(request, name, response)
            if profile_name is not None and not request.dry_run:
                metrics.denied(self.not_enforced.label(name.namespace, profile_name), profile_name).inc()

    def log_denial(self, request: Request, name: ObjectName, response: Response) -> None:
        """Write one line per denial, without the object."""
        problems = [cut(str(problem), LOGGED_LENGTH) for problem in response.problems[:LOGGED]]
        if self.log_lines.has_room(name.namespace, ("denied", name.kind, name.controller or name.name, *problems)):
            log.info("denied", uid=request.uid, **name.fields, problems=problems)

    async def facts(self, subject: Subject) -> Facts:
        """Return the facts about a subject: profile and mode of its namespace and, if that is opted in, all others.

        A cluster-scoped object has no namespace: it is opted in by its own label. Raise UnavailableError.
        """
        cluster = self.cluster
        if cluster is None:
            return Facts(profile_name="default")
        namespace = subject.request.namespace
        if not subject.kind.namespaced:
            profile_name, mode = opt_in_of(subject.root)
        else:
            profile_name, mode = await cluster.opt_in(namespace)
        if profile_name is None:
            return Facts(profile_name=None, mode=mode)
        if subject.kind is core.POD:
            return await self.facts_of_pod(subject, cluster, profile_name, mode)
        return Facts(
            profile_name=profile_name,
            mode=mode,
            owner=None if subject.owner is None else await cluster.object(namespace, subject.owner),
            owners_known=True,
            work_history=self.work_history,
            recognised=cluster.recognised,
            pools=cluster.pools,
            message_patterns=cluster.message_patterns,
            runtime_patches=cluster.runtime_patches,
            restart_job=cluster.restart_job,
            requested_retries=self.retry_requests is not None,
            ledger=self.keeps_ledger(),
        )

    async def facts_of_pod(self, subject: Subject, cluster: Cluster, profile_name: str, mode: str | None) -> Facts:
        """Return the facts about a pod in a namespace with this profile and mode; raise UnavailableError."""
        namespace = subject.request.namespace
        owner = above = None
        counts = UNKNOWN
        if subject.owner is not None:
            owner, above = await cluster.owners(namespace, subject.owner)
        if self.counts is not None:
            if owner is not None and subject.owner_kind is batch.JOB:
                counts = await self.counts.of_job(namespace, owner, subject.root) or UNKNOWN
            elif (place := place_of(subject.root["metadata"], subject.owner)) is not None:
                counts = await self.counts.of_scope(namespace, place) or UNKNOWN
        ended, restrictions = counts.ended, NO_RESTRICTIONS
        if ended and self.trackers is not None and (rules := self.rules_of(profile_name)):
            ended = tuple(map(self.trackers.located, ended))
            if memory.may_grow(rules, ended):
                restrictions = await cluster.bounds_of_memory(namespace)
        return Facts(
            profile_name=profile_name,
            mode=mode,
            owner=owner,
            above=above,
            disruptions=counts.disruptions,
            failures=counts.failures,
            ended=ended,
            waves=self.waves,
            rejections=self.rejections,
            faulty_nodes=self.faulty_nodes,
            nodes=len(cluster.known_nodes.created),
            state_key=cluster.state_key,
            spot_unavailable=counts.spot_unavailable,
            saved_work=counts.saved_work,
            now=time(),
            restrictions=restrictions,
            recognised=cluster.recognised,
            pools=cluster.pools,
            ledger=self.keeps_ledger(),
        )

    def rules_of(self, profile_name: str) -> tuple[FailureRule, ...]:
        """Return the rules of a profile about ended attempts; none if the policy lacks the profile."""
        policy = self.policy.current
        profile = None if policy is None else policy.profiles.get(profile_name)
        return () if profile is None else costs.rules_of(profile)

    async def judge_retry_request(
        self, retry_requests: "RetryAdmission", request: "RetryRequest", body: bytes
    ) -> Response | None:
        """Judge a request that may ask for a retry; return None if it does not. Raise as `judge` does."""
        response = await self.places.wait(retry_requests.judge(request), request.namespace, len(body))
        if response is not None:
            if not request.dry_run:
                count(response, "Enforce")
            if response.found or response.warnings:
                profile_name, _ = retry_requests.cluster.known_opt_in(request.namespace)
                self.tell(request, body, response, profile_name)
        return response

    async def healthz(self, _: bytes) -> HttpResponse:
        """Answer 200 while the process runs."""
        return text("ok")

    async def readyz(self, _: bytes) -> HttpResponse:
        """Answer 200 if requests may be sent to this replica, else 503 with the reasons, a line each."""
        reasons = self.reasons()
        return text("\n".join(reasons or ["ok"]), 503 if reasons else 200)

    def reasons(self) -> list[str]:
        """Return why no requests may be sent to this replica; empty if they may."""
        return [*(["shutting down; ask another replica"] if self.draining else []), *self.troubles()]

    def troubles(self) -> list[str]:
        """Return what prevents that requests are answered; empty if nothing does."""
        reasons = []
        if self.policy.current is None:
            reasons.append(f"no policy in force: {self.policy.trouble}; correct the policy")
        if self.cluster is not None and not self.cluster.synced:
            reasons.append("caches not filled yet: the API has not answered; check the connection to the API server")
        elif missing := self.awaited_lists():
            what = " and ".join(missing)
            reasons.append(f"{what} not listed yet; wait, after {LISTS_AWAITED:g} s it is ready without them")
        return [*reasons, *self.certificate_troubles()]

    def awaited_lists(self) -> list[str]:
        """Return which first lists are awaited, at most LISTS_AWAITED seconds: of Jobs, and for a ledger of pods.

        Without that of Jobs each admission of a pod asks the API; without that of pods it does not know what the pods
        before have cost, and waits for it too. With 100,000 Jobs both take longer than a cluster may be without us.
        """
        lists: dict[str, Informer[Any]] = {"Jobs": self.cluster.jobs} if self.cluster is not None else {}
        if self.trackers is not None and self.keeps_ledger():
            lists["pods"] = self.trackers.pods
        missing = [name for name, informer in lists.items() if not informer.synced.is_set()]
        if not missing:
            return []
        self.filled = self.filled or monotonic()
        return missing if monotonic() < self.filled + LISTS_AWAITED else []

    async def metrics(self, _: bytes) -> HttpResponse:
        """Return the metrics in Prometheus' text format."""
        return HttpResponse(generate_latest(metrics.REGISTRY), content_type=CONTENT_TYPE_LATEST)


def _refused(path: str, status: int) -> None:
    """Count a request that was answered without its handler."""
    if path in {"/mutate", "/validate", "/retry"}:
        result = "overloaded" if status == HTTPStatus.TOO_MANY_REQUESTS else "bad"
        metrics.requests(path[1:], "", "", result).inc()


def count(response: Response, mode: str) -> None:
    """Count a response's edits and problems by rule and mode; in Warn and Audit those that Enforce would cause."""
    for rule in response.edited:
        metrics.edits(rule, mode).inc()
    for rule, _ in response.found:
        metrics.problems(rule, mode).inc()
    for rule, _ in response.would_deny:
        metrics.problems(rule, mode).inc()
    if response.unknown_profile:
        metrics.UNKNOWN_PROFILES.inc()
    if response.placement:
        metrics.placements(response.placement).inc()
    for result in response.growths:
        metrics.memory_growths(result).inc()
