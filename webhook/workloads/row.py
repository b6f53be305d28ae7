"""What a row of the workload table says, and how a row is read against an object."""

from collections.abc import Iterator
from dataclasses import dataclass

from webhook.patch import at
from webhook.problem import Json, Path
from webhook.shape import Shape


@dataclass(frozen=True, slots=True)
class EmbeddedJob:
    """One JobSpec of an object, with the metadata of the Job that it is or will be."""

    path: Path
    spec: Json
    metadata: Json

    @property
    def metadata_path(self) -> Path:
        """Where that metadata stands: beside the spec."""
        return (*self.path[:-1], "metadata")

    @property
    def template(self) -> Json:
        """The pod template; empty where the author left it out, which the API server refuses."""
        return self.spec.get("template") or {}

    @property
    def pod_spec(self) -> Json:
        """The pod template's spec."""
        return self.template.get("spec") or {}

    @property
    def pod_annotations(self) -> Json:
        """The pod template's annotations."""
        return (self.template.get("metadata") or {}).get("annotations") or {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A kind of the API that the rules know.

    `job_specs` are the paths of its JobSpecs. `immutable`: whether a JobSpec may not be changed after creation, so that
    an update is never judged by today's policy. `owns_pods`: whether it is the controller of pods, and tells their
    attempt. `shape`: the types of all fields that rules read.
    """

    group: str
    version: str
    kind: str
    resource: str
    shape: Shape
    job_specs: tuple[Path, ...] = ()
    immutable: bool = False
    owns_pods: bool = False

    def jobs(self, root: Json) -> Iterator[EmbeddedJob]:
        """Yield the JobSpecs that an object of this kind holds."""
        for path in self.job_specs:
            spec = at(root, path)
            if spec is not None:
                yield EmbeddedJob(path, spec, at(root, (*path[:-1], "metadata")) or {})


@dataclass(frozen=True, slots=True)
class OwnerReference:
    """The controller of an object, as its ownerReferences name it."""

    group: str
    kind: str
    name: str
    uid: str


def controller_of(root: Json) -> OwnerReference | None:
    """Return the one owner that is marked as controller."""
    for reference in (root.get("metadata") or {}).get("ownerReferences") or ():
        if reference.get("controller"):
            group, slash, _ = (reference.get("apiVersion") or "").partition("/")
            return OwnerReference(
                group if slash else "",
                reference.get("kind") or "",
                reference.get("name") or "",
                reference.get("uid") or "",
            )
    return None
