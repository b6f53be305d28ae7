"""The way of a request over HTTP: bytes in, what the rules need looked up, bytes out."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from time import perf_counter
from typing import Final

import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from webhook import configuration, decide, review
from webhook.policy.model import Policy
from webhook.review import BadReviewError, Request, Response
from webhook.server import metrics
from webhook.server.books import Books
from webhook.server.cluster import Cluster, UnavailableError, opt_in_of
from webhook.server.intake import LARGEST_BODY, Intake, OverloadedError, SlowBodyError, Visit
from webhook.server.limits import LIMITS, Limits
from webhook.server.policy_source import PolicySource
from webhook.subject import Facts, Subject, subject_of
from webhook.workloads import batch, row_of

LOGGED: Final = 20  # problems of one denial
RETRY_AFTER: Final = {"Retry-After": "1"}  # the API server tries again inside the call's timeout

Handler = Callable[[web.Request], Awaitable[web.Response]]
Rules = Callable[[Subject, Policy, Facts], Response]

log = structlog.get_logger()


class Endpoints:
    """Answers requests; `cluster` is None where there is no API: every namespace counts as one of profile default."""

    def __init__(
        self, policy: PolicySource, cluster: Cluster | None, books: Books | None = None, limits: Limits = LIMITS
    ) -> None:
        self.intake = Intake(limits)
        metrics.IN_HOUSE.set_function(lambda: self.intake.requests)
        metrics.HELD_BYTES.set_function(lambda: self.intake.held)
        self.policy = policy
        self.cluster = cluster
        self.books = books
        self.draining = False
        self.certificate_troubles: Callable[[], list[str]] = list

    def admission(self) -> web.Application:
        """Return the HTTPS application: /mutate and /validate."""
        app = web.Application(client_max_size=LARGEST_BODY)
        app.router.add_post("/mutate", self.handler("mutate", decide.mutate))
        app.router.add_post("/validate", self.handler("validate", decide.validate))
        return app

    def health(self) -> web.Application:
        """Return the HTTP application: /healthz, /readyz and /metrics."""
        app = web.Application()
        app.router.add_get("/healthz", self.healthz)
        app.router.add_get("/readyz", self.readyz)
        app.router.add_get("/metrics", self.metrics)
        return app

    def handler(self, path: str, rules: Rules) -> Handler:
        """Return the handler of one admission path."""
        duration = metrics.DURATION.labels(path)

        async def handle(http: web.Request) -> web.Response:
            start = perf_counter()
            answer = await self.answer(http, path, rules)
            if self.draining:
                answer.force_close()
            if answer.status != HTTPStatus.TOO_MANY_REQUESTS:
                duration.observe(perf_counter() - start)
            return answer

        return handle

    async def answer(self, http: web.Request, path: str, rules: Rules) -> web.Response:
        """Answer one AdmissionReview, whatever comes."""
        uid = kind = operation = ""
        try:
            async with Visit(self.intake, http) as body:
                request = review.decode(body)
                uid, kind, operation = request.uid, request.kind.kind, request.operation
                response = await self.judge(request, rules)
                result = "untouched" if response is None else result_of(response)
                encoded = review.encode(uid, response or Response())
        except web.HTTPException:
            raise  # the body is too large
        except OverloadedError as error:
            metrics.REQUESTS.labels(path, "", "", "overloaded").inc()
            return web.Response(status=429, text=f"{error}\n", headers=RETRY_AFTER)
        except SlowBodyError as error:
            metrics.REQUESTS.labels(path, "", "", "bad").inc()
            answer = web.Response(status=408, text=f"{error}\n")
            answer.force_close()
            return answer
        except BadReviewError as error:
            metrics.REQUESTS.labels(path, "", "", "bad").inc()
            return web.Response(status=400, text=f"{error}\n")
        except UnavailableError as error:
            metrics.REQUESTS.labels(path, kind, operation, "unavailable").inc()
            log.warning("not answered", uid=uid, kind=kind, reason=str(error))
            refusal = web.Response(status=503, text=f"{error}\n", headers=RETRY_AFTER)
            refusal.force_close()  # over another connection it may reach a replica that is not cut off from the API
            return refusal
        except Exception:
            # An invented denial would defeat the failurePolicy that the admin configured: an honest 500 lets it decide.
            metrics.REQUESTS.labels(path, kind, operation, "error").inc()
            log.exception("internal error", uid=uid, kind=kind, operation=operation)
            return web.Response(status=500, text=f"internal error; the server's log tells more under uid {uid}\n")
        # A label value for each kind that a stranger may name would have no end.
        known = "" if response is None else kind
        metrics.counter(metrics.REQUESTS, path, known, operation, result).inc()
        return web.Response(body=encoded, content_type="application/json")

    async def judge(self, request: Request, rules: Rules) -> Response | None:
        """Look up what the rules need and apply them; None where they have no say."""
        if rules is decide.validate and configuration.is_asked_about(request, self.policy.config_map):
            in_use = {} if self.cluster is None else self.cluster.profiles_in_use()
            response = configuration.validate(request, self.policy.current, in_use)
            mode = None
        else:
            subject = subject_of(request)
            if subject is None:
                return None
            if self.policy.current is None:
                raise UnavailableError(f"no policy in force: {self.policy.trouble}")
            facts = await self.facts(subject)
            response = rules(subject, self.policy.current, facts)
            mode = facts.mode
        if not request.dry_run:
            count(response, mode or "Enforce")
        if response.found:
            log_denial(request, response)
        return response

    async def facts(self, subject: Subject) -> Facts:
        """Look up what a namespace's labels say and, if it is opted in, a pod's owners.

        An object of the whole cluster has no namespace: it is opted in by its own label.
        """
        if self.cluster is None:
            return Facts(profile_name="default")
        namespace = subject.request.namespace
        if not subject.row.namespaced:
            profile_name, mode = opt_in_of(subject.root)
        else:
            profile_name, mode = await self.cluster.opt_in(namespace)
        owner = above = disruptions = None
        if profile_name is not None and subject.owner is not None:
            owner, above = await self.cluster.owners(namespace, subject.owner)
            if self.books is not None and owner is not None and row_of(subject.owner) is batch.JOB:
                disruptions = await self.books.disruptions(namespace, owner, subject.root)
        return Facts(
            profile_name=profile_name,
            mode=mode,
            owner=owner,
            above=above,
            disruptions=disruptions,
            recognised=self.cluster.recognised,
            message_patterns=self.cluster.message_patterns,
        )

    async def healthz(self, _: web.Request) -> web.Response:
        """Say that the process answers."""
        return web.Response(text="ok\n")

    async def readyz(self, _: web.Request) -> web.Response:
        """Say whether requests may be sent here, and if not, why."""
        reasons = []
        if self.draining:
            reasons.append("shutting down")
        if self.policy.current is None:
            reasons.append(f"no policy in force: {self.policy.trouble}")
        if self.cluster is not None and not self.cluster.synced:
            reasons.append("caches not filled yet: the API has not answered")
        reasons += self.certificate_troubles()
        return web.Response(status=503 if reasons else 200, text="\n".join(reasons or ["ok"]) + "\n")

    async def metrics(self, _: web.Request) -> web.Response:
        """Return the metrics in Prometheus' text format."""
        return web.Response(body=generate_latest(metrics.REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST})


def result_of(response: Response) -> str:
    """Say in a word what became of a request."""
    return "denied" if response.found else "patched" if response.patch else "allowed"


def count(response: Response, mode: str) -> None:
    """Count what was done, or in another mode than Enforce told."""
    for rule in response.edited:
        metrics.counter(metrics.EDITS, rule, mode).inc()
    for rule, _ in (*response.found, *response.announced):
        metrics.counter(metrics.PROBLEMS, rule, mode).inc()
    if response.unknown_profile:
        metrics.UNKNOWN_PROFILES.inc()
    if response.placement:
        metrics.counter(metrics.PLACEMENTS, response.placement).inc()


def log_denial(request: Request, response: Response) -> None:
    """Write one line per denial, without the object."""
    problems = [str(problem) for problem in response.problems[:LOGGED]]
    where = {"namespace": request.namespace, "name": request.name, "kind": request.kind.kind}
    log.info("denied", uid=request.uid, **where, problems=problems)
