"""The reasons why a workload cannot run again that all kinds share, each with a remedy."""

from collections.abc import Sequence

from webhook.kube import names
from webhook.objects.problem import Json, Problem, listed
from webhook.systems.kind_spec import KindSpec, controller_of


def kind_and_name(kind: str, root: Json) -> str:
    """Return kind, namespace and name of an object, for messages."""
    return f"{kind} {root['metadata']['namespace']}/{root['metadata']['name']}"


def is_being_deleted(name: str) -> Problem:
    """Return the refusal of an object with a deletionTimestamp."""
    return Problem((), f"{name} is being deleted", "create it again once it is gone")


def is_run_by(name: str, runner: str) -> Problem:
    """Return the refusal of an object that another controller runs."""
    return Problem((), f"{name} is managed by {runner}, which decides on retries", f"use the retries of {runner}")


def has_succeeded(name: str) -> Problem:
    """Return the refusal of an object that has succeeded."""
    return Problem((), f"{name} has succeeded", "create another one to run it again")


def has_not_ended(name: str, until: str = "it has failed") -> Problem:
    """Return the refusal of an object that is running."""
    return Problem((), f"{name} has not ended", f"request the retry again once {until}")


def is_gone(name: str) -> Problem:
    """Return the refusal of an object that was deleted."""
    return Problem((), f"{name} no longer exists", "create it again")


def may_not_run_twice(name: str, target: str, root: Json, parts: Sequence[str] = ()) -> Problem:
    """Return the refusal of an object whose author did not say that it may run twice.

    `target`: the object as kubectl names it, such as job/train. `parts`: the parts that lack the annotation; empty for
    the whole object.
    """
    of = f" of {listed(parts)}" if parts else ""
    how = f"kubectl annotate -n {root['metadata']['namespace']} {target} {names.RETRYABLE}=true"
    return Problem((), f"{name} does not say{of} that it may run twice", f"if it may: {how}")


def is_queued(name: str) -> Problem:
    """Return why an object in one of Kueue's queues can be neither suspended nor resumed."""
    return Problem((), f"{name} is in a Kueue queue, which decides when it runs", "set spec.active in its Workload")


def is_of_others(name: str, root: Json, *, manager: str = "", maker: KindSpec | None = None) -> Problem | None:
    """Return the refusal of an object that is being deleted, or that another controller runs; None if neither.

    `manager`: the value of managedBy of its own controller, which is the default. `maker`: a kind whose objects create
    it, and read nothing of it afterwards.
    """
    if root["metadata"].get("deletionTimestamp"):
        return is_being_deleted(name)
    if manager and (root["spec"].get("managedBy") or manager) != manager:
        return is_run_by(name, root["spec"]["managedBy"])
    controller = controller_of(root)
    if controller is None or (maker is not None and (controller.group, controller.kind) == (maker.group, maker.kind)):
        return None
    return is_run_by(name, f"{controller.kind} {controller.name}")


def was_queued(name: str) -> Problem:
    """Return the refusal of an object in one of Kueue's queues that has ended."""
    what = f"{name} is in a Kueue queue, which has finished with it and would not count a rerun"
    return Problem((), what, "create it again")
