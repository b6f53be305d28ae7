"""KindSpec, the description of a workload kind: where its JobSpecs, retry fields and annotations are in an object."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from webhook.kube.paths import path_of
from webhook.objects import bounds
from webhook.objects.patch import EVERY, Nested, Pattern, at, find
from webhook.objects.problem import Json, Path, Problem
from webhook.objects.shape import ANY_KEY, Shape

NUMBER: Final = re.compile(r"[+-]?[0-9]{1,30}")
LEAST: Final = -(2**31)  # controllers cut a number to 32 bits: one that is less becomes positive


def is_expression(value: Any) -> bool:
    """Return True if the value of a retry field is text that is not a number: a template expression."""
    return isinstance(value, str) and not NUMBER.fullmatch(value)


class Traits(msgspec.Struct, frozen=True):
    """Properties that all Jobs of an object have in common.

    `coupled`: their pods depend on each other: when one is lost, the others fail. `depends_elsewhere`: their pods
    depend on pods that the ledger does not count. `suspendable`: other controllers may suspend them; `scalable`: other
    controllers may scale them. `restarts_in_place`: their containers restart by design, and the API requires that
    their backoffLimit is unlimited. `restart_policy`: the default of restartPolicy, None if it is required.
    `completion_mode`: the default of completionMode.
    """

    coupled: bool = False
    depends_elsewhere: bool = False
    suspendable: bool = False
    scalable: bool = True
    restarts_in_place: bool = False
    restart_policy: str | None = None
    completion_mode: str = "NonIndexed"


class EmbeddedJob(msgspec.Struct, frozen=True):
    """A JobSpec in an object, with the metadata of its Job, or of the Job template."""

    path: Path
    spec: Json
    metadata: Json
    traits: Traits = Traits()

    @property
    def metadata_path(self) -> Path:
        """The path of the metadata, which is in the same object as the spec."""
        return (*self.path[:-1], "metadata")

    @property
    def template(self) -> Json:
        """The pod template; empty if it is left out, which the API server rejects later."""
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
    """The place of a field: `within` is the pattern of the objects that may have it, `name` its path in such an object.

    A rule sets the field only in objects that exist, and creates absent parents between the two. `inherits`: the path
    of another field in the root object, whose value applies if this field is left out.
    """

    within: Pattern
    name: Path
    inherits: Path = ()

    @property
    def written(self) -> Pattern:
        """The pattern of the values that setting the field may change: the field, or the first key of its path."""
        return (*self.within, self.name[0])

    def is_inherited(self, root: Json) -> bool:
        """Return True if the field that this one inherits from has a value."""
        return bool(self.inherits) and at(root, self.inherits) is not None

    def find(self, root: Json) -> Iterator[tuple[Path, Json]]:
        """Yield each object that matches `within`, with the path of the field in it."""
        for path, found in find(root, self.within):
            yield (*path, *self.name), found


class Budget(msgspec.Struct, frozen=True):
    """The retries that the field at `path` allows; `retries` is None if they are unlimited.

    `replaceable`: the author set no number, so that the profile's default may replace it, if that is less. `single`:
    the value of the field that means a single attempt. `text`: whether the number is a string. `expression`: the
    template expression that the field has instead of a number; `retries` is then what bounds it, or 0. `is_bounded`:
    whether another field bounds a template expression; None where none can, or the field has a number.
    `required_sibling`: another field, and the value that it must have for this field to apply. `may_raise`: whether the
    field may be set to more retries. `disruptions`: the runs beyond `retries` that the field allows only after
    disruptions.
    """

    path: Path
    retries: int | None
    replaceable: bool = False
    single: int = 0
    text: bool = False
    expression: str | None = None
    is_bounded: bool | None = None
    required_sibling: tuple[Path, str | int] | None = None
    may_raise: bool = True
    disruptions: int = 0


def no_sum(_parent: Json) -> int | None:
    """Return None: a field counts retries alone."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryField(Field):
    """A field that limits retries.

    `absent`: the retries if the field is left out, None for unlimited; `parent_absent`: the retries if its parent is
    left out; `absent_in`: an apiVersion, and the number that replaces both there. `may_be_added`: whether the
    annotation max-retries adds a field that is left out. `single`: the value that means a single attempt: 1 if the
    field counts runs, 0 if it counts retries. `text`: whether the value is a string; one that is not a number counts as
    left out. `negative_is_unlimited`: whether a negative number means unlimited retries. `counts_with`: a field with
    the same parent, and the value that it must have for this field to apply; `unlimited_with`: the value of that field
    that means unlimited retries. `may_raise`: whether an object may get more retries than it has. `retries_in_sum`:
    returns, for the field's parent, the retries in a number that allows disruptions too; None if it counts retries
    alone. `evaluated`: returns the number that a template expression of the object at a path becomes; None if the root
    object does not say it. `bound`: returns the retries that the field's parent allows whatever a template expression
    becomes, None if it bounds them not; no function if no parent can.
    """

    absent: int | None = 0
    parent_absent: int | None = 0
    absent_in: tuple[str, int] | None = None
    may_be_added: bool = True
    single: int = 0
    text: bool = False
    negative_is_unlimited: bool = False
    counts_with: tuple[str, str] | None = None
    unlimited_with: str | None = None
    may_raise: Callable[[Json], bool] = lambda _: True
    retries_in_sum: Callable[[Json], int | None] = no_sum
    evaluated: Callable[[Json, Path, str], int | None] = lambda _root, _holder, _expression: None
    bound: Callable[[Json], int | None] | None = None

    def budgets(self, root: Json) -> Iterator[Budget]:
        """Yield the budget of each object that has the field, or may have it."""
        for path, found in self.find(root):
            budget = self.budget(root, path, found)
            if budget is not None:
                yield budget

    def budget(self, root: Json, path: Path, found: Json) -> Budget | None:
        """Return the budget of the field at `path` in the object `found`; None if it is left out and not addable."""
        parent = at(found, self.name[:-1])
        value = None if parent is None else parent.get(self.name[-1])
        sibling = None if self.counts_with is None else ((*path[:-1], self.counts_with[0]), self.counts_with[1])
        budget_with = partial(
            Budget,
            path,
            single=self.single,
            text=self.text,
            required_sibling=sibling,
            may_raise=self.may_raise(found),
        )
        if self.unlimited_with is not None and sibling is not None and at(root, sibling[0]) == self.unlimited_with:
            return budget_with(None)
        if value is None or (self.text and not NUMBER.fullmatch(value)):
            retries = self.where_absent(root, parent)
            if self.is_inherited(root):
                return self.inherited(root, path, parent)
            if retries is not None and not self.may_be_added:
                return None
            return budget_with(retries, replaceable=retries is None)
        if is_expression(value):
            return self.of_expression(root, budget_with(0, expression=value), parent or {})
        number = int(value)
        if number < LEAST:
            return budget_with(None)
        retries = self.retries_in_sum(parent or {})
        if retries is not None and retries < number:
            return budget_with(retries, disruptions=number - retries)
        return budget_with(None if self.negative_is_unlimited and number < 0 else max(0, number - self.single))

    def of_expression(self, root: Json, budget: Budget, parent: Json) -> Budget:
        """Return the budget of a template expression: its number if the root object says it, else what bounds it."""
        bound = None if self.bound is None else self.bound(parent)
        is_bounded = None if self.bound is None else bound is not None
        known = self.evaluated(root, budget.path[: -len(self.name)], budget.expression or "")
        if known is None:
            return replace(budget, retries=bound or 0, is_bounded=is_bounded)
        retries = None if known < LEAST else max(0, known - self.single)
        return replace(budget, retries=retries, expression=None, is_bounded=is_bounded)

    def inherited(self, root: Json, path: Path, parent: Json | None) -> Budget | None:
        """Return the budget of a field whose inherited value other fields of its parent give another meaning."""
        above = at(root, self.inherits[:-1])
        if is_expression(above[self.name[-1]]):
            if self.bound is None or not parent or self.bound({**above, **parent}) == self.bound(above):
                return None
            budget = Budget(path, 0, single=self.single, expression=above[self.name[-1]])
            return self.of_expression(root, budget, {**above, **parent})
        retries = self.retries_in_sum(above)
        if not parent or retries is None:
            return None
        number = max(0, int(above[self.name[-1]]))
        own = self.retries_in_sum({**above, **parent})
        if own is not None and own <= retries:
            return None  # the field that it inherits from allows as many
        return Budget(path, number if own is None else min(own, number))

    def where_absent(self, root: Json, parent: Json | None) -> int | None:
        """Return the retries if the field is left out, None for unlimited; `parent` is None if that is left out too."""
        if self.absent_in is not None and root.get("apiVersion") == self.absent_in[0]:
            return self.absent_in[1]
        return self.parent_absent if parent is None else self.absent


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutField(Field):
    """A field that limits the time of one attempt.

    `duration`: whether the value is a duration ("90s"), and not whole seconds. `only_with`: only objects with one of
    these keys have the field; empty if all have it. `never_with`: objects in which this key is true do not have it:
    they run until others have ended. `together_with`: the field with which it limits several attempts together, for
    the documentation.
    """

    duration: bool = False
    only_with: frozenset[str] = frozenset()
    never_with: str = ""
    together_with: str = ""

    def unset(self, root: Json) -> Iterator[Path]:
        """Yield the path of the field in each object in which the author left it out."""
        if not self.is_inherited(root):
            for path, found in self.find(root):
                if at(found, self.name) is None and self.concerns(found):
                    yield path

    def concerns(self, found: Json) -> bool:
        """Return True if the field limits attempts of an object."""
        if self.never_with and found.get(self.never_with):
            return False
        return not self.only_with or bool(self.only_with & found.keys())


