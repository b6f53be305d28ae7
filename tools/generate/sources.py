"""The modules of the program as syntax trees, and what the names in them stand for."""

import ast
import importlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("webhook", "certs")
Definition = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, eq=False)
class Module:
    """One file: `names` maps what it imports and defines to full names."""

    name: str
    file: str
    tree: ast.Module
    names: dict[str, str] = field(default_factory=dict)

    @cached_property
    def values(self) -> dict[str, Any]:
        """The module's own globals."""
        return vars(importlib.import_module(self.name))


@dataclass(frozen=True, eq=False)
class Function:
    """A function or method, or the code of a module or class outside of them; `owner`: its class, if it has one."""

    module: Module
    owner: str
    name: str
    node: Definition | None
    body: list[ast.stmt]

    @property
    def key(self) -> str:
        """The full name; of a constructor that of its class."""
        own = () if self.name == "__init__" else (self.name,)
        return ".".join(part for part in (self.module.name, self.owner, *own) if part)

    @cached_property
    def parameters(self) -> list[str]:
        """The names of the parameters, without self."""
        if self.node is None:
            return []
        found = self.node.args
        names = [one.arg for one in (*found.posonlyargs, *found.args, *found.kwonlyargs)]
        return [name for name in names if name not in {"self", "cls"}]

    @cached_property
    def bound(self) -> set[str]:
        """The names that it gives values: they stand for nothing else in it."""
        if self.node is None:
            return set()
        return {name for one in ast.walk(self.node) if (name := bound_by(one))}


def bound_by(node: ast.AST) -> str:
    """Return the name that a node gives a value; empty for any other node."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
            return name
    return ""


class Program:
    """Modules that call each other."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self.modules = {module.name: module for module in modules}
        self.functions = {one.key: one for module in self.modules.values() for one in functions_of(module)}
        self.classes = {
            f"{module.name}.{node.name}": (module, node)
            for module in self.modules.values()
            for node in module.tree.body
            if isinstance(node, ast.ClassDef)
        }

    def target(self, function: Function, called: ast.expr) -> str:
        """Return the full name of what is called; of a variable's method the name as it stands there."""
        module = function.module
        if isinstance(called, ast.Name):
            name = module.names.get(called.id, called.id)
        elif isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            base = called.value.id
            if base in {"self", "cls"} and function.owner:
                return self.method(f"{module.name}.{function.owner}", called.attr)
            name = f"{module.names.get(base, base)}.{called.attr}"
        else:
            return ast.unparse(called)
        return self.defined(name)

    def defined(self, name: str) -> str:
        """Follow a name that a package passes on from one of its modules."""
        package, _, last = name.rpartition(".")
        while package in self.modules and last in self.modules[package].names:
            followed = self.modules[package].names[last]
            if followed == name:
                break
            name = followed
            package, _, last = name.rpartition(".")
        return name

    def method(self, owner: str, name: str) -> str:
        """Return the full name of a method of a class, or of one that it is derived from."""
        for one in self.lineage(owner):
            if f"{one}.{name}" in self.functions:
                return f"{one}.{name}"
        return f"{owner}.{name}"

    def lineage(self, owner: str) -> Iterator[str]:
        """Yield a class and those that it is derived from."""
        yield owner
        if owner in self.classes:
            module, node = self.classes[owner]
            for base in node.bases:
                if isinstance(base, ast.Name):
                    yield from self.lineage(self.defined(module.names.get(base.id, base.id)))

    def fields(self, owner: str) -> list[str]:
        """Return what the constructor of a class of ours takes, in its order; nothing of any other."""
        for one in self.lineage(owner):
            if one in self.functions:
                return self.functions[one].parameters
            if one in self.classes:
                body = self.classes[one][1].body
                found = [
                    node.target.id
                    for node in body
                    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
                ]
                if found:
                    return found
        return []


@cache
def program() -> Program:
    """Read all modules of the program."""
    files = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    return Program(map(read, files))


@cache
def tree_of(file: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(file.read_text(encoding="utf-8"), file)


def read(file: Path) -> Module:
    """Read a file."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return module_of(name, str(file.relative_to(ROOT)), tree_of(file))


def module_of(name: str, file: str, tree: ast.Module) -> Module:
    """Return the module with this syntax tree."""
    module = Module(name, file, tree)
    nodes: list[ast.AST] = [module.tree]
    for node in nodes:  # an expression contains no statement
        nodes += [one for one in ast.iter_child_nodes(node) if not isinstance(one, ast.expr)]
        if isinstance(node, ast.ImportFrom):
            module.names.update({one.asname or one.name: f"{node.module}.{one.name}" for one in node.names})
        elif isinstance(node, ast.Import):
            module.names.update({one.asname or one.name: one.name for one in node.names})
    for statement in module.tree.body:
        if isinstance(statement, ast.ClassDef | Definition):
            module.names[statement.name] = f"{name}.{statement.name}"
    return module


def functions_of(module: Module) -> Iterator[Function]:
    """Yield the functions of a module, those in its classes, and what stands outside of them."""
    yield Function(module, "", "", None, [one for one in module.tree.body if not is_definition(one)])
    for statement in module.tree.body:
        if isinstance(statement, Definition):
            yield Function(module, "", statement.name, statement, statement.body)
        elif isinstance(statement, ast.ClassDef):
            for inner in statement.body:
                if isinstance(inner, Definition):
                    yield Function(module, statement.name, inner.name, inner, inner.body)


def is_definition(statement: ast.stmt) -> bool:
    """Return True if a statement defines a function or a class."""
    return isinstance(statement, ast.ClassDef | Definition)
