"""Where the product is installed and with which options, by its Deployments and webhook configurations. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from webhook.doctor.shipped import CONTROLLER, NAME, NAMESPACE, NeededRight, shipped_in
from webhook.kube.paths import is_name
from webhook.objects.patch import at
from webhook.objects.problem import Json

OWN_SECRET: Final = "retry-policy-webhook-certificates"  # noqa: S105 - the name of the Secret of the server's own certificate
VERSION: Final = "app.kubernetes.io/version"
# Written by Helm on every object of a release.
RELEASE: Final = "meta.helm.sh/release-name"
RELEASE_NAMESPACE: Final = "meta.helm.sh/release-namespace"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
CHART: Final = f"charts/{NAME}"
# What a server needs only if it issues its certificate itself.
CERTIFICATE_RIGHTS: Final = frozenset(
    {
        *(("secrets", verb) for verb in ("create", "get", "list", "update", "watch")),
        ("mutatingwebhookconfigurations", "patch"),
        ("validatingwebhookconfigurations", "patch"),
    }
)


@dataclass(frozen=True, slots=True)
class Installation:
    """An installation: its namespace, the webhook's Deployment (empty if it cannot be read) and what that says.

    `configuration`: one of its webhook configurations, which tells how it was installed if the Deployment is absent.
    `controller`: the Deployment of the controller; empty if there is none, or it cannot be read.
    """

    namespace: str
    deployment: Json
    configuration: Json = field(default_factory=dict)
    controller: Json = field(default_factory=dict)

    @property
    def args(self) -> list[str]:
        """The options of the server."""
        return [str(one) for one in _container_of(self.deployment).get("args") or ()]

    def option(self, name: str) -> str:
        """Return the value of an option of the server; empty if it is not given."""
        for index, one in enumerate(self.args):
            if one.startswith(f"{name}="):
                return one.partition("=")[2]
            if one == name:
                return "".join(self.args[index + 1 : index + 2])
        return ""

    @property
    def requested_retries(self) -> bool:
        """Whether the server runs requested retries."""
        return "--requested-retries" in self.args

    @property
    def own_certificate(self) -> bool:
        """Whether the server issues its certificate itself, and writes the caBundles."""
        return not self.option("--tls-cert")

    @property
    def secret(self) -> str:
        """The name of the Secret with the certificate; empty if the Deployment mounts it from elsewhere."""
        if self.own_certificate:
            return OWN_SECRET
        mounts: list[Json] = _container_of(self.deployment).get("volumeMounts") or []
        file = self.option("--tls-cert")
        names = [one.get("name") for one in mounts if file.startswith(f"{one.get('mountPath', '').rstrip('/')}/")]
        volumes: list[Json] = at(self.deployment, ("spec", "template", "spec", "volumes")) or []
        found = (at(one, ("secret", "secretName")) for one in volumes if one.get("name") in names)
        return next((name for name in found if name), "")

    @property
    def policy(self) -> tuple[str, str] | None:
        """Namespace and name of the ConfigMap with the policy; None if the policy comes from elsewhere."""
        if not self.deployment:
            return self.namespace, "retry-policy"
        namespace, _, name = self.option("--policy-configmap").partition("/")
        return (namespace, name) if is_name(namespace) and is_name(name) else None

    def username(self, account: str) -> str:
        """Return the name of a ServiceAccount as a user of the API."""
        return f"system:serviceaccount:{self.namespace}:{account}"

    @property
    def selector(self) -> dict[str, str]:
        """The labels by which the Deployment finds its pods."""
        found: dict[str, str] | None = at(self.deployment, ("spec", "selector", "matchLabels"))
        return found or {"app.kubernetes.io/name": NAME}

    @property
    def rights(self) -> list[NeededRight]:
        """The permissions that the server needs with its options."""
        found = shipped_in(self.namespace, requested_retries=self.requested_retries).rights()
        return [one for one in found if self.own_certificate or (one.resource, one.verb) not in CERTIFICATE_RIGHTS]

    def kubectl(self, command: str) -> str:
        """Return a command of kubectl in the namespace of the installation."""
        return f"kubectl -n {self.namespace} {command}"

    @property
    def certificate_command(self) -> str:
        """The part of a kubectl command that lets the caBundles be written again, or shows why they are not."""
        if self.own_certificate:
            return f"rollout restart deployment/{CONTROLLER}"
        return "get certificates.cert-manager.io,certificaterequests.cert-manager.io"

    @property
    def install(self) -> str:
        """The command that installs the webhook."""
        helm = f"helm install {NAME} {CHART} --namespace {self.namespace} --create-namespace --wait"
        return f"{helm}   # without Helm: kubectl apply -k manifests/base"

    @property
    def release(self) -> tuple[str, str] | None:
        """Namespace and name of the Helm release; None if it was installed by something else."""
        for root in (self.deployment, self.configuration):
            annotations: dict[str, str] = at(root, ("metadata", "annotations")) or {}
            if RELEASE in annotations or at(root, ("metadata", "labels", MANAGED_BY)) == "Helm":
                return annotations.get(RELEASE_NAMESPACE, self.namespace), annotations.get(RELEASE, NAME)
        return None

    @property
    def apply(self) -> str:
        """The command that restores what was installed."""
        if self.release:
            namespace, name = self.release
            return f"helm upgrade {name} {CHART} --namespace {namespace} --reset-then-reuse-values"
        if self.requested_retries:
            return "kubectl apply -k .   # your kustomization, with the component requested-retries"
        overlay = "base" if self.own_certificate else "overlays/cert-manager"
        return f"kubectl apply -k manifests/{overlay}   # or your own kustomization"

    def edit_policy(self, edit: str = "") -> str:
        """Return the command that changes the policy; `edit`: what to write in it, if that is known."""
        if self.release:  # which overwrites the ConfigMap in its next upgrade
            return f"{self.apply} --set-file policy=policy.yaml   # {edit or 'after you have corrected policy.yaml'}"
        namespace, name = self.policy or (self.namespace, "retry-policy")
        return f"kubectl -n {namespace} edit configmap {name}" + (f"   # {edit}" if edit else "")

    def scale_up(self, deployment: str) -> str:
        """Return the command that starts the replicas of a Deployment again."""
        return self.apply if self.release else self.kubectl(f"scale deployment/{deployment} --replicas=2")


def called_in(configurations: Iterable[Json]) -> list[str]:
    """Return the namespaces of the Services that our webhook configurations call, each once."""
    found = (
        at(hook, ("clientConfig", "service", "namespace"))
        for one in configurations
        if one["metadata"]["name"] == NAME
        for hook in one.get("webhooks") or ()
    )
    return list(dict.fromkeys(name for name in found if isinstance(name, str) and is_name(name)))


def _container_of(deployment: Json) -> Json:
    """Return the container of a Deployment that runs a program of ours; the first one if none says so."""
    containers: list[Json] = at(deployment, ("spec", "template", "spec", "containers")) or []
    ours = (one for one in containers if {"serve", "control"} & {*(one.get("args") or ())})
    return next(ours, containers[0] if containers else {})


def version_of(deployment: Json) -> str:
    """Return the version that a Deployment runs: its label, else the tag of its image; empty if neither says it."""
    label: str | None = at(deployment, ("metadata", "labels", VERSION))
    image: str = _container_of(deployment).get("image", "")
    return label or image.partition("@")[0].rpartition("/")[2].partition(":")[2]


def installation(configurations: list[Json], deployments: list[Json]) -> Installation:
    """Return the installation that the configurations call, else that of the first Deployment."""
    own = next((one for one in configurations if one["metadata"]["name"] == NAME), {})
    by_name = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in deployments}
    namespace = next(iter([*called_in(configurations), *(namespace for namespace, _ in by_name)]), NAMESPACE)
    return Installation(namespace, by_name.get((namespace, NAME), {}), own, by_name.get((namespace, CONTROLLER), {}))
