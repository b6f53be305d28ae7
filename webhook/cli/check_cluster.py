"""What check --cluster prints: the stored objects that admission would deny, change or warn about."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import click
from msgspec.structs import replace

from webhook.admission import engine
from webhook.admission.engine import read_policy
from webhook.admission.judge import WORST_FIRST, Judgement, Verdict, judge
from webhook.cli import terminal
from webhook.cli.cluster import ask, kubeconfig_or_default
from webhook.cli.console import PROBLEMS, UNUSABLE, fail, printable
from webhook.cli.policy_file import POLICY_CONFIGMAP, default_profile, profile_of, stored_policy, usable_policy
from webhook.cli.terminal import EVERY, Progress
from webhook.kube import names
from webhook.kube.client import METADATA_ONLY_LIST, Api, ApiError
from webhook.kube.kubeconfig import Kubeconfig
from webhook.kube.paths import path_of
from webhook.objects.columns import Part
from webhook.objects.left_out import RAISING, LeftOut
from webhook.objects.problem import Json, cut, listed
from webhook.policy.model import Policy
from webhook.policy.parse import load_default
from webhook.rules.facts import Facts
from webhook.rules.opt_in import labels_of
from webhook.systems import core
from webhook.systems.job import spec as batch
from webhook.systems.job_set import spec as job_sets
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec, controller_of
from webhook.systems.kinds import KINDS, full_name
from webhook.systems.trainer import spec as trainer
from webhook.systems.trainer.spec import TRAIN_JOB

MOST_ROWS: Final = 1_000  # of each verdict
LONGEST_FINDING: Final = 300  # characters
HEADINGS: Final = ("VERDICT", "OBJECT", "WHAT")
NAMESPACES: Final = path_of("v1", "namespaces")
CRDS: Final = path_of("apiextensions.k8s.io/v1", "customresourcedefinitions")
CONTROLLERS: Final = frozenset((group, kind.lower()) for group, kind in KINDS)
# The kinds in the order in which they are judged: those that create others come before these.
OWNERS_FIRST: Final = sorted(
    (kind for kind in reversed(KINDS.values()) if kind.admitted or kind is core.POD),
    key=lambda kind: (kind is core.POD, kind.owns_pods),
)


class ClusterScope(NamedTuple):
    """Which namespaces are judged: the opted-in ones, or all, or one; and under which profile.

    `profile`: None for the profile of each namespace, which is `default` where it is not opted in.
    """

    namespace: str | None = None
    all_namespaces: bool = False
    profile: str | None = None


class RowKey(NamedTuple):
    """What the objects of one row have in common."""

    namespace: str
    kind: KindSpec
    findings: tuple[str, ...]


@dataclass(slots=True)
class RowObjects:
    """The objects of one row: the name of the first one by name, their number, and all names if they are printed."""

    name: str
    number: int = 0
    names: list[str] = field(default_factory=list)


class Judgements:
    """The judgements so far; `every_name`: whether each object has a line of its own."""

    def __init__(self, *, every_name: bool = False) -> None:
        self.every_name = every_name
        self.rows: dict[Verdict, dict[RowKey, RowObjects]] = {verdict: {} for verdict in WORST_FIRST}
        self.numbers: Counter[Verdict] = Counter()
        self.unlisted: Counter[Verdict] = Counter()

    def add(self, kind: KindSpec, namespace: str, name: str, judgement: Judgement) -> None:
        """Add the judgement of one object; `namespace` is empty for an object of the whole cluster."""
        verdict, findings = judgement
        self.numbers[verdict] += 1
        if verdict not in self.rows:
            return
        rows = self.rows[verdict]
        key = RowKey(namespace, kind, tuple(cut(finding, LONGEST_FINDING) for finding in findings))
        if key not in rows and len(rows) >= MOST_ROWS:
            self.unlisted[verdict] += 1
            return
        entry = rows.setdefault(key, RowObjects(name))
        entry.name = min(entry.name, name)
        entry.number += 1
        if self.every_name:
            entry.names.append(name)

    def parts(self) -> Iterator[Part]:
        """Yield the table, and the lines of a summary."""
        cells = [*self.cells()]
        if cells:
            yield [HEADINGS, *cells]
            yield ""
        for verdict, number in self.unlisted.items():
            yield f"{number} more {verdict}, not listed; check one namespace: -n NAMESPACE"
        yield self.summary()

    def cells(self) -> Iterator[tuple[str, str, str]]:
        """Yield the cells of each line: a line for each finding."""
        for verdict in WORST_FIRST:
            by_place = sorted(self.named(verdict), key=lambda one: (one[0].namespace, one[0].kind.kind, one[1]))
            for key, name, others in by_place:
                for finding in key.findings:
                    yield verdict.upper(), f"{full_name(key.kind, key.namespace, name)}{others}", finding

    def named(self, verdict: Verdict) -> Iterator[tuple[RowKey, str, str]]:
        """Yield the key of each row, a name in it, and how many others the row stands for."""
        for key, entry in self.rows[verdict].items():
            if self.every_name:
                yield from ((key, name, "") for name in entry.names)
            else:
                yield key, entry.name, f" and {entry.number - 1} more" if entry.number > 1 else ""

    def summary(self) -> str:
        """Return how many objects there are of each verdict."""
        numbers = self.numbers
        objects = "1 object" if numbers.total() == 1 else f"{numbers.total():,} objects"
        return (
            f"{objects}: {numbers['denied']:,} would be denied, {numbers['changed']:,} changed, "
            f"{numbers['warned']:,} admitted with a warning, {numbers['unchanged']:,} admitted as they are"
        )


@dataclass(slots=True)
class ClusterCheck:
    """The check of one cluster: `report` has the judgements, `unread` says which lists could not be read, and why."""

    api: Api
    policy: Policy
    scope: ClusterScope
    report: Judgements = field(default_factory=Judgements)
    unread: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    denied: set[str] = field(default_factory=set)  # uids of objects that would be denied
    left_out: LeftOut = RAISING

    async def run(self) -> None:
        """Judge every object; raise what `Api` raises if the Namespaces cannot be read."""
        profiles, facts = await self.profiles(), await self.facts()
        for kind in OWNERS_FIRST:
            if profiles if kind.namespaced else self.scope.namespace is None:
                await self.judge_all(kind, profiles, facts)

    async def profiles(self) -> dict[str, str]:
        """Return the profile of each namespace that is judged; say which are judged otherwise than by their labels."""
        scope, default = self.scope, default_profile(self.policy)
        if scope.namespace is not None and scope.profile is not None:
            return {scope.namespace: scope.profile}
        query = {} if scope.all_namespaces else {"labelSelector": names.PROFILE}
        if scope.namespace is not None:
            query = {"fieldSelector": f"metadata.name={scope.namespace}"}
        namespaces = {
            one["metadata"]["name"]: labels_of(one)
            async for one in self.api.objects(NAMESPACES, query, METADATA_ONLY_LIST)
        }
        if not namespaces and scope.namespace is None:
            self.warnings.append("no namespace is opted in; choose one with -n NAMESPACE, or all with -A")
        elif not namespaces:
            self.unread.append(f"there is no namespace {scope.namespace}; list them: kubectl get namespaces")
        if scope.profile is not None:
            return dict.fromkeys(namespaces, scope.profile)
        found: dict[str, str] = {}
        for name, labels in namespaces.items():
            facts = Facts(profile_name=labels.get(names.PROFILE), mode=labels.get(names.MODE))
            if engine.profile_for(self.policy, facts) is not None:
                found[name] = labels[names.PROFILE]
            else:
                wrong = engine.response_without_profile(self.policy, facts).warnings
                self.warnings += [f"namespace {name}: {problem}" for problem in wrong]
        outside = [name for name, labels in namespaces.items() if names.PROFILE not in labels]
        if outside and default in self.policy.profiles:
            self.warnings.append(f"not opted in, judged under profile {default!r}: {listed(outside)}")
            found |= dict.fromkeys(outside, default)
        elif outside:
            self.unread.append(f"not opted in, name a profile for them with --profile: {listed(outside)}")
        return found

    async def facts(self) -> Facts:
        """Return what the rules must know of the cluster."""
        facts = Facts(profile_name=None)
        for kind in (JOB_SET, TRAIN_JOB):
            query = {"fieldSelector": f"metadata.name={kind.resource}.{kind.group}"}
            try:
                found = [crd async for crd in self.api.objects(CRDS, query)]
            except ApiError as error:
                self.unread.append(f"the CRD of {kind.resource} cannot be read: {error}")
                continue
            for crd in found:
                if kind is JOB_SET:
                    facts = replace(facts, **job_sets.features_of(crd)._asdict())
                else:
                    facts = replace(facts, runtime_patches=trainer.has_runtime_patches(crd))
        return facts

    async def judge_all(self, kind: KindSpec, profiles: dict[str, str], facts: Facts) -> None:
        """Judge all objects of one kind; add to `unread` why they cannot be listed."""
        try:
            async for root in self.objects(kind):
                with self.left_out.around(kind.kind, root):
                    self.judge(kind, root, profiles, facts)
        except ApiError as error:
            where = f" in {self.scope.namespace}" if self.scope.namespace is not None else ""
            self.unread.append(f"{kind.resource}{f'.{kind.group}' * bool(kind.group)}{where} cannot be listed: {error}")

    async def objects(self, kind: KindSpec) -> AsyncIterator[Json]:
        """Yield the objects of one kind; none if it is not installed."""
        for version in kind.versions:
            api_version = f"{kind.group}/{version}" if kind.group else version
            try:
                async for root in self.api.objects(path_of(api_version, kind.resource, self.scope.namespace), {}):
                    yield {"apiVersion": api_version, "kind": kind.kind, **root}
            except ApiError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
            else:
                return

    def judge(self, kind: KindSpec, root: Json, profiles: dict[str, str], facts: Facts) -> None:
        """Judge one object, and add it to the report."""
        metadata, controller = root["metadata"], controller_of(root)
        namespace = metadata.get("namespace") or ""
        profile = profiles.get(namespace) if kind.namespaced else self.profile_of_template(root)
        if profile is None or metadata.get("deletionTimestamp") or (kind is core.POD and controller is not None):
            return
        judgement = judge(root, self.policy, profile, facts)
        if judgement is None:
            return
        is_denied = judgement.verdict == "denied"
        if is_denied and kind is not batch.JOB:
            self.denied.add(metadata["uid"])
        # Of what another object creates, the author can change only that one.
        is_told = controller is not None and (controller.group, controller.kind.lower()) in CONTROLLERS
        if is_told and controller is not None and not (is_denied and controller.uid not in self.denied):
            return
        self.report.add(kind, namespace, metadata["name"], judgement)

    def profile_of_template(self, root: Json) -> str | None:
        """Return the profile of a template of the whole cluster, which takes part by its own label; None without."""
        profile = labels_of(root).get(names.PROFILE)
        return profile if profile in self.policy.profiles else None


def check_cluster(  # noqa: PLR0913 - one parameter for each option
    kubeconfig: Kubeconfig,
    file: Path | None,
    scope: ClusterScope,
    left_out: LeftOut,
    *,
    every_name: bool,
    warnings_fail: bool,
) -> NoReturn:
    """Print what admission would do to stored objects, and exit; `file`: the policy, None for that of the cluster."""
    connection = kubeconfig_or_default(kubeconfig)
    policy = None if file is None else usable_policy(file)
    found = Judgements(every_name=every_name)
    done = ask(connection, _checked(connection, policy, scope, found, left_out))
    terminal.show(found.parts())
    for line in [*(f"warning: {one}" for one in done.warnings), *done.unread]:
        click.echo(printable(line), err=True)
    failures = found.numbers["denied"] + (found.numbers["warned"] if warnings_fail else 0)
    sys.exit(UNUSABLE if done.unread else PROBLEMS if failures else 0)


async def _checked(
    kubeconfig: Kubeconfig, policy: Policy | None, scope: ClusterScope, report: Judgements, left_out: LeftOut
) -> ClusterCheck:
    """Judge the objects of a cluster, and add them to `report`; raise what `Api` raises."""
    async with await Api.connect(kubeconfig) as api:
        api.left_out = left_out
        warnings: list[str] = []
        if policy is None:
            policy = await _policy_in(api, warnings)
        if scope.profile is not None:
            profile_of(policy, scope.profile)
        done = ClusterCheck(api, policy, scope, report, warnings=warnings, left_out=left_out)
        telling = asyncio.create_task(tell(report, Progress()))
        try:
            await done.run()
        finally:
            telling.cancel()
            await asyncio.wait([telling])
        return done


async def tell(report: Judgements, progress: Progress) -> NoReturn:
    """Show how many objects are judged so far, until it is cancelled."""
    try:
        while True:
            progress.show(f"{report.numbers.total():,} objects judged")
            await asyncio.sleep(EVERY)
    finally:
        progress.clear()


async def _policy_in(api: Api, warnings: list[str]) -> Policy:
    """Return the policy in a cluster, or the packaged policy with a warning; exit 2 if it has problems."""
    name = "/".join(POLICY_CONFIGMAP)
    try:
        text = await stored_policy(api)
    except ApiError as error:
        namespace, config_map = POLICY_CONFIGMAP
        right = f"ask for the right to get configmaps/{config_map} in namespace {namespace}, or "
        remedy = f"{right if error.status == HTTPStatus.FORBIDDEN else ''}name one with --policy FILE"
        fail(f"the policy in ConfigMap {name} cannot be read: {error}; {remedy}")
    if text is None:
        what = f"there is no policy in ConfigMap {name}: judged by the packaged policy"
        warnings.append(f"{what}; name another with --policy FILE")
        return load_default()
    policy, problems = read_policy(text)
    if policy is None:
        fail(f"the policy in ConfigMap {name} has problems: {' | '.join(map(str, problems))}")
    return policy
