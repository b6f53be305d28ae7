"""Lists what an audit judges: the policy, CRDs, and page by page the objects of each kind."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from msgspec.structs import replace

from webhook.audit import namespaces
from webhook.audit.judge import judge
from webhook.audit.namespaces import Scope
from webhook.audit.report import Report
from webhook.kube import names
from webhook.kube.client import Api, ApiError
from webhook.kube.paths import path_of
from webhook.objects.left_out import RAISING, LeftOut
from webhook.objects.problem import Json
from webhook.policy.model import Policy
from webhook.policy.parse import KEY
from webhook.rules.facts import Facts
from webhook.rules.opt_in import labels_of
from webhook.systems import core
from webhook.systems.job import spec as batch
from webhook.systems.job_set.rules import features
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec, controller_of
from webhook.systems.kinds import KINDS
from webhook.systems.trainer.spec import TRAIN_JOB

POLICY_CONFIGMAP: Final = ("retry-policy-system", "retry-policy")  # as manifests/ installs it
CRDS: Final = path_of("apiextensions.k8s.io/v1", "customresourcedefinitions")
CONTROLLERS: Final = frozenset((group, kind.lower()) for group, kind in KINDS)

# The kinds in the order in which they are judged: those that create others come before these.
OWNERS_FIRST: Final = sorted(
    (row for row in reversed(KINDS.values()) if row.admitted or row is core.POD),
    key=lambda row: (row is core.POD, row.owns_pods),
)


@dataclass(slots=True)
class Audit:
    """The audit of one cluster: `report` has the judgements, `unread` says which lists could not be read, and why."""

    api: Api
    policy: Policy
    scope: Scope
    report: Report = field(default_factory=Report)
    unread: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    denied: set[str] = field(default_factory=set)  # uids of objects that would be denied
    left_out: LeftOut = RAISING

    async def run(self) -> None:
        """Judge every object; raise what `Api` raises if the Namespaces cannot be read."""
        chosen = await namespaces.chosen(self.api, self.policy, self.scope)
        profiles = chosen.profiles
        self.warnings += chosen.warnings
        self.unread += chosen.unread
        facts = await self.facts()
        for row in OWNERS_FIRST:
            if profiles if row.namespaced else self.scope.namespace is None:
                await self.judge_all(row, profiles, facts)

    async def facts(self) -> Facts:
        """Return what the rules must know of the cluster."""
        facts = Facts(profile_name=None)
        for row in (JOB_SET, TRAIN_JOB):
            query = {"fieldSelector": f"metadata.name={row.resource}.{row.group}"}
            try:
                found = [crd async for crd in self.api.objects(CRDS, query)]
            except ApiError as error:
                self.unread.append(f"the CRD of {row.resource} cannot be read: {error}")
                continue
            for crd in found:
                if row is JOB_SET:
                    facts = replace(facts, **features.of_job_sets(crd)._asdict())
                else:
                    facts = replace(facts, runtime_patches=features.has_runtime_patches(crd))
        return facts

    async def judge_all(self, row: KindSpec, profiles: dict[str, str], facts: Facts) -> None:
        """Judge all objects of one kind; add to `unread` why they cannot be listed."""
        try:
            async for root in self.objects(row):
                with self.left_out.around(row.kind, root):
                    self.judge(row, root, profiles, facts)
        except ApiError as error:
            where = f" in {self.scope.namespace}" if self.scope.namespace is not None else ""
            self.unread.append(f"{row.resource}{f'.{row.group}' * bool(row.group)}{where} cannot be listed: {error}")

    async def objects(self, row: KindSpec) -> AsyncIterator[Json]:
        """Yield the objects of one kind; none if it is not installed."""
        for version in row.versions:
            api_version = f"{row.group}/{version}" if row.group else version
            try:
                async for root in self.api.objects(path_of(api_version, row.resource, self.scope.namespace), {}):
                    yield {"apiVersion": api_version, "kind": row.kind, **root}
            except ApiError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
            else:
                return

    def judge(self, row: KindSpec, root: Json, profiles: dict[str, str], facts: Facts) -> None:
        """Judge one object, and add it to the report."""
        metadata, controller = root["metadata"], controller_of(root)
        namespace = metadata.get("namespace") or ""
        profile = profiles.get(namespace) if row.namespaced else self.profile_of_template(root)
        if profile is None or metadata.get("deletionTimestamp") or (row is core.POD and controller is not None):
            return
        judgement = judge(root, self.policy, profile, facts)
        if judgement is None:
            return
        is_denied = judgement.verdict == "denied"
        if is_denied and row is not batch.JOB:
            self.denied.add(metadata["uid"])
        # Of what another object creates, the author can change only that one.
        is_told = controller is not None and (controller.group, controller.kind.lower()) in CONTROLLERS
        if is_told and controller is not None and not (is_denied and controller.uid not in self.denied):
            return
        self.report.add(row, namespace, metadata["name"], judgement)

    def profile_of_template(self, root: Json) -> str | None:
        """Return the profile of a template of the whole cluster, which takes part by its own label; None without."""
        profile = labels_of(root).get(names.PROFILE)
        return profile if profile in self.policy.profiles else None


async def stored_policy(api: Api) -> str | None:
    """Return the text of the policy in the cluster; None if there is none; raise as `Api.get` does."""
    namespace, name = POLICY_CONFIGMAP
    query = {"fieldSelector": f"metadata.name={name}"}
    async for one in api.objects(path_of("v1", "configmaps", namespace), query):
        text: str | None = (one.get("data") or {}).get(KEY)
        return text
    return None
