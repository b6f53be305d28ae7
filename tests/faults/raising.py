"""Lets the handlers that a bulkhead or a step guards raise, one at a time, and breaks watches: as files say.

The handlers are read from the source, so that a new one is among them: what is called within `Bulkhead.around` and
`step`, what `Bulkhead.call`, `Bulkhead.each` and `repeat` are given, and the methods of the observers of lists.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import sys
from contextlib import asynccontextmanager
from functools import wraps
from inspect import isfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import webhook
from webhook.kube.client import Api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

RAISES: Final = "raises on purpose:"  # begins a line in the log
OBSERVED: Final = ("begin_list", "listed", "end_list", "seen", "deleted", "forget_namespaces")
GIVEN_HANDLERS: Final = ("PodObserver", "WorkloadObserver", "observer", "repeat")  # functions that take handlers
GUARDS: Final = ("call", "each")  # methods of a bulkhead that take handlers
FINISHED: Final = "webhook.tracking.finished_jobs:FinishedJobs.look"  # a step that another class takes
LOOK: Final = 0.05  # seconds between two looks whether watches are broken
# Waits of minutes, which a test shortens: seconds by module and name.
SHORTER: Final = {
    "webhook.tracking.trackers": {"LOOK_EVERY": 0.5},
    "webhook.controller.store": {"LOOK_EVERY": 0.5},
    "webhook.tracking.finished_jobs": {"STAYS": 0.5},
    "webhook.tracking.cluster": {"NODES_KNOWN": 1.0, "NODES_UNKNOWN": 1.0},
}


def handlers() -> list[str]:
    """Return the handlers as MODULE:CLASS.METHOD."""
    root = Path(webhook.__file__).parent
    found = {FINISHED}
    for file in root.rglob("*.py"):
        tree = ast.parse(file.read_text())
        name = ".".join((root.name, *file.relative_to(root).with_suffix("").parts))
        for one in ast.walk(tree):
            if isinstance(one, ast.ClassDef) and not any("Protocol" in ast.unparse(base) for base in one.bases):
                methods = methods_of(name, one, [*guarded(one)])
                found |= {f"{name}:{one.name}.{method}" for method in methods}
    return sorted(found)


def methods_of(module: str, defined: ast.ClassDef, named: list[str]) -> list[str]:
    """Return those names that are methods of a class, and its methods that a list calls if it is an observer."""
    own = {one.name for one in defined.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))}
    observes = {"begin_list", "end_list"} <= own
    wanted = {*named, *(OBSERVED if observes else ())} & own
    if not wanted:
        return []
    loaded = getattr(importlib.import_module(module), defined.name)
    return [name for name in sorted(wanted) if isfunction(vars(loaded)[name])]


def guarded(defined: ast.ClassDef) -> Iterator[str]:
    """Yield the attributes of `self` that a class calls behind a guard, or gives to one."""
    given = [call for call in ast.walk(defined) if isinstance(call, ast.Call) and takes_handlers(call.func)]
    arguments = [part for call in given for argument in call.args for part in ast.walk(argument)]
    yield from (part.attr for part in arguments if is_own(part))
    local = {part.id for part in arguments if isinstance(part, ast.Name)}
    for one in ast.walk(defined):
        is_method = one in defined.body
        if not is_method and isinstance(one, ast.With | ast.AsyncFunctionDef) and is_guarded(one, local):
            called = (call.func for part in one.body for call in ast.walk(part) if isinstance(call, ast.Call))
            yield from (func.attr for func in called if is_own(func))


def is_own(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def is_guarded(block: ast.With | ast.AsyncFunctionDef, local: set[str]) -> bool:
    """Return True if a block is behind a guard; `local`: the names of functions that are given to one."""
    if isinstance(block, ast.With):
        return any(is_guard(item.context_expr) for item in block.items)
    return block.name in local


def is_guard(expression: ast.expr) -> bool:
    func = expression.func if isinstance(expression, ast.Call) else expression
    if isinstance(func, ast.Attribute):
        return func.attr == "around" and ast.unparse(func.value).endswith("bulkhead")
    return isinstance(func, ast.Name) and func.id == "step"


def takes_handlers(func: ast.expr) -> bool:
    if isinstance(func, ast.Subscript):
        func = func.value
    if isinstance(func, ast.Attribute):
        return func.attr in GIVEN_HANDLERS or (func.attr in GUARDS and ast.unparse(func.value).endswith("bulkhead"))
    return isinstance(func, ast.Name) and func.id in GIVEN_HANDLERS


def install(folder: Path) -> None:
    """Let the handler raise that the file `raising` names, and break all watches while the file `gap` exists."""
    for module, constants in SHORTER.items():
        for name, seconds in constants.items():
            setattr(importlib.import_module(module), name, seconds)
    for handler in handlers():
        module, _, place = handler.partition(":")
        owner, _, method = place.partition(".")
        found = getattr(importlib.import_module(module), owner)
        setattr(found, method, raising(handler, vars(found)[method], folder / "raising"))
    break_watches(folder / "gap")


def raising(handler: str, method: Callable[..., Any], file: Path) -> Callable[..., Any]:
    """Return a method that raises while a file names it."""

    @wraps(method)
    def called(*arguments: Any, **options: Any) -> Any:
        if file.read_text() == handler:
            sys.stderr.write(f"{RAISES} {handler}\n")
            raise RuntimeError(handler)
        return method(*arguments, **options)

    return called


def break_watches(gap: Path) -> None:
    """Break all watches while a file exists, and let none be opened."""
    stream, is_open = Api.stream, gap.exists

    async def lines_of(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        while True:
            following = asyncio.ensure_future(anext(lines, None))
            while not following.done():
                await asyncio.wait({following}, timeout=LOOK)
                if is_open():
                    following.cancel()
                    raise TimeoutError
            line = following.result()
            if line is None:
                return
            yield line

    @asynccontextmanager
    async def broken(*arguments: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        if is_open():
            raise TimeoutError
        async with stream(*arguments) as lines:
            yield lines_of(lines)

    Api.stream = broken  # type: ignore[method-assign, assignment]
