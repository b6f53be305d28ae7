"""Says why an object was left alone, or what was done to it. Pure."""

from collections.abc import Iterator
from copy import deepcopy

from webhook.audit.judge import judge
from webhook.doctor.finding import Finding, ok, problem, warning
from webhook.doctor.snapshot import Snapshot
from webhook.kinds import KINDS, core
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.rules.facts import Facts
from webhook.rules.opt_in import labels_of


def check(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield why the object that the user asks about was left alone."""
    stored = snapshot.stored
    if stored is None:
        return
    if stored.root is None:
        namespace, resource = snapshot.asked, KINDS[stored.kind].resource
        yield problem(stored.name, "does not exist", f"kubectl -n {namespace} get {resource}")
        return
    root, annotations = stored.root, stored.root["metadata"].get("annotations") or {}
    written = [key for key in (names.POLICY, names.PLACEMENT) if key in annotations]
    if written or names.PROFILE in labels_of(root):
        shown = f"{written[0]}: {annotations[written[0]]}" if written else f"the label {names.PROFILE}"
        yield ok(stored.name, f"was not left alone, it has {shown}")
    elif annotations.get(names.SKIP) == "true":
        what = f"has the annotation {names.SKIP}, so only the retry limit applies to it"
        kind = KINDS[stored.kind].resource
        fix = f"kubectl -n {snapshot.asked} annotate {kind} {root['metadata']['name']} {names.SKIP}-"
        yield warning(stored.name, what, fix)
    else:
        yield from left_alone(snapshot, stored.name, root)


def left_alone(snapshot: Snapshot, name: str, root: Json) -> Iterator[Finding]:
    """Yield whether an object without our marks would be changed if it were created now."""
    namespace = snapshot.named(snapshot.namespaces, snapshot.asked or "")
    profile = labels_of(namespace or {}).get(names.PROFILE)
    if profile is None or snapshot.policy is None or profile not in snapshot.policy.profiles:
        return  # the finding about the namespace says why
    verdict = judge(deepcopy(root), snapshot.policy, profile, Facts(profile_name=None))
    created = root["metadata"].get("creationTimestamp")
    if verdict is None:
        yield ok(name, "is of no kind that the webhook changes")
    elif verdict.verdict in {"changed", "denied"}:
        what = f"would be {verdict.verdict} if it were created now ({verdict.findings[0]}): it was created at {created}"
        why = "before the namespace was opted in, in mode Warn or Audit, or while no replica answered"
        yield problem(name, f"{what}, {why}", f"kubectl get -n {snapshot.asked} {name.partition('/')[2]} -o yaml")
    elif root["kind"] == core.POD.kind:
        yield ok(name, "is a pod to which the policy does not apply, or it was placed by nobody")
    else:
        yield ok(name, "the policy has nothing to change in it")
