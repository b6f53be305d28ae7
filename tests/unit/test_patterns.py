"""Only this project's own patterns are run by `re`, because a user's pattern can take exponential time."""

import ast
from pathlib import Path

import webhook
from tools.generate.sources import tree_of

FOLDERS = (Path(webhook.__file__).parent, Path(webhook.__file__).parents[1] / "certs")
POLICY = "kind.pattern"  # in the policy's model


def patterns_in(file: Path) -> list[str]:
    """Return the first argument of each call of a function of `re`, as source text."""
    calls = [node for node in ast.walk(tree_of(file)) if isinstance(node, ast.Call)]
    of_re = [call for call in calls if ast.unparse(call.func).startswith("re.") and call.args]
    return [ast.unparse(call.args[0]) for call in of_re if not isinstance(call.args[0], ast.Constant)]


def test_no_users_pattern_is_run_by_re() -> None:
    found = [pattern for folder in FOLDERS for file in folder.rglob("*.py") for pattern in patterns_in(file)]
    assert found == [POLICY]
