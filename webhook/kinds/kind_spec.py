"""What a row of the workload table says, and how a row is read against an object."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from webhook.objects.patch import Pattern, at, find
from webhook.objects.problem import Json, Path, Problem
from webhook.objects.shape import Shape

NUMBER: Final = re.compile(r"[+-]?[0-9]{1,30}")


class Traits(msgspec.Struct, frozen=True):
    """What an object says of all its Jobs together.

    `coupled`: their pods depend on each other, so that one's loss makes its peers fail. `depends_elsewhere`: their pods
    depend on pods of which the ledger counts nothing. `suspendable`: others may suspend them; `scalable`: others may
    scale them. `restarts_in_place`: their containers are restarted by design, and their backoffLimit is unlimited by
    the API's own demand. `restart_policy`: what one that is left out becomes, None where that is refused;
    `completion_mode` likewise.
    """

    coupled: bool = False
    depends_elsewhere: bool = False
    suspendable: bool = False
    scalable: bool = True
    restarts_in_place: bool = False
    restart_policy: str | None = None
    completion_mode: str = "NonIndexed"


class EmbeddedJob(msgspec.Struct, frozen=True):
    """One JobSpec of an object, with the metadata of the Job that it is or will be."""

    path: Path
    spec: Json
    metadata: Json
    traits: Traits = Traits()

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
class Field:
    """Where a field stands: `within` is the pattern of the objects that may have it, `name` its path in them.

    An object that is left out has no such field, and none is made; what is left out between the two is made with it.
    `inherits`: another field of the whole, whose value holds where this one is left out.
    """

    within: Pattern
    name: Path
    inherits: Path = ()

    @property
    def written(self) -> Pattern:
        """What is written with it: the field, or with it what holds it."""
        return (*self.within, self.name[0])

    def is_inherited(self, root: Json) -> bool:
        """Tell whether there is a value to inherit."""
        return bool(self.inherits) and at(root, self.inherits) is not None

    def find(self, root: Json) -> Iterator[tuple[Path, Json]]:
        """Yield the path of the field in each such object, and the object."""
        for path, found in find(root, self.within):
            yield (*path, *self.name), found


class Budget(msgspec.Struct, frozen=True):
    """How many retries one field of an object allows; `retries` None is without bound.

    `replaceable`: nobody named a number, and the profile's default may take its place, if it is less. `single`: the
    field's value for a single attempt. `text`: whether the number is written as a string. `expression`: what stands
    there in place of a number. `beside`: another field, and the value that it needs for this one to count. `may_raise`:
    whether the object bears more retries than it says.
    """

    path: Path
    retries: int | None
    replaceable: bool = False
    single: int = 0
    text: bool = False
    expression: str | None = None
    beside: tuple[Path, str | int] | None = None
    may_raise: bool = True


def always(_found: Json) -> bool:
    """Say yes, whatever the object."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryField(Field):
    """A field that bounds retries.

    `absent`: the retries where it is left out, None for no bound; `parent_absent`: where what holds it is; `absent_in`:
    an apiVersion in which both are another number. `made`: whether max-retries puts it there then. `single`: its value
    for a single attempt, 1 where the field counts runs and not retries; `text`: written as a string, of which one that
    is no number counts as left out; `negative_is_unlimited`. `counts_with`: a field beside it, and the value there with
    which this one counts; `unlimited_with`: the value there that means no bound. `may_raise`: whether an object bears
    more retries than it says.
    """

    absent: int | None = 0
    parent_absent: int | None = 0
    absent_in: tuple[str, int] | None = None
    made: bool = True
    single: int = 0
    text: bool = False
    negative_is_unlimited: bool = False
    counts_with: tuple[str, str] | None = None
    unlimited_with: str | None = None
    may_raise: Callable[[Json], bool] = always

    def budgets(self, root: Json) -> Iterator[Budget]:
        """Yield what the field says in each object that has it, or may have it."""
        for path, found in self.find(root):
            budget = self.budget(root, path, found)
            if budget is not None:
                yield budget

    def budget(self, root: Json, path: Path, found: Json) -> Budget | None:
        """Read the field in one object; None where it is left out, and nobody may ask for it."""
        parent = at(found, self.name[:-1])
        value = None if parent is None else parent.get(self.name[-1])
        beside = None if self.counts_with is None else ((*path[:-1], self.counts_with[0]), self.counts_with[1])
        said = partial(Budget, path, single=self.single, text=self.text, beside=beside, may_raise=self.may_raise(found))
        if self.unlimited_with is not None and beside is not None and at(root, beside[0]) == self.unlimited_with:
            return said(None)
        if value is None or (self.text and not NUMBER.fullmatch(value)):
            retries = self.where_absent(root, parent)
            if self.is_inherited(root) or (retries is not None and not self.made):
                return None
            return said(retries, replaceable=retries is None)
        if isinstance(value, str) and not NUMBER.fullmatch(value):
            return said(0, expression=value)
        number = int(value)
        return said(None if self.negative_is_unlimited and number < 0 else max(0, number - self.single))

    def where_absent(self, root: Json, parent: Json | None) -> int | None:
        """Return the retries where the field is left out."""
        if self.absent_in is not None and root.get("apiVersion") == self.absent_in[0]:
            return self.absent_in[1]
        return self.parent_absent if parent is None else self.absent


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutField(Field):
    """A field that bounds one attempt in time.

    `duration`: written as a duration ("90s"), else as whole seconds. `only_with`: an object has it only with one of
    these keys; empty where each has it. `never_with`: a key that, if true, says that the object runs until others have
    ended. `together_with`: what makes it bound several attempts together, for the documentation.
    """

    duration: bool = False
    only_with: frozenset[str] = frozenset()
    never_with: str = ""
    together_with: str = ""

    def unset(self, root: Json) -> Iterator[Path]:
        """Yield the path of the field wherever its author left it out."""
        if not self.is_inherited(root):
            for path, found in self.find(root):
                if at(found, self.name) is None and self.concerns(found):
                    yield path

    def concerns(self, found: Json) -> bool:
        """Return True if an object has attempts that the field bounds."""
        if self.never_with and found.get(self.never_with):
            return False
        return not self.only_with or bool(self.only_with & found.keys())


