"""Checks both webhook configurations: whether they call this installation, for what this version ships. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from webhook.doctor.finding import Diagnosis, ok, problem, warning
from webhook.doctor.shipped import MUTATING, NAME, normal, shipped_in
from webhook.doctor.snapshot import Snapshot
from webhook.objects.patch import at
from webhook.objects.problem import Json, listed
from webhook.systems.job_set.spec import JOB_SET, features_of
from webhook.systems.kinds import KINDS

# The fields of a webhook whose values are compared, besides its rules, its failurePolicy and where it calls.
FIELDS: Final = (
    "namespaceSelector",
    "objectSelector",
    "matchConditions",
    "matchPolicy",
    "timeoutSeconds",
    "sideEffects",
    "reinvocationPolicy",
    "admissionReviewVersions",
)
# The webhook of the component requested-retries, which never fails open.
RETRIES: Final = "requested-retries.retry-policy.dev"
YOURS: Final = "kubectl apply -k .   # your kustomization, {} the component requested-retries"

Call = tuple[str, str, str, str]  # group, version, resource and operation of what a webhook is called for


def check(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yield what is right and wrong with both configurations."""
    for kind, found in snapshot.configurations:
        if found is not None:
            yield from _judged(snapshot, kind, found)


def _judged(snapshot: Snapshot, kind: str, found: list[Json]) -> Iterator[Diagnosis]:
    root, installed = snapshot.named(found, NAME), snapshot.installed
    if root is None:
        what = "does not exist, so nothing is " + ("changed" if kind == MUTATING else "denied")
        yield problem(f"{kind} {NAME}", what, installed.apply)
        return
    wanted = shipped_in(installed.namespace, requested_retries=installed.requested_retries).webhooks(kind)
    there = {str(hook.get("name")): hook for hook in root.get("webhooks") or ()}
    compared = Comparison(snapshot, f"{kind} {NAME}", wanted, there)
    findings = list(compared.findings())
    yield from findings
    if not findings:
        opened = all(hook.get("failurePolicy") == "Ignore" for name, hook in there.items() if name != RETRIES)
        what = f"{len(there)} webhooks, as version {snapshot.version} ships them"
        yield ok(compared.where, f"{what}, with failurePolicy Ignore" if opened else what)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The webhooks of one configuration by name: those that are shipped, and those that are there."""

    snapshot: Snapshot
    where: str
    wanted: dict[str, Json]
    there: dict[str, Json]

    def findings(self) -> Iterator[Diagnosis]:
        """Yield all differences that matter."""
        yield from self.addresses()
        yield from self.missing()
        yield from self.unknown()
        yield from self.calls()
        yield from self.failure_policies()
        yield from self.fields()

    def problem(self, what: str) -> Diagnosis:
        """Return a problem that applying the manifests corrects."""
        return problem(self.where, what, self.snapshot.installed.apply)

    def warning(self, what: str) -> Diagnosis:
        """Return a warning that applying the manifests corrects."""
        return warning(self.where, what, self.snapshot.installed.apply)

    def yours(self, word: str) -> str:
        """Return the command that makes webhook and server agree about requested retries."""
        return self.snapshot.installed.apply if self.snapshot.installed.release else YOURS.format(word)

    @property
    def pairs(self) -> list[tuple[str, Json, Json]]:
        """The webhooks that are shipped and there: name, as shipped, as it is."""
        return [(name, hook, self.there[name]) for name, hook in self.wanted.items() if name in self.there]

    def addresses(self) -> Iterator[Diagnosis]:
        """Yield the webhooks that do not call the Service of this installation."""
        urls = {name: at(hook, ("clientConfig", "url")) for name, hook in self.there.items()}
        by_url = [name for name, url in urls.items() if url]
        if by_url:
            yield self.warning(f"{listed(by_url)}: calls {urls[by_url[0]]}, and not the Service")
        for name, wanted, there in self.pairs:
            service, expected = at(there, ("clientConfig", "service")), at(wanted, ("clientConfig", "service"))
            if service is not None and {"port": 443, **service} != expected:
                yield self.problem(f"{name}: calls {_address(service)}, and the server is {_address(expected)}")

    def missing(self) -> Iterator[Diagnosis]:
        """Yield a problem if webhooks are missing."""
        names = [name for name in self.wanted if name not in self.there]
        if RETRIES in names:
            what = f"lacks the webhook {RETRIES}, so nobody checks whether a user may request a retry"
            yield problem(self.where, what, self.yours("with"))
        others = [name for name in names if name != RETRIES]
        if others:
            yield self.problem(f"lacks the webhooks {listed(others)}")

    def unknown(self) -> Iterator[Diagnosis]:
        """Yield the webhooks that this version does not have."""
        names = [name for name in self.there if name not in self.wanted]
        if RETRIES in names and self.snapshot.installed.deployment:
            what = f"has the webhook {RETRIES}, and the server runs without --requested-retries, so it answers 404"
            yield problem(self.where, what, self.yours("with or without"))
        others = [name for name in names if name != RETRIES]
        if others:
            yield self.warning(f"has webhooks that version {self.snapshot.version} does not have: {listed(others)}")

    def calls(self) -> Iterator[Diagnosis]:
        """Yield what a webhook is not called for, and what it is called for without need."""
        for name, wanted, there in self.pairs:
            lost = sorted(_calls_of(wanted) - _calls_of(there))
            present = [one for one in lost if self.is_present(one)]
            if present:
                yield self.problem(f"{name}: is not called for {_described(present)}, which this cluster has")
            elif lost:
                yield self.warning(f"{name}: is not called for {_described(lost)}")
            more = sorted(_calls_of(there) - _calls_of(wanted))
            if more:
                yield self.warning(f"{name}: is also called for {_described(more)}")

    def is_present(self, call: Call) -> bool:
        """Return True if the cluster has the kind that a webhook should be called for."""
        group, _, resource, _ = call
        return not group or (group, resource.partition("/")[0]) in (self.snapshot.kinds or {})

    def failure_policies(self) -> Iterator[Diagnosis]:
        """Yield failurePolicies that are neither as shipped nor, all of them, as the overlay fail-open sets them."""
        differ = [one for one in self.pairs if one[2].get("failurePolicy") != one[1]["failurePolicy"]]
        closed = [name for name, wanted, _ in self.pairs if wanted["failurePolicy"] == "Fail" and name != RETRIES]
        if [name for name, _, _ in differ] == closed:
            return
        for name, wanted, there in differ:
            opened = there.get("failurePolicy") == "Ignore"
            what = f"{name}: failurePolicy is {there.get('failurePolicy')}, shipped is {wanted['failurePolicy']}"
            effect = "stored as their authors wrote them" if opened else "refused"
            yield self.warning(f"{what}: while no replica answers, objects are {effect}")

    def fields(self) -> Iterator[Diagnosis]:
        """Yield a warning for the webhooks of which other fields differ from what is shipped."""
        for name, wanted, there in self.pairs:
            differ = [field for field in FIELDS if normal(there.get(field)) != normal(wanted.get(field))]
            if differ:
                verb = "differs" if len(differ) == 1 else "differ"
                yield self.warning(f"{name}: {listed(differ)} {verb} from what version {self.snapshot.version} ships")


def _address(service: Json) -> str:
    port = service.get("port") or 443
    return f"{service.get('namespace')}/{service.get('name')}:{port}{service.get('path') or ''}"


def _calls_of(hook: Json) -> set[Call]:
    return {
        (group, version, resource, operation)
        for rule in hook.get("rules") or ()
        for group in rule.get("apiGroups") or ()
        for version in rule.get("apiVersions") or ()
        for resource in rule.get("resources") or ()
        for operation in rule.get("operations") or ()
    }


def _described(found: list[Call]) -> str:
    shown = (f"{resource}{f'.{group}' if group else ''} {version}" for group, version, resource, _ in found)
    return listed(list(dict.fromkeys(shown)))


def kinds(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yield the kinds that are there, and those of which only unknown versions are served."""
    if snapshot.kinds is None:
        return
    handled = []
    for kind in KINDS.values():
        served = snapshot.kinds.get((kind.group, kind.resource), [])
        if not served or not kind.admitted:
            continue
        if set(served) & set(kind.versions):
            handled.append(kind.kind)
        else:
            known = listed(list(kind.versions))
            what = f"is served only as {listed(served)}, and the webhook knows {known}: it is not called"
            yield _of_crd(problem, f"{kind.resource}.{kind.group}", f"{what}; upgrade the operator")
    yield from _job_sets(snapshot)
    yield ok("Kinds", f"handled in this cluster: {listed(list(dict.fromkeys(handled)))}")


def _of_crd(say: Callable[[str, str, str], Diagnosis], name: str, what: str) -> Diagnosis:
    return say(f"CustomResourceDefinition {name}", what, f"kubectl get crd {name} -o yaml")


def _job_sets(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yield a warning if the CRD of JobSets is too old for the rules that a disruption needs."""
    served = (snapshot.kinds or {}).get((JOB_SET.group, JOB_SET.resource), ())
    for crd in snapshot.job_set_crd or ():
        if not set(JOB_SET.versions).isdisjoint(served) and not features_of(crd).message_patterns:
            what = "is older than JobSet 0.10 (no onJobFailureMessagePatterns): a disruption replaces only the pod"
            yield _of_crd(warning, crd["metadata"]["name"], f"{what}; upgrade JobSet")
