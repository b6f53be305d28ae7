"""Reads which texts an expression may have, without running the program: an f-string becomes a template.

What is known only when the program runs is a placeholder, named by the expression that stands there.
"""

import ast
import re
from collections.abc import Iterable
from functools import cache
from itertools import islice, product
from typing import Any, Final

from tools.generate.sources import Definition, Function, Program

Texts = tuple[str, ...]  # the alternatives; empty where an expression is not understood
Known = dict[str, Texts]  # of each local variable
MOST: Final = 24  # alternatives of one expression
DEEPEST: Final = 3  # functions in functions
# Return their text, but for its colour, and for what a terminal must not be sent.
PRINTABLE: Final = frozenset(("webhook.cli.console.printable", "webhook.cli.findings.coloured"))
HELD: Final = "\0"  # stands before and after a placeholder
GIVEN: Final = "\1"  # stands before and after a parameter whose text the caller gives
CARRIED: Final = frozenset({"what", "remedy", "why", "message", "reason", "trouble"})
SHOWN: Final = re.compile(f"[{HELD}{GIVEN}]([^{HELD}{GIVEN}]*)[{HELD}{GIVEN}]")


def shown(text: str) -> str:
    """Return a template as people read it."""
    return SHOWN.sub(lambda found: found[1].upper(), text)


def is_placeholder(text: str) -> bool:
    """Return True if nothing of a template is known but placeholders."""
    return not SHOWN.sub("", text).strip(" :;,.'\"()")