ALONE: Final = Traits()


def no_traits(_root: Json) -> Traits:
    """Return what holds for Jobs that stand alone."""
    return ALONE


def bounded(_root: Json) -> Iterator[Problem]:
    """Yield nothing: every attempt is bounded by a field."""
    return iter(())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KindSpec:
    """A kind of the API that the rules know: what is said of it, and the patterns of what the rules read and write."""

    group: str
    versions: tuple[str, ...]  # that the webhook is called with; others the API server converts
    kind: str
    resource: str
    shape: Shape  # the types of all fields that rules read
    namespaced: bool = True
    admitted: bool = True  # whether the webhook is called for it
    immutable: bool = False  # whether what the rules write stays as it was admitted: no update is edited any more
    labelled: bool = False  # whether it gets the label `profile`
    runs_again: bool = False  # whether a person may have it run again

    owns_pods: bool = False  # whether it is the controller of pods
    counts: bool = False  # whether it counts attempts of what it controls, and that controls pods
    counted_under: str = ""  # the kind under which alone its pods are batch; empty where they always are

    job_specs: tuple[Pattern, ...] = ()
    traits: Callable[[Json], Traits] = no_traits  # what an object says of its Jobs
    failure_policy: bool = True  # whether its Jobs get theirs here, and not where they are made
    retry_fields: tuple[RetryField, ...] = ()  # outside JobSpecs
    timeout_fields: tuple[TimeoutField, ...] = ()  # of one attempt, outside pod templates
    pod_templates: tuple[Pattern, ...] = ()  # outside JobSpecs
    pod_annotations: tuple[Field, ...] = ()  # that its pods get, outside pod templates
    made_annotations: tuple[Field, ...] = ()  # that the workloads get which are made of it
    judged_annotations: tuple[Field, ...] = ()  # that some of its pods get: their author's alone
    embedded: tuple[Pattern, ...] = ()  # whole objects that are created of it, each admitted by itself then
    unbounded: Callable[[Json], Iterator[Problem]] = bounded  # names attempts that no field bounds

    def jobs(self, root: Json) -> Iterator[EmbeddedJob]:
        """Yield the JobSpecs that an object of this kind holds."""
        if not self.job_specs:
            return
        traits = self.traits(root)
        for pattern in self.job_specs:
            for path, spec in find(root, pattern):
                yield EmbeddedJob(path, spec, at(root, (*path[:-1], "metadata")) or {}, traits)

    def budgets(self, root: Json) -> Iterator[Budget]:
        """Yield what the retry fields outside JobSpecs say."""
        for field in self.retry_fields:
            yield from field.budgets(root)

    def templates(self, root: Json) -> Iterator[tuple[Path, Json]]:
        """Yield the pod templates outside JobSpecs."""
        for pattern in self.pod_templates:
            yield from find(root, pattern)


class OwnerReference(msgspec.Struct, frozen=True):
    """The controller of an object, as its ownerReferences name it.

    Where only labels name it `uid` is empty, and `submission` what they say in its place.
    """

    group: str
    version: str
    kind: str
    name: str
    uid: str
    submission: str = ""

    def is_to(self, root: Json) -> bool:
        """Return True if this names an object by what only those know who may read it, or what it made.

        Anybody can name an object. Its uid is 122 random bits, as is the id of an application's submission.
        """
        if self.submission:
            return bool(at(root, ("status", "submissionID")) == self.submission)
        return bool(self.uid and at(root, ("metadata", "uid")) == self.uid)


def owner_references(root: Json) -> Iterator[OwnerReference]:
    """Yield the owners of an object, be they its controller or not."""
    for reference in (root.get("metadata") or {}).get("ownerReferences") or ():
        yield owner_reference(reference)


def controller_of(root: Json) -> OwnerReference | None:
    """Return the one owner that is marked as controller."""
    references: Any = (root.get("metadata") or {}).get("ownerReferences")
    for reference in references or ():
        if reference.get("controller"):
            return owner_reference(reference)
    return None


def owner_reference(reference: Json) -> OwnerReference:
    """Read one of an object's ownerReferences."""
    group, _, version = (reference.get("apiVersion") or "").rpartition("/")
    name, uid = reference.get("name") or "", reference.get("uid") or ""
    return OwnerReference(group, version, reference.get("kind") or "", name, uid)
