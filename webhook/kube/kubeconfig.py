"""Which cluster a kubeconfig means, read as kubectl reads it: of several files, the first that sets a value decides.

The official client lets the last file decide, so a command would act on another cluster than kubectl.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

DEFAULT: Final = "~/.kube/config"


class Kubeconfig(NamedTuple):
    """Files, separated as in KUBECONFIG, and the context in them that is used.

    Without files, those that kubectl uses by default; without a context, the current one. `cluster`: the name of its
    cluster, empty if that is not known.
    """

    files: str = ""
    context: str | None = None
    cluster: str = ""

    @property
    def paths(self) -> str:
        """The files, or those that kubectl uses by default."""
        return self.files or os.environ.get("KUBECONFIG") or str(Path(DEFAULT).expanduser())


@dataclass(slots=True)
class Contexts:
    """The contexts in a kubeconfig: the current one, namespace and cluster of each, and those without a user."""

    current: str | None = None
    namespaces: dict[str, str] = field(default_factory=dict)
    clusters: dict[str, str] = field(default_factory=dict)
    without_user: set[str] = field(default_factory=set)

    def namespace(self, context: str | None) -> str:
        """Return the namespace of a context, or with None of the current one, as kubectl would use it."""
        return self.namespaces.get(context or self.current or "") or "default"


def contexts(files: str) -> Contexts:
    """Return the contexts in the files that exist; raise ValueError if one is no kubeconfig, and OSError."""
    found = Contexts()
    for file in filter(None, files.split(os.pathsep)):
        path = Path(file).expanduser()
        if path.exists():
            add(found, content_of(path))
    return found


def content_of(path: Path) -> dict[str, Any]:
    """Return what a file holds; raise ValueError if it is no mapping, and OSError."""
    try:
        content = yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - safe
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not YAML: {error}") from None
    if not isinstance(content, dict | None):
        raise ValueError(f"{path} is no kubeconfig: must hold a mapping")  # noqa: TRY004 - as for the other contents
    return content or {}


def add(found: Contexts, content: dict[str, Any]) -> None:
    """Add what a further file holds; what was found before stays."""
    current = content.get("current-context")
    if isinstance(current, str) and current:
        found.current = found.current or current
    listed = content.get("contexts")
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and isinstance(one.get("name"), str):
            context = one.get("context")
            namespace = context.get("namespace") if isinstance(context, dict) else None
            cluster = context.get("cluster") if isinstance(context, dict) else None
            if one["name"] not in found.namespaces and isinstance(context, dict) and not context.get("user"):
                found.without_user.add(one["name"])
            found.namespaces.setdefault(one["name"], namespace if isinstance(namespace, str) else "")
            found.clusters.setdefault(one["name"], cluster if isinstance(cluster, str) else "")