def type_at(shape: Any, pattern: Pattern) -> Any:
    """Return the part of a shape at a pattern; None if the shape does not have it."""
    for part in pattern:
        if isinstance(part, Nested):
            continue
        if isinstance(shape, list):
            shape = shape[0]
        elif isinstance(shape, dict):
            shape = shape.get(ANY_KEY) if part == EVERY else shape.get(part, shape.get(ANY_KEY))
        else:
            return None
    return shape


ALONE: Final = Traits()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KindSpec:
    """A workload kind: its properties, and the patterns of the fields that rules read and write in its objects."""

    group: str
    versions: tuple[str, ...]  # that the webhook receives; the API server converts others to these
    read_in: str = ""  # the version in which it is read, and in which it has an account; empty: the first of `versions`
    kind: str
    resource: str = ""  # its name in paths; if empty, `kind` in lower case with an s
    shape: Shape  # the types of all fields that rules read
    namespaced: bool = True
    admitted: bool = True  # whether the webhook is called for it
    immutable: bool = False  # whether updates are not edited: what the rules write must not change after creation
    labelled: bool = False  # whether it gets the label `profile`
    # Returns whether an update of an object may begin its retry history anew, because it has failed, or, if it replaces
    # a failed one, is not released yet; None if no person may request a retry of it.
    may_begin_anew: Callable[[Json], bool] | None = None

    owns_pods: bool = False  # whether it is the controller of pods
    counts: bool = False  # whether it controls controllers of pods, and counts their attempts
    counted_under: str = ""  # its pods are batch only if it has a controller of this kind; empty: they always are

    job_specs: tuple[Pattern, ...] = ()
    traits: Callable[[Json], Traits] = lambda _: ALONE  # returns the traits of an object's Jobs
    failure_policy: bool = True  # whether its JobSpecs get a podFailurePolicy here; else the Jobs get it when created
    retry_fields: tuple[RetryField, ...] = ()  # outside JobSpecs
    stored_retry_fields: tuple[RetryField, ...] = ()  # in the status, which the author of a new object may write
    ignores_case: bool = False  # whether its controller may take a key for one in another case
    timeout_fields: tuple[TimeoutField, ...] = ()  # of one attempt, outside pod templates
    pod_templates: tuple[Pattern, ...] = ()  # outside JobSpecs
    pod_annotations: tuple[Field, ...] = ()  # the annotations of all its pods, outside pod templates
    made_annotations: tuple[Field, ...] = ()  # the annotations of the workloads that are created from it
    judged_annotations: tuple[Field, ...] = ()  # the annotations of some of its pods: validated, not written
    embedded: tuple[Pattern, ...] = ()  # objects that are created from it, each admitted by itself then
    unbounded: Callable[[Json], Iterable[Problem]] = lambda _: ()  # yields a problem for attempts that no field limits

    def __post_init__(self) -> None:
        """Name the resource; raise ImportError if rules could read a field whose type is not checked."""
        object.__setattr__(self, "resource", self.resource or f"{self.kind.lower()}s")
        fields = (*self.retry_fields, *self.timeout_fields, *self.pod_annotations, *self.made_annotations)
        fields += self.judged_annotations
        for pattern in (*self.job_specs, *self.pod_templates, *((*one.within, *one.name) for one in fields)):
            if type_at(self.shape, pattern) is None:
                raise ImportError(f"{self}: add {pattern} to its shape")

    def __repr__(self) -> str:
        return f"{self.api_version} {self.kind}"

    @property
    def api_version(self) -> str:
        """The apiVersion of its objects."""
        return f"{self.group}/{self.versions[0]}" if self.group else self.versions[0]

    @property
    def kind_name(self) -> str:
        """Its kind; with the group if it is called Job, and is another system's."""
        return f"{self.kind}.{self.group}" if self.kind == "Job" and self.group != "batch" else self.kind

    @property
    def list_name(self) -> str:
        """Its resource with its group, as kubectl and the metrics of lists name it: `workflows.argoproj.io`."""
        return f"{self.resource}.{self.group}"

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """Return the path of an object, or of a list if `name` is None; raise ValueError if a name is not valid."""
        version = f"{self.group}/{self.read_in}" if self.read_in else self.api_version
        return path_of(version, self.resource, namespace, name)

    def path_to(self, root: Json) -> str:
        """Return the path of an object of this kind, by its metadata."""
        return self.path(root["metadata"]["namespace"], root["metadata"]["name"])

    def jobs(self, root: Json) -> Iterator[EmbeddedJob]:
        """Yield the JobSpecs in an object of this kind."""
        if not self.job_specs:
            return
        traits = self.traits(root)
        for pattern in self.job_specs:
            for path, spec in find(root, pattern):
                yield EmbeddedJob(path, spec, at(root, (*path[:-1], "metadata")) or {}, traits)

    def budgets(self, root: Json) -> Iterator[Budget]:
        """Yield the budgets of the retry fields outside JobSpecs."""
        for field in self.retry_fields:
            yield from field.budgets(root)

    def templates(self, root: Json) -> Iterator[tuple[Path, Json]]:
        """Yield the pod templates outside JobSpecs."""
        for pattern in self.pod_templates:
            yield from find(root, pattern)


