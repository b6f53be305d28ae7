"""Every module has a unit test, and no imports are circular."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

from tools.generate.sources import tree_of

ROOT: Final = Path(__file__).parents[2]
TESTS: Final = ROOT / "tests" / "unit"


def name_of(file: Path) -> str:
    """Return the name by which a module is imported."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def has_code(file: Path) -> bool:
    """Return True if a module has code besides its docstring, and the PARTS of a system."""
    body = [node for node in tree_of(file).body if not is_parts(node)]
    return len(body) > 1 or (len(body) == 1 and not isinstance(body[0], ast.Expr))


def is_parts(node: ast.stmt) -> bool:
    match node:
        case ast.Assign(targets=[ast.Name(id="PARTS")]):
            return True
    return False


FILES: Final = {name_of(file): file for package in ("webhook", "certs") for file in (ROOT / package).rglob("*.py")}


def is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def statements_of(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements and those in them, but for what is for type checkers alone; expressions have no imports."""
    for node in body:
        if not is_for_types(node):
            yield node
            for name in ("body", "orelse", "finalbody", "handlers", "cases"):
                yield from statements_of(getattr(node, name, []))


def imported_by(file: Path, tree: ast.Module) -> Iterator[str]:
    """Yield this project's modules that a file imports: for `from a import b` the module a.b if it exists, else a.

    What is imported for type checkers alone is left out: nothing imports it when the program runs.
    """
    for node in statements_of(tree.body):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in FILES)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno} imports by a relative name"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield from (name for name in (inner if inner in FILES else node.module,) if name in FILES)


def has_a_test(name: str) -> bool:
    """Return True if there is a file of tests at the mirrored path, which may ask what uses the module."""
    *folder, module = name.removeprefix("webhook.").split(".")
    return TESTS.joinpath(*folder, f"test_{module}.py").exists()


def test_every_module_has_a_unit_test_or_is_imported_by_one() -> None:
    """The behaviour of a module that is tested only through others may be tested by none."""
    left = {name for name, file in FILES.items() if has_code(file) and not has_a_test(name)}
    tested = {name for file in TESTS.rglob("*.py") for name in imported_by(file, ast.parse(file.read_text()))}
    assert sorted(left - tested) == [], "add a test at the mirrored path in tests/unit/"


def test_no_imports_are_circular() -> None:
    """Between modules; the contracts in pyproject.toml define which packages may import which."""
    imports = {name: set(imported_by(file, tree_of(file))) - {name} for name, file in FILES.items()}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(f"in a circle: {' <- '.join(error.args[1])}")


def test_no_call_makes_the_decoder_of_a_type_of_ours_which_threads_would_do_at_the_same_time() -> None:
    """Two threads that do end the process: msgspec 0.22 reads what the other one has half written of the type."""
    found = [
        f"{name}:{call.lineno}"
        for name, file in FILES.items()
        for call in ast.walk(tree_of(file))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "msgspec.json.decode"
        for keyword in call.keywords
        if keyword.arg == "type" and ast.unparse(keyword.value)[0].isupper()
    ]
    assert found == []