class Reading:
    """Walks through a function in its order, and yields its calls, each with the texts that variables have there."""

    def __init__(self, program: Program, function: Function, given: Known | None = None, depth: int = 0) -> None:
        self.program = program
        self.function = function
        self.depth = depth
        self.given = given
        self.calls: list[tuple[ast.Call, Known]] = []
        self.returned: list[ast.expr] = []
        self.returns: list[Texts] = []
        known = {name: (f"{HELD}{name}{HELD}",) for name in function.parameters}
        known |= {name: (f"{GIVEN}{name}{GIVEN}",) for name in CARRIED.intersection(function.parameters)}
        self.walk(function.body, {**known, **(given or {})})

    def walk(self, statements: Iterable[ast.stmt], known: Known) -> Known | None:
        """Go through statements; return what variables have after them, None where they do not end."""
        for statement in statements:
            after = self.step(statement, known)
            if after is None:
                return None
            known = after
        return known

    def step(self, statement: ast.stmt, known: Known) -> Known | None:  # noqa: C901 - a statement of each kind
        """Go through one statement."""
        match statement:
            case ast.If():
                self.visit(statement.test, known)
                return merged(self.walk(statement.body, {**known}), self.walk(statement.orelse, {**known}))
            case ast.For() | ast.AsyncFor():
                self.visit(statement.iter, known)
                body = self.walk(statement.body, {**known})
                return merged(known, body, self.walk(statement.orelse, {**known}))
            case ast.While():
                self.visit(statement.test, known)
                return merged(known, self.walk(statement.body, {**known}))
            case ast.With() | ast.AsyncWith():
                for item in statement.items:
                    self.visit(item.context_expr, known)
                return self.walk(statement.body, known)
            case ast.Try():
                body = self.walk([*statement.body, *statement.orelse], {**known})
                ends = [self.walk(handler.body, {**known, **(body or {})}) for handler in statement.handlers]
                after = merged(body, *ends)
                return self.walk(statement.finalbody, after) if after is not None else after
            case ast.Match():
                self.visit(statement.subject, known)
                return merged(known, *(self.walk(case.body, {**known}) for case in statement.cases))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.walk(statement.body, {**known})
                return known
            case ast.Return() | ast.Raise():
                self.leave(statement, known)
                return None
            case ast.Continue() | ast.Break():
                return None
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.expr):
                self.visit(child, known)
        return self.assigned(statement, known)

    def leave(self, statement: ast.Return | ast.Raise, known: Known) -> None:
        """Go through a statement that ends the function."""
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.expr):
                self.visit(child, known)
        value = statement.value if isinstance(statement, ast.Return) else None
        if value is not None and not (isinstance(value, ast.Constant) and value.value is None):
            self.returns.append(self.texts(value, known))

    def assigned(self, statement: ast.stmt, known: Known) -> Known:
        """Return what variables have after an assignment."""
        known = {**known}
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                known[name] = self.texts(value, known)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(targets) == len(
                values
            ):
                found = [self.texts(value, known) for value in values]
                known.update(
                    {one.id: text for one, text in zip(targets, found, strict=True) if isinstance(one, ast.Name)}
                )
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                known[name] = self.texts(value, known)
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
                known[name] = joined([known.get(name, ()), self.texts(value, known)])
        return known

    def visit(self, node: ast.expr, known: Known) -> None:
        """Note the calls in an expression."""
        self.calls += [(one, known) for one in calls_in(node)]

    def texts(self, node: ast.expr, known: Known) -> Texts:
        """Return the texts that an expression may have."""
        match node:
            case ast.Constant(value=str(text)):
                return (text,)
            case ast.JoinedStr(values=parts):
                return joined([self.part(one, known) for one in parts])
            case ast.Name(id=name) if name in known or name in self.function.bound:
                return known.get(name, ())
            case ast.IfExp(body=one, orelse=other):
                return self.several([one, other], known)
            case ast.BoolOp(values=values):
                return self.several(values, known)
            case ast.List(elts=values):
                return self.several(values, known)
            case ast.BinOp(left=one, op=ast.Add(), right=other):
                found = self.texts(one, known), self.texts(other, known)
                if all(is_placeholder(text) for side in found for text in side):
                    return ()  # perhaps numbers
                return joined([self.or_placeholder(one, known), self.or_placeholder(other, known)])
            case ast.Call() if not self.is_constant(node):
                return self.of_call(node, known)
        value = self.value(node)
        return (value,) if isinstance(value, str) else ()

    def several(self, nodes: list[ast.expr], known: Known) -> Texts:
        """Return the texts of several expressions, one of which counts; none where none of them is understood."""
        nodes = [one for one in nodes if not (isinstance(one, ast.Constant) and one.value is None)]
        return united([(name_of(one), self.texts(one, known)) for one in nodes])

    def or_placeholder(self, node: ast.expr, known: Known) -> Texts:
        """Return the texts of an expression, or its name where it is not understood."""
        return self.texts(node, known) or (placeholder(name_of(node)),)

    def part(self, node: ast.expr, known: Known) -> Texts:
        """Return the texts of a part of an f-string: what is not understood is a placeholder."""
        if not isinstance(node, ast.FormattedValue):
            return self.texts(node, known)
        value = self.value(node.value)
        if isinstance(value, str | int | float):
            spec = "" if node.format_spec is None else ast.literal_eval(ast.unparse(node.format_spec).lstrip("f"))
            return (format(repr(value) if node.conversion == ord("r") else value, spec),)
        found = self.or_placeholder(node.value, known)
        return tuple(f"'{one}'" for one in found) if node.conversion == ord("r") else found

    def of_call(self, call: ast.Call, known: Known) -> Texts:
        """Return the texts that a function of ours may return; none where it does anything else than choose them."""
        target = self.program.target(self.function, call.func)
        if target in PRINTABLE:
            return self.or_placeholder(call.args[0], known)
        function = self.program.functions.get(target)
        if function is None or function.node is None or self.depth >= DEEPEST or builds_in_a_loop(function.node):
            return ()
        pairs = [*zip(function.parameters, call.args, strict=False), *((one.arg, one.value) for one in call.keywords)]
        given = {name: self.or_placeholder(value, known) for name, value in pairs if name is not None}
        found = returns_of(self.program, function, tuple(given.items()), self.depth + 1)
        texts = tuple(dict.fromkeys(text for one in found for text in one if text))[:MOST] if all(found) else ()
        return () if any(map(is_placeholder, texts)) else texts  # it only spells a value

    def is_constant(self, node: ast.expr) -> bool:
        """Return True if all names in an expression are those of a module, and it calls nothing but `join`."""
        return not isinstance(node, ast.Starred) and all(map(self.may_be_constant, ast.walk(node)))

    def may_be_constant(self, node: ast.AST) -> bool:
        """Return False if a node is a variable's name, or a call of anything but `join`."""
        match node:
            case ast.Name(id=name):
                return name in self.function.module.values and name not in self.function.bound
            case ast.Call(func=called):
                return isinstance(called, ast.Attribute) and called.attr == "join"
        return True

    def value(self, node: ast.expr) -> Any:
        """Return the value of a constant expression; None of any other."""
        if not self.is_constant(node):
            return None
        try:
            return eval(ast.unparse(node), self.function.module.values)  # noqa: S307 - our own source
        except (AttributeError, TypeError, LookupError):
            return None


