"""The namespace of one test: kubectl in it, and waits for the controllers."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml
from kubernetes import config

from tests.awaiting import LONGEST, until
from tests.cluster.kubectl import Kubectl, KubectlError, Object
from tests.cluster.manifests import exits
from tests.cluster.objects import ACCOUNT, Accounts, condition, is_running
from webhook.kube import names
from webhook.kube.paths import path_of
from webhook.systems.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

RBAC_GROUP = "rbac.authorization.k8s.io"
RBAC = f"{RBAC_GROUP}/v1"
PATHS = {
    "configmaps": "api/v1",
    "events": "api/v1",
    "limitranges": "api/v1",
    "pods": "api/v1",
    "resourcequotas": "api/v1",
    "serviceaccounts": "api/v1",
    "services": "api/v1",
    "jobs": "apis/batch/v1",
    "cronjobs": "apis/batch/v1",
    "roles": f"apis/{RBAC}",
    "rolebindings": f"apis/{RBAC}",
    "resourceclaims": "apis/resource.k8s.io/v1",
    "customruns": "apis/tekton.dev/v1beta1",
    "flyteworkflows": "apis/flyte.lyft.com/v1alpha1",
    "accounts": "apis/retry-policy.dev/v1alpha1",
    "mpijobs": "apis/kubeflow.org/v2beta1",
    "pytorchjobs": "apis/kubeflow.org/v1",
    "jobsets": "apis/jobset.x-k8s.io/v1alpha2",
    "pipelineruns": "apis/tekton.dev/v1",
    "rayjobs": "apis/ray.io/v1",
    "sparkapplications": "apis/sparkoperator.k8s.io/v1beta2",
    "taskruns": "apis/tekton.dev/v1",
    "trainjobs": "apis/trainer.kubeflow.org/v1alpha1",
    "workflows": "apis/argoproj.io/v1alpha1",
    "workloads": "apis/kueue.x-k8s.io/v1beta2",
}
UNCOUNTED = frozenset(
    {
        *("accounts", "configmaps", "cronjobs", "events", "limitranges", "pods", "resourceclaims", "resourcequotas"),
        *("rolebindings", "roles", "serviceaccounts", "services", "workloads"),
    }
)
OF_KINDS = {f"{kind.resource}.{kind.group}": kind for kind in KINDS.values() if kind.group}
SELECTOR = "--selector="
DRY_RUN = ("--dry-run=server",)
SERVER_SIDE = ("--server-side", "--field-manager=team")
AS_KUBECTL_CREATES = {"fieldValidation": "Strict", "fieldManager": "kubectl-create"}
AS_TEAM_APPLIES = {"fieldValidation": "Strict", "fieldManager": "team", "force": "false"}
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Api:
    """Calls the API server directly, which takes a few milliseconds; kubectl takes a hundred."""

    client: Any

    @classmethod
    def connect(cls, kubeconfig: Path) -> Api:
        return cls(config.new_client_from_config(str(kubeconfig)))

    def list(self, path: str, **query: str) -> Object:
        parsed: Object = json.loads(b"".join(self._lines(path, query)))
        return parsed

    def dry_run(self, path: str, manifest: Object) -> Object:
        """Create an object in a dry run; return it as it would be stored, or the Status that rejects it.

        It is asked again where a busy machine was too slow: for a webhook, or for the 34 seconds of a write.
        """

        def answer() -> Object | None:
            found = self.send("POST", path, manifest, dryRun="All")
            return None if "context deadline exceeded" in found.get("message", "") else found

        return until(answer)

    def create(self, path: str, manifest: Mapping[str, Any], **query: str) -> Object:
        """Create an object like kubectl, and return it as kubectl prints it; raise KubectlError if it is rejected."""
        return _as_printed(self.send("POST", path, dict(manifest), **AS_KUBECTL_CREATES, **query))

    def apply(self, path: str, manifest: Mapping[str, Any]) -> Object:
        """Apply an object server-side, and return it as kubectl prints it; raise KubectlError if it is rejected."""
        return _as_printed(self.send("PATCH", path, dict(manifest), patch=APPLY, **AS_TEAM_APPLIES))

    def patch(self, path: str, patch: Any, *, kind: str = MERGE) -> Object:
        """Patch an object, and return it as kubectl prints it; raise KubectlError if the change is rejected."""
        return _as_printed(self.send("PATCH", path, patch, patch=kind))

    def delete(self, path: str, **query: str) -> None:
        """Delete an object and what it owns, and return at once; raise KubectlError if that is rejected."""
        answer = self.send("DELETE", path, propagationPolicy="Background", **query)
        if answer["kind"] == "Status" and answer["status"] == "Failure":
            raise KubectlError(answer["message"])

    def send(
        self, method: str, path: str, body: Any = None, *, patch: str = MERGE, user: str = "", **query: str
    ) -> Object:
        """Get, create, patch or delete an object, as another user with `user`; return its new state, or the Status."""
        kind = patch if method == "PATCH" else "application/json"
        request = self.client.param_serialize(
            method,
            f"/{path}",
            query_params=list(query.items()),
            header_params={"Content-Type": kind, **({"Impersonate-User": user} if user else {})},
            body=body,
            auth_settings=["BearerToken"],
        )
        answer: Object = json.loads(self.client.call_api(*request).read())
        return answer

    def watch(self, path: str, **query: str) -> Iterator[tuple[str, Object]]:
        """Yield the type and the object of each event until the query's `timeoutSeconds` are over."""
        for line in self._lines(path, {**query, "watch": "true"}):
            event = json.loads(line)
            yield event["type"], event["object"]

    def close(self) -> None:
        self.client.close()

    def _lines(self, path: str, query: dict[str, str]) -> Iterator[bytes]:
        chosen = [(key, value) for key, value in query.items() if value]
        request = self.client.param_serialize("GET", f"/{path}", query_params=chosen, auth_settings=["BearerToken"])
        response = self.client.call_api(*request).response
        try:
            assert response.status == 200, response.data
            yield from response
        finally:
            response.close()


