"""The kubectl commands in the docs: kubectl has their verbs and options."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.console_examples import examples

if TYPE_CHECKING:
    from tests.cluster.kubectl import Kubectl

OPTION = re.compile(r"^ +(?:(-\w), )?(--[\w-]+)=", re.MULTILINE)
CALLS = sorted({tuple(words) for example in examples() for words in example.simple_commands if words[0] == "kubectl"})
PLUGINS = {"krew", "retry-policy"}
# The verb of these is two words.
GROUPS = {"auth", "config", "create", "rollout"}


def options_of(kubectl: Kubectl, *command: str) -> set[str]:
    """Return the options that a help of kubectl lists."""
    text = kubectl.run(*command).stdout
    return {option for pair in OPTION.findall(text) for option in pair if option}


def verb_of(words: list[str]) -> tuple[str, ...]:
    """Return the verb, with its subcommand if it has one."""
    first = next(number for number, word in enumerate(words) if word in GROUPS or not is_value(words, number))
    verb = words[first]
    return (verb, words[first + 1]) if verb in GROUPS and not words[first + 1].startswith("-") else (verb,)


def is_value(words: list[str], number: int) -> bool:
    """Return True if a word is an option before the verb, or the value of one."""
    return words[number].startswith("-") or (number > 0 and words[number - 1] in {"-n", "--context", "--kubeconfig"})


@pytest.fixture(scope="module")
def known() -> dict[tuple[str, ...], set[str]]:
    """The options of each verb that was asked for."""
    return {}


def test_kubectl_has_the_options_of_every_documented_call(
    kubectl: Kubectl, known: dict[tuple[str, ...], set[str]]
) -> None:
    unknown, of_every_verb = [], options_of(kubectl, "options")
    for _, *words in CALLS:
        verb = verb_of(words)
        if verb[0] in PLUGINS:
            continue
        if verb not in known:
            known[verb] = of_every_verb | options_of(kubectl, *verb, "--help")
        own = words[: words.index("--")] if "--" in words else words
        used = {word.partition("=")[0] for word in own if re.match(r"--?[a-zA-Z]", word)}
        unknown += [f"{' '.join(words)}: {option}" for option in sorted(used - known[verb])]
    assert unknown == []
    assert len(known) > 10