@cache
def returns_of(program: Program, function: Function, given: tuple[tuple[str, Texts], ...], depth: int) -> list[Texts]:
    """Return the texts that a function may return if its caller gives these."""
    return Reading(program, function, dict(given), depth).returns


def placeholder(name: str) -> str:
    """Return the placeholder of a name."""
    return f"{HELD}{name}{HELD}"


# A function is read anew for other texts that it is given: what its nodes contain is kept.
@cache
def calls_in(node: ast.expr) -> tuple[ast.Call, ...]:
    """Return the calls in an expression."""
    return tuple(one for one in ast.walk(node) if isinstance(one, ast.Call))


@cache
def builds_in_a_loop(node: Definition) -> bool:
    """Return True if a function appends to a text in a loop: nothing is known of its length."""
    loops = [one for one in ast.walk(node) if isinstance(one, ast.For | ast.While)]
    return any(isinstance(inner, ast.AugAssign) for one in loops for inner in ast.walk(one))


def merged(*ends: Known | None) -> Known | None:
    """Return what variables may have where several ways meet; None where none of them leads on."""
    ways = [one for one in ends if one is not None]
    if not ways:
        return None
    names = {name for way in ways for name in way}
    return {name: united([(name, way[name]) for way in ways if name in way]) for name in names}


def united(found: Iterable[tuple[str, Texts]]) -> Texts:
    """Return named alternatives as one, the names of those that are not understood; none where none of them is."""
    found = list(found)
    if not any(texts for _, texts in found):
        return ()
    return tuple(dict.fromkeys(text for name, texts in found for text in texts or (placeholder(name),)))[:MOST]


def joined(parts: Iterable[Texts]) -> Texts:
    """Return all ways to put a text of each part after the other."""
    return tuple("".join(one) for one in islice(product(*parts), MOST))


def name_of(node: ast.expr) -> str:
    """Name what an expression stands for."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call():
            return name_of_call(node)
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return name.rpartition("/")[2]
        case ast.BinOp(left=ast.Constant(), right=inner) | ast.BinOp(left=inner):
            return name_of(inner)
        case ast.GeneratorExp(generators=[first, *_]) | ast.ListComp(generators=[first, *_]):
            return name_of(first.iter)
        case ast.Await(value=inner) | ast.Subscript(value=inner) | ast.Starred(value=inner):
            return name_of(inner)
        case ast.BoolOp(values=[first, *_]):
            return name_of(first)
    return "value"


def name_of_call(call: ast.Call) -> str:
    """Name what a call returns."""
    match call:
        case ast.Call(func=ast.Name(id="len")):
            return "number"
        case ast.Call(func=ast.Name(id="str"), args=[ast.Call()]):
            return "problem"
        case ast.Call(func=ast.Name(id="map"), args=[_, inner]) | ast.Call(args=[inner, *_]):
            return name_of(inner)
    return name_of(call.func)
