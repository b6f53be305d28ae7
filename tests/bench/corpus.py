"""Runs `render` and `check` on a folder of other projects' manifests: `python -m tests.bench.corpus FOLDER`.

Prints the number of documents of each kind; crashes, and documents that take long; files that kubectl can read but this
program cannot; documents that change when they are rendered twice; the number of each denial and each warning, with the
first file; and unknown kinds with pod templates. Exit 1 if something crashed, changed, or could not be read.
"""

import io
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any, Final

from webhook.cli import admission, documents
from webhook.objects.problem import Json, Problem
from webhook.objects.problem import field as spelt
from webhook.policy.parse import load_default
from webhook.systems.kinds import KINDS

POLICY: Final = load_default()
SLOW: Final = 0.5  # seconds
QUOTED: Final = re.compile(r"'[^']*'")
NUMBER: Final = re.compile(r"\b\d+\b")
# This command reads files without a cluster, and prints only names.
KUBECTL_READS: Final = ("label", "--local", "--output=name", "example.dev/read=yes", "--filename")


@dataclass(slots=True)
class Findings:
    """The findings by topic and message, without names and numbers: how often each occurred, and where first."""

    files: set[str] = field(default_factory=set)
    documents: Counter[str] = field(default_factory=Counter)
    messages: dict[str, Counter[str]] = field(default_factory=partial(defaultdict, Counter))
    first: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, topic: str, message: str, place: str) -> None:
        """Count a message under a topic."""
        self.messages[topic][message] += 1
        self.first.setdefault((topic, message), place)


def main() -> None:
    """Read the folder of the command line; print the findings."""
    folder = sys.argv[1]
    found = Findings()
    for one in documents.read(folder, io.BytesIO()):
        found.files.add(one.file)
        if isinstance(one, documents.Document):
            for _, root in one.objects():
                look(root, f"{one.file}:{one.number}".removeprefix(folder), found)
        else:
            topic = "unreadable, and kubectl can" if kubectl_reads(one.file) else "unreadable for kubectl too"
            found.add(topic, NUMBER.sub("N", QUOTED.sub("'…'", one.what)), str(one).removeprefix(folder))
    report(found)
    sys.exit(any(found.messages.keys() & {"crash", "changes when rendered twice", "unreadable, and kubectl can"}))


def kubectl_reads(file: str) -> bool:
    """Return True if kubectl is installed and can read a file."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        return False
    return not subprocess.run((kubectl, *KUBECTL_READS, file), capture_output=True, check=False).returncode


def look(root: Json, place: str, found: Findings) -> None:
    """Admit an object twice, and record the findings."""
    group, kind = root["apiVersion"].rpartition("/")[0], root["kind"]
    name = f"{kind}.{group}"
    found.documents[name] += 1
    if (group, kind) not in KINDS:
        for path in sorted(set(pod_templates(root))):
            found.add("pod template in a kind that is not known", f"{name} {path}", place)
        return
    try:
        start = perf_counter()
        verdict = admission.admit(root, POLICY, "default", None)
        if perf_counter() - start > SLOW:
            found.add("slow", name, place)
        again = deepcopy(root)
        admission.admit(again, POLICY, "default", None)
    except Exception as error:  # noqa: BLE001 - the search is for crashes of any type
        found.add("crash", f"{name}: {error!r}", place)
        return
    if again != root:
        found.add("changes when rendered twice", name, place)
    for topic, problems in (("denied", verdict.problems), ("warning", verdict.warnings)):
        for problem in problems:
            found.add(topic, summary(name, problem), place)
        if problems:
            found.add("documents", f"{topic} {name}", place)


def summary(name: str, problem: Problem) -> str:
    """Return the message of a problem without indexes, names and numbers."""
    path = tuple("*" if isinstance(part, int) else part for part in problem.path)
    what = NUMBER.sub("N", QUOTED.sub("'…'", f"{problem.what}; {problem.remedy}"))
    return f"{name} {spelt(path)}: {what}"


def pod_templates(value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of the pod templates in a value."""
    if isinstance(value, list):
        for entry in value:
            yield from pod_templates(entry, f"{path}[*]")
    elif isinstance(value, dict):
        if isinstance(value.get("containers"), list):
            yield path
        for key, entry in value.items():
            yield from pod_templates(entry, f"{path}.{key}")


def report(found: Findings) -> None:
    """Print the findings, the most frequent ones first."""
    known = sum(number for name, number in found.documents.items() if is_known(name))
    print(f"{len(found.files)} files, {found.documents.total()} documents, {known} of known kinds")
    for name, number in found.documents.most_common():
        print(f"{number:6} {name}{'' if is_known(name) else ' (not known)'}")
    for topic, messages in sorted(found.messages.items()):
        print(f"\n{topic}: {messages.total()}")
        for message, number in messages.most_common():
            print(f"{number:6} {message}   [{found.first[topic, message]}]")


def is_known(name: str) -> bool:
    """Return True if the rules know a kind, named with its group."""
    kind, _, group = name.partition(".")
    return (group, kind) in KINDS


if __name__ == "__main__":
    main()