@dataclass(frozen=True, slots=True)
class Namespace(Kubectl):
    """kubectl in one namespace, with waits by watching, so that no intermediate state is missed.

    A wait that fails raises AssertionError with the last state of the objects and the namespace's Events.
    """

    name: str
    api: Api

    def create(self, manifest: Mapping[str, Any], *flags: str) -> Object:
        """Create the object and return it as stored; raise KubectlError with the API server's message if it is refused.

        Like kubectl, but in a few milliseconds; kubectl itself is called for flags other than DRY_RUN, and for kinds
        that are neither in PATHS nor known to the webhook.
        """
        path = self._path_of(manifest)
        if flags not in {(), DRY_RUN} or path is None:
            return Kubectl.create(self, manifest, *flags)
        return self.api.create(path, manifest, **({"dryRun": "All"} if flags else {}))

    def apply(self, manifest: Mapping[str, Any], *flags: str) -> Object:
        """Apply the manifest, and return the object as stored; raise KubectlError if it is rejected.

        Like kubectl; kubectl itself is called for flags other than SERVER_SIDE, as for `create`.
        """
        path = self._path_of(manifest)
        if flags != SERVER_SIDE or path is None:
            return Kubectl.apply(self, manifest, *flags)
        return self.api.apply(f"{path}/{manifest['metadata']['name']}", manifest)

    def apply_all(self, manifests: Sequence[Object], *flags: str) -> list[Object]:
        """Apply manifests as `apply` does, by a single call of kubectl if it is kubectl that does it."""
        if flags == SERVER_SIDE:
            return [self.apply(manifest, *flags) for manifest in manifests]
        stored = self._object("apply", "--filename=-", *flags, stdin="\n---\n".join(map(json.dumps, manifests)))
        return stored["items"] if stored["kind"] == "List" else [stored]

    def refusal(self, manifest: Mapping[str, Any]) -> str:
        """Create an object in a dry run; return the API server's error, empty if it accepts the object."""
        try:
            self.create(manifest, *DRY_RUN)
        except KubectlError as error:
            return str(error)
        return ""

    def patched(self, what: str, patch: Any, *, sub: str = "", kind: str = MERGE, user: str = "", **query: str) -> str:
        """Patch an object (`"job/train"`); return the API server's error, empty if it accepts the change."""
        answer = self.api.send("PATCH", self.path_to(what) + sub, patch, patch=kind, user=user, **query)
        return str(answer["message"]) if answer["kind"] == "Status" else ""

    def patch(self, what: str, patch: Any, *, sub: str = "", kind: str = MERGE) -> None:
        """Patch an object (`"job/train"`); raise KubectlError if the change is rejected."""
        self.api.patch(self.path_to(what) + sub, patch, kind=kind)

    def annotate(self, what: str, annotations: Mapping[str, str | None]) -> None:
        """Set annotations of an object (`"job/train"`), or with None remove them; raise KubectlError if rejected."""
        self.patch(what, {"metadata": {"annotations": dict(annotations)}})

    def label(self, labels: Mapping[str, str | None]) -> None:
        """Set labels of the namespace itself, or with None remove them; raise KubectlError if they are rejected."""
        self.api.patch(f"api/v1/namespaces/{self.name}", {"metadata": {"labels": dict(labels)}})

    def delete(self, what: str, **query: str) -> None:
        """Delete an object (`"job/train"`) as `Api.delete` does."""
        self.api.delete(self.path_to(what), **query)

    def permit(self, role: str, *rules: Mapping[str, Sequence[str]]) -> None:
        """Create a Role with these rules."""
        self.create({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": role}, "rules": list(rules)})

    def bind(self, role: str, kind: str, user: str, *, of: str | None = None) -> None:
        """Bind a role (`"ClusterRole/edit"`) to a user (`"User", "eve"`), or to a ServiceAccount of a namespace."""
        kind_of_role, _, name = role.partition("/")
        subject = {"kind": kind, "name": user}
        subject |= {"namespace": of} if of else {"apiGroup": RBAC_GROUP}
        binding = {"apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": name}, "subjects": [subject]}
        self.create({**binding, "roleRef": {"apiGroup": RBAC_GROUP, "kind": kind_of_role, "name": name}})

    def token(self, account: str = "default") -> str:
        """Return a token of a ServiceAccount."""
        path = f"{self.path_to('serviceaccounts')}/{account}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str(self.api.create(path, request)["status"]["token"])

    def get(self, *arguments: str) -> Object:
        """Return one object (`get("job", "train")`), or a list with `items`; raise KubectlError if there is none.

        Like kubectl; kubectl itself is called for flags other than `--selector=`, and for resources not in PATHS.
        """
        resource, *rest = arguments
        plural = resource if resource in PATHS or resource in OF_KINDS else f"{resource}s"
        selector = rest[0].removeprefix(SELECTOR) if rest and rest[0].startswith(SELECTOR) else ""
        known = plural in PATHS or plural in OF_KINDS
        if not known or len(rest) > 1 or (rest and rest[0].startswith("-") and not selector):
            return Kubectl.get(self, *arguments)
        path = self.path_to(plural)
        if rest and not selector:
            return self.with_accounts(plural, [_as_printed(self.api.send("GET", f"{path}/{rest[0]}"))])[0]
        listed = self.api.list(path, labelSelector=selector)
        of_list = {"apiVersion": listed["apiVersion"], "kind": listed["kind"].removesuffix("List")}
        return {**listed, "items": [_as_printed({**of_list, **one}) for one in listed["items"]]}

    def path_to(self, what: str) -> str:
        """Return the path of an object of this namespace (`"job/train"`), or of all of its resource (`"jobs"`)."""
        resource, _, name = what.partition("/")
        if resource in OF_KINDS:
            return OF_KINDS[resource].path(self.name, name or None).removeprefix("/")
        plural = resource if resource in PATHS else f"{resource}s"
        return f"{PATHS[plural]}/namespaces/{self.name}/{plural}{f'/{name}' if name else ''}"

    def wait_for(self, resource: str, name: str, until: Callable[[Object], object]) -> Object:
        """Return the object of that name (`"jobs"`, `"train"`) as soon as it exists and `until` holds of it."""
        __tracebackhide__ = True
        return self._wait(resource, lambda found: any(map(until, found)), fieldSelector=f"metadata.name={name}")[0]

    def wait_for_all(
        self, resource: str, until: Callable[[list[Object]], object], *, selector: str = "", seconds: float = LONGEST
    ) -> list[Object]:
        """Return the objects with that label selector as soon as `until` holds of the list, oldest first."""
        __tracebackhide__ = True
        return self._wait(resource, until, labelSelector=selector, seconds=seconds)

    def pods_of(self, job: str, until: Callable[[list[Object]], object], *, seconds: float = LONGEST) -> list[Object]:
        """Return the Job's pods as soon as `until` holds of them, oldest first."""
        __tracebackhide__ = True
        return self.wait_for_all("pods", until, selector=f"batch.kubernetes.io/job-name={job}", seconds=seconds)

    def running(self, job: str, number: int, *, but: Object | None = None) -> list[Object]:
        """Return the Job's running pods as soon as there are `number` of them, without the known pod `but`."""
        __tracebackhide__ = True
        return self.running_with(f"batch.kubernetes.io/job-name={job}", number, but=but)

    def running_with(self, selector: str, number: int, *, but: Object | None = None) -> list[Object]:
        """Return the running pods with that label selector, as `running`."""
        __tracebackhide__ = True
        known = None if but is None else but["metadata"]["uid"]

        def chosen(pods: list[Object]) -> list[Object]:
            return [pod for pod in pods if is_running(pod) and pod["metadata"]["uid"] != known]

        return chosen(self.wait_for_all("pods", lambda pods: len(chosen(pods)) == number, selector=selector))

    def pods_of_set(self, job_set: str, restart: int, number: int = 1) -> list[Object]:
        """Return the pods of a JobSet's restart as soon as `number` of them run; restart 0 is the first start."""
        __tracebackhide__ = True
        selector = f"jobset.sigs.k8s.io/jobset-name={job_set},jobset.sigs.k8s.io/restart-attempt={restart}"
        return self.wait_for_all(
            "pods", lambda pods: len(pods) >= number and all(condition(pod, "Ready") for pod in pods), selector=selector
        )

    def ends(self, pod: Object, code: int) -> None:
        """Let a running pod end with an exit code."""
        self.all_end([pod], code)

    def all_end(self, pods: list[Object], code: int) -> None:
        """Let running pods end with an exit code, one immediately after the other."""
        for pod in pods:
            self.annotate(f"pod/{pod['metadata']['name']}", exits(code))

    def tells(self, pod: Object, progress: str) -> None:
        """Let the program of a pod tell its progress."""
        self.annotate(f"pod/{pod['metadata']['name']}", {names.PROGRESS: progress})

    def told(self, name: str, reason: str = "AttemptEnded", *, text: str = "") -> list[str]:
        """Return the messages of the Events about an object with this reason and text, as soon as there is one.

        An Event follows what it tells.
        """
        __tracebackhide__ = True
        selector = f"involvedObject.name={name},reason={reason}"
        found = self._wait("events", lambda some: any(text in one["message"] for one in some), fieldSelector=selector)
        return [one["message"] for one in found if text in one["message"]]

    def event_messages(self, name: str, reason: str = "AttemptEnded") -> list[str]:
        """Return the messages of the Events until now about an object that have this reason."""
        selector = f"involvedObject.name={name},reason={reason}"
        return [one["message"] for one in self.api.list(self.path_to("events"), fieldSelector=selector)["items"]]

    def evict(self, pod: str) -> None:
        """Evict a pod by the eviction API; raise AssertionError if the API refuses."""
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": self.name}}
        answer = self.api.send("POST", f"{self.path_to(f'pod/{pod}')}/eviction", eviction)
        assert answer["status"] == "Success", answer

    def _wait(
        self, resource: str, until: Callable[[list[Object]], object], *, seconds: float = LONGEST, **query: str
    ) -> list[Object]:
        __tracebackhide__ = True  # pytest then shows only the message
        path = self.path_to(resource)
        end = time.monotonic() + seconds
        while True:  # the API server ends a watch early if the client reads its events too slowly
            listed = self.api.list(path, **query)
            found: dict[str, Object] = {item["metadata"]["uid"]: item for item in listed["items"]}
            objects, accounts = self._with_accounts_later(resource, found)
            if until(objects):
                return self.with_accounts(resource, objects, accounts)
            left = math.ceil(end - time.monotonic())
            if left <= 0:
                break
            if accounts.were_read:
                left = 1  # an Account changes without its workload
            version = listed["metadata"]["resourceVersion"]
            for kind, item in self.api.watch(path, **query, resourceVersion=version, timeoutSeconds=str(left)):
                assert kind in {"ADDED", "MODIFIED", "DELETED"}, item
                if kind == "DELETED":
                    found.pop(item["metadata"]["uid"], None)
                else:
                    found[item["metadata"]["uid"]] = item
                objects, accounts = self._with_accounts_later(resource, found)
                if until(objects):
                    return self.with_accounts(resource, objects, accounts)
                if accounts.were_read and left > 1:
                    break
        shown = _shown(self.with_accounts(resource, objects))
        raise AssertionError(
            f"waited {seconds:g} s for {resource} in {self.name}; they are now:\n{shown}\nevents:\n{self._events()}"
        )

    def _accounts(self) -> Accounts:
        return Accounts(lambda: self.api.list(self.path_to("accounts")))

    def _with_accounts_later(self, resource: str, found: dict[str, Object]) -> tuple[list[Object], Accounts]:
        """Return the objects, oldest first, and their Accounts, which are read once `until` asks for one."""
        accounts = self._accounts()
        if resource not in UNCOUNTED:
            for one in found.values():
                one[ACCOUNT] = accounts
        return _oldest_first(found), accounts

    def with_accounts(self, resource: str, found: list[Object], accounts: Accounts | None = None) -> list[Object]:
        """Add to each workload its Account under the key ACCOUNT; `accounts`: what was known of them just now."""
        if resource not in UNCOUNTED and found:
            by_uid = (accounts or self._accounts()).by_uid
            for one in found:
                one.pop(ACCOUNT, None)
                if one["metadata"]["uid"] in by_uid:
                    one[ACCOUNT] = by_uid[one["metadata"]["uid"]]
        return found

    def _events(self) -> str:
        events = self.api.list(self.path_to("events"))["items"]
        about = [(event["involvedObject"], event["reason"], event.get("message", "")) for event in events]
        return "\n".join(f"  {one['kind']}/{one['name']} {reason}: {message}" for one, reason, message in about)

    def _path_of(self, manifest: Mapping[str, Any]) -> str | None:
        """Return the path of the objects of a manifest's kind, or None if its resource is not known."""
        version = manifest["apiVersion"]
        resource = f"{manifest['kind'].lower()}s"
        if PATHS.get(resource, "").partition("/")[2] == version:
            return self.path_to(resource)
        row = KINDS.get((version.rpartition("/")[0], manifest["kind"]))
        if row is None:
            return None
        return path_of(version, row.resource, self.name if row.namespaced else None).removeprefix("/")

    def _scope(self) -> list[str]:
        return [f"--namespace={self.name}"]


def _as_printed(answer: Object) -> Object:
    """Return an object as kubectl prints it; raise KubectlError if the answer is an error."""
    if answer["kind"] == "Status":
        raise KubectlError(answer["message"])
    answer["metadata"].pop("managedFields", None)
    return answer


def _oldest_first(found: dict[str, Object]) -> list[Object]:
    return sorted(found.values(), key=lambda item: str(item["metadata"]["creationTimestamp"]))


def _shown(objects: list[Object]) -> str:
    for item in objects:
        item["metadata"].pop("managedFields", None)
    return yaml.safe_dump(objects, sort_keys=False)
