"""Each console example in the docs is run, or parsed by the command line that it calls, or named here with a reason."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import click
import pytest
from click.testing import CliRunner

from tests.console_examples import PAGES, ROOT, Example, examples, simple_commands, steps
from tests.documents import documents_of
from tests.unit.test_manifests import BASE, documents, every
from webhook.cli.main import COMMANDS, main

EXAMPLES: Final = examples()
# These read only files.
OFFLINE: Final = {"check", "export", "render", "test"} & COMMANDS.keys()
WITHOUT_ERRORS: Final = " 2>/dev/null"
# tests/cluster/test_docs.py compares their options with those of kubectl.
VERBS: Final = {
    *("annotate", "apply", "auth", "config", "cordon", "create", "delete", "describe", "diff", "drain", "edit"),
    *("events", "exec", "explain", "get", "kustomize", "label", "logs", "patch", "port-forward", "replace"),
    *("rollout", "run", "scale", "taint", "top", "uncordon", "version", "wait"),
}
# Tools that every reader knows.
TOOLS: Final = {
    *("awk", "cat", "chmod", "cp", "curl", "cut", "date", "diff", "grep", "head", "jq", "ln", "ls", "mkdir", "mv"),
    *("paste", "rm", "sed", "sh", "sort", "tail", "tar", "tee", "wc"),
}
# Programs whose calls are not checked here, and why.
NOT_CHECKED: Final = {
    **dict.fromkeys(TOOLS, "a tool"),
    **dict.fromkeys(["apt-get", "brew", "pip", "pipx", "uv", "uvx"], "installs"),
    **dict.fromkeys(["cosign", "gh", "git", "krew", "oras", "pre-commit"], "needs an account, or another repository"),
    "docker": "needs a container engine; tests/image builds and runs the image",
    "helm": "tests of the chart call it",
    "kind": "needs a container engine; hack/kind.sh calls it",
    "promtool": "tests of the rules call it",
    "ssh": "needs another machine",
}
TARGETS: Final = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def name_of(example: Example) -> str:
    return f"{example.page}-{example.command[:40]}"


def of_retry_policy(arguments: list[str]) -> None:
    """Parse the arguments as the command line does; raise click.UsageError."""
    if arguments[0].startswith("-"):
        main.make_context("retry-policy", arguments, resilient_parsing=True)
        return
    name, *rest = arguments
    command = main.get_command(click.Context(main), name)
    assert command is not None, f"no command {name}"
    command.make_context(name, rest)


def of_kubectl(arguments: list[str]) -> None:
    words = [word for word in without_global_options(arguments) if not word.startswith("-")]
    if words[0] == "retry-policy":
        of_retry_policy(arguments[1:])
    elif words[0] != "krew":
        assert words[0] in VERBS, words[0]


def without_global_options(arguments: list[str]) -> list[str]:
    """Return the arguments from the verb on: `-n` and `--context` may be before it."""
    while arguments[0] in {"-n", "--context", "--kubeconfig", "--namespace"}:
        arguments = arguments[2:]
    return arguments


def of_make(arguments: list[str]) -> None:
    targets = {word for word in arguments if "=" not in word and not word.startswith("-")}
    assert targets <= TARGETS, targets - TARGETS


def of_python(arguments: list[str]) -> None:
    assert arguments[0] == "-m"
    module = ROOT.joinpath(*arguments[1].split("."))
    assert module.is_dir() or module.with_suffix(".py").exists() or arguments[1] in {"http.server", "pip", "venv"}


CHECKS: Final[dict[str, Callable[[list[str]], None]]] = {
    "kubectl": of_kubectl,
    "make": of_make,
    "python": of_python,
    "python3": of_python,
    "retry-policy": of_retry_policy,
}


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_an_example_calls_programs_as_they_can_be_called(example: Example) -> None:
    for program, *arguments in example.simple_commands:
        name = program.rpartition("/")[2]
        if name in CHECKS:
            CHECKS[name](arguments)
        else:
            assert name in NOT_CHECKED, f"say in {Path(__file__).name} how calls of {name} are checked, or why not"


def is_offline(example: Example) -> bool:
    """Return True if an example is one call of a command that reads only files, and this repository has them."""
    words = example.simple_commands
    if example.command.removesuffix(WITHOUT_ERRORS).count(">") or len(words) != 1 or words[0][0] != "retry-policy":
        return False
    _, name, *arguments = words[0]
    files = [value for option, value in pairwise(arguments) if option in {"-f", "--policy"}]
    return name in OFFLINE and bool(files) and all((ROOT / file).exists() for file in files)


RUN: Final = [example for example in EXAMPLES if is_offline(example)]


@pytest.fixture
def in_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run commands in the repository."""
    monkeypatch.chdir(ROOT)