class OwnerReference(msgspec.Struct, frozen=True):
    """The controller of an object, from its ownerReferences or its labels.

    From labels, `uid` is empty, and `submission` is the submission id in the labels.
    """

    group: str
    version: str
    kind: str
    name: str
    uid: str
    submission: str = ""

    def identifies(self, root: Json) -> bool:
        """Return True if this reference has the random id of the object `root`, so that its author may know the object.

        Any client can write a reference with an object's name. The uid is 122 random bits, as is the submission id:
        only users that may read the object, or objects created from it, know them.
        """
        if self.submission:
            return bool(at(root, ("status", "submissionID")) == self.submission)
        return bool(self.uid and at(root, ("metadata", "uid")) == self.uid)


def owner_references(root: Json) -> Iterator[OwnerReference]:
    """Yield all owners of an object, including those that are not its controller."""
    for reference in (root.get("metadata") or {}).get("ownerReferences") or ():
        yield _owner_reference(reference)


def controller_of(root: Json) -> OwnerReference | None:
    """Return the owner that is marked as controller; None if there is none."""
    references: Any = (root.get("metadata") or {}).get("ownerReferences")
    for reference in references or ():
        if reference.get("controller"):
            return _owner_reference(reference)
    return None


def _owner_reference(reference: Json) -> OwnerReference:
    group, _, version = (reference.get("apiVersion") or "").rpartition("/")
    name, uid = reference.get("name") or "", reference.get("uid") or ""
    return OwnerReference(group, version, reference.get("kind") or "", name, uid)


def decoded(text: str) -> Any:
    """Return the value of JSON text from another program; None if it is not JSON, or longer than annotations can be."""
    if len(text) > bounds.MAX_ANNOTATIONS:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def copied(found: Json) -> Json:
    """Return a copy of an object, which may have megabytes: seven times as fast as `deepcopy`."""
    again: Json = msgspec.json.decode(msgspec.json.encode(found))
    return again
