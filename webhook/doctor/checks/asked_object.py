"""Says why an object was left alone, or what was done to it. Pure."""

from collections.abc import Iterator
from copy import deepcopy

from webhook.admission.judge import judge
from webhook.doctor.finding import Diagnosis, ok, problem, warning
from webhook.doctor.snapshot import Snapshot
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.rules.facts import Facts
from webhook.rules.opt_in import labels_of
from webhook.systems import core
from webhook.systems.kinds import KINDS


def check(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yield why each object that the user asks about was left alone."""
    for one in snapshot.stored:
        if one.kind is None:
            what = "does not exist, in any kind that the webhook handles"
            yield problem(one.name, what, f"kubectl -n {snapshot.asked} get jobs,cronjobs,pods")
        elif one.root is None:
            yield problem(one.name, "does not exist", f"kubectl -n {snapshot.asked} get {KINDS[one.kind].resource}")
        else:
            findings: list[Diagnosis] = []
            with snapshot.left_out.around(KINDS[one.kind].kind, one.root):
                findings += _judged(snapshot, one.name, one.root, KINDS[one.kind].resource)
            yield from findings


def _judged(snapshot: Snapshot, name: str, root: Json, resource: str) -> Iterator[Diagnosis]:
    """Yield why an object was left alone, or by which mark it was not."""
    annotations = root["metadata"].get("annotations") or {}
    written = [key for key in (names.POLICY, names.PLACEMENT) if key in annotations]
    if written or names.PROFILE in labels_of(root):
        yield ok(name, f"was not left alone: {_shown(root, annotations, written)}")
    elif annotations.get(names.SKIP) == "true":
        what = f"has the annotation {names.SKIP}, so only the retry limit applies to it"
        fix = f"kubectl -n {snapshot.asked} annotate {resource} {root['metadata']['name']} {names.SKIP}-"
        yield warning(name, what, fix)
    else:
        yield from _left_alone(snapshot, name, root)


def _shown(root: Json, annotations: dict[str, str], written: list[str]) -> str:
    """Return which of our marks an object has; of an annotation with JSON only the key."""
    if names.PLACEMENT in written:
        return f"it has the annotation {names.PLACEMENT}: {annotations[names.PLACEMENT]}"
    profile = labels_of(root).get(names.PROFILE)
    marks = [f"the label {names.PROFILE}: {profile}"] if profile else []
    return "it has " + " and ".join([*marks, *(f"the annotation {key}" for key in written)])


def _left_alone(snapshot: Snapshot, name: str, root: Json) -> Iterator[Diagnosis]:
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
        why = (
            "before the namespace was opted in, in mode Warn or Audit, while the webhook configurations were absent, "
            "or while no replica answered and failurePolicy was Ignore"
        )
        yield problem(name, f"{what}, {why}", f"kubectl get -n {snapshot.asked} {name.partition('/')[2]} -o yaml")
    elif root["kind"] == core.POD.kind:
        yield ok(name, "is a pod to which the policy does not apply, or it was placed by nobody")
    else:
        yield ok(name, "the policy has nothing to change in it")