@pytest.mark.usefixtures("in_repository")
@pytest.mark.parametrize("example", RUN, ids=name_of)
def test_an_example_that_needs_only_files_prints_what_its_page_shows(example: Example) -> None:
    done = CliRunner().invoke(main, example.simple_commands[0][1:], catch_exceptions=False)
    assert done.exit_code in {0, 1}, done.output
    if example.shown:
        assert (done.stdout if example.command.endswith(WITHOUT_ERRORS) else done.output) == example.shown


def test_the_pages_have_examples_of_every_command() -> None:
    called = {words[1] for example in EXAMPLES for words in example.simple_commands if words[0] == "retry-policy"}
    assert COMMANDS.keys() - called == {"control", "serve"}  # the image calls them
    assert len(RUN) >= 7


def test_the_words_of_a_command_are_those_that_a_shell_would_pass() -> None:
    block = """$ export A=b && retry-policy check -f 'a file' 2>/dev/null   # a comment
the output
$ for pod in $(kubectl get pods -o name); do
    kubectl exec "$pod" -- echo '1; 2'
  done
$ kubectl get jobs -o yaml | retry-policy explain -f - \\
    -o json
"""
    first, second, third = steps(block)
    assert first[1] == "the output\n"
    assert list(simple_commands(first[0])) == [["retry-policy", "check", "-f", "a file"]]
    assert list(simple_commands(second[0])) == [
        ["kubectl", "get", "pods", "-o", "name"],
        ["kubectl", "exec", "$pod", "--", "echo", "1; 2"],
    ]
    assert [words[0] for words in simple_commands(third[0])] == ["kubectl", "retry-policy"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_yaml_can_be_read_and_calls_our_programs_as_they_can_be_called(page: Path) -> None:
    for block in re.findall(r"^ *```yaml\n(.*?)^ *```$", page.read_text(), re.DOTALL | re.MULTILINE):
        for container in containers(documents_of(block)):
            command, *options = container["args"]
            if command in PROGRAMS:
                assert container["name"] == PROGRAMS[command]
                program = main.get_command(click.Context(main), command)
                assert program is not None
                program.make_context(command, options)


def containers(part: Any) -> Iterator[Any]:
    """Yield the containers with arguments in a part of a manifest."""
    for _, inner in every(part):
        for one in inner if isinstance(inner, list) else ():
            if isinstance(one, dict) and "args" in one:
                yield one


# The container of each program in the Deployments.
PROGRAMS: Final = {
    container["args"][0]: container["name"]
    for file in ("deployment.yaml", "controller.yaml")
    for container in containers(documents(BASE / file))
}


# Folders of this repository, as docs name them: `manifests/base`.
FOLDERS: Final = ("certs", "charts", "demo", "docs", "hack", "manifests", "requirements", "tests", "webhook")
NAMED: Final = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*[\w/])`")
# The files that the recipes of CONTRIBUTING.md add: a kind Render, a rule of priorities.
ADDED: Final = re.compile(r".*/((test_)?(render|priority)\.(py|yaml)|render/\w+\.py)")


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_a_file_of_the_repository_that_a_page_names_exists(page: Path) -> None:
    missing = [name for name in NAMED.findall(page.read_text()) if not (ROOT / name).exists()]
    assert [name for name in missing if not ADDED.fullmatch(name)] == []
