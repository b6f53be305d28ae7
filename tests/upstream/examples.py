"""The examples of Tekton Pipelines and Argo Workflows: each object that the webhook knows, created in a dry run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import yaml

from tests.cluster import operators, toolchain
from tests.upstream.suites import Result
from webhook.kube.paths import path_of
from webhook.systems.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.namespace import Api
    from tests.cluster.operators import Module

PROJECTS: Final = {operators.TEKTON: "Tekton", "github.com/argoproj/argo-workflows/v3": "Argo Workflows"}


def modules() -> list[Module]:
    """Return the modules that contain the examples."""
    return [module for module in operators.MODULES if module.path in PROJECTS]


def title(module: Module) -> str:
    """Return the name of a module's examples, as a suite."""
    return f"{PROJECTS[module.path]} {module.version.removeprefix('v')}, examples"


def folders() -> dict[str, Path]:
    """Return the folder of each project's examples by its title; the first call downloads them."""
    go = toolchain.go(operators.CONTROLLER_GEN.go_version)
    return {title(module): source / "examples" for module, source in operators.download(go, modules()).items()}


def objects(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield the objects of kinds that the webhook knows, with file and number of the document."""
    for file in sorted(folder.rglob("*.yaml")):
        for number, one in enumerate(yaml.safe_load_all(file.read_text()), 1):
            if one and (one["apiVersion"].rpartition("/")[0], one["kind"]) in KINDS:
                yield f"{file.relative_to(folder)} ({number})", one


def created(api: Api, namespace: str, folder: Path) -> Result:
    """Create each of them in a namespace, in a dry run; return which ones the API server refuses, and why."""
    failures = {}
    ran = []
    for name, one in objects(folder):
        kind = KINDS[one["apiVersion"].rpartition("/")[0], one["kind"]]
        path = path_of(one["apiVersion"], kind.resource, namespace if kind.namespaced else None)
        one["metadata"].pop("namespace", None)
        answer = api.dry_run(path.removeprefix("/"), one)
        ran.append(name)
        if answer["kind"] == "Status":
            failures[name] = answer["message"]
    return Result(frozenset(ran), failures)
