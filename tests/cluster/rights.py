"""The permissions that the roles grant to the server, and those that it uses: kubectl as a proxy logs the requests."""

from __future__ import annotations

import json
import re
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import parse_qs, urlsplit

from tests.cluster.installation import SERVICE_ACCOUNT, SYSTEM, as_service_account

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.cluster.kubectl import Kubectl, Object

# The namespace if a Role grants it, else empty; API group; resource; the object's name if only that is granted;
# verb.
Right: TypeAlias = tuple[str, str, str, str, str]
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@contextmanager
def recording(
    kubectl: Kubectl, folder: Path, of: str = SERVICE_ACCOUNT
) -> Iterator[tuple[Path, Callable[[], list[Mapping[str, str]]]]]:
    """Yield a kubeconfig of a program's ServiceAccount, and a function that returns the logged requests."""
    own, through, log = folder / "own.kubeconfig", folder / "through.kubeconfig", folder / "kubectl.log"
    account = as_service_account(kubectl, of)
    own.write_text(json.dumps(account))
    command = (kubectl.program, "proxy", f"--kubeconfig={own}", "--port=0", "-v=6")
    with (
        log.open("wb") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
    ):
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        account["clusters"][0]["cluster"] = {"server": f"http://{address}"}
        account["users"][0]["user"] = {}
        through.write_text(json.dumps(account))
        line = re.compile(r'"Response" verb="(?P<method>\w+)" url="(?P<url>[^"]+)" status="(?P<status>[^"]+)"')
        try:
            yield through, lambda: [found.groupdict() for found in line.finditer(log.read_text())]
        finally:
            process.terminate()


def used(requests: list[Mapping[str, str]], granted: set[Right]) -> set[Right]:
    """Return the permissions that requests need; with the object's name if only that is granted."""
    needed = set()
    for request in requests:
        right, name = right_of(request["method"], request["url"])
        by_name = (*right[:3], name, right[4])
        needed.add(by_name if by_name in granted else right)
    return needed


def right_of(method: str, url: str) -> tuple[Right, str]:
    """Return the attributes of a request for the authorizer, and its object's name, empty if it has none."""
    found = urlsplit(url)
    path = re.fullmatch(
        r"/apis?(?:/(?P<group>[^/]+\.[^/]+|batch))?/v[^/]+(?:/namespaces/(?P<namespace>[^/]+))?/(?P<resource>[a-z]+)(?:/(?P<name>[^/]+)(?P<sub>/[a-z]+)?)?",
        found.path,
    )
    assert path, url
    query = parse_qs(found.query)
    verb = VERBS.get(method) or ("watch" if "watch" in query else "get" if path["name"] else "list")
    name = path["name"] or query.get("fieldSelector", [""])[0].removeprefix("metadata.name=")
    resource = path["resource"] + (path["sub"] or "")
    return (SYSTEM if path["namespace"] == SYSTEM else "", path["group"] or "", resource, "", verb), name


def granted(manifests: list[Object], account: str) -> set[Right]:
    """Return the permissions of a program: those of the roles that are bound to its ServiceAccount."""
    bound = {
        (one["kind"].removesuffix("Binding"), one["roleRef"]["name"])
        for one in manifests
        if one["kind"] in {"RoleBinding", "ClusterRoleBinding"}
        and account in {subject["name"] for subject in one["subjects"]}
    }
    return {
        (role["metadata"].get("namespace", ""), group, resource, name, verb)
        for role in manifests
        if (role["kind"], role["metadata"]["name"]) in bound
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    }
