"""kubectl as a typed call: manifests and objects are plain dicts."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.awaiting import LONGEST

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Object: TypeAlias = dict[str, Any]
# By default kubectl waits 32 s for a schema, which the API server may have to make while it is busy.
PATIENT = f"--request-timeout={LONGEST:g}s"


class KubectlError(Exception):
    """A call of kubectl has failed; the message has the command line and kubectl's error."""


@dataclass(frozen=True, slots=True)
class Result:
    """The output of a call; warnings of the API server are on stderr."""

    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl against one cluster."""

    program: Path
    kubeconfig: Path

    def run(self, *arguments: str, stdin: str | Mapping[str, Any] | None = None) -> Result:
        """Run kubectl, and accept any exit code; a mapping as `stdin` is passed as JSON (with `-f -`)."""
        command = self._command(arguments)
        text = stdin if stdin is None or isinstance(stdin, str) else json.dumps(stdin)
        answer = subprocess.run(command, input=text or "", capture_output=True, text=True, check=False)
        return Result(answer.returncode, answer.stdout, answer.stderr)

    def create(self, manifest: Mapping[str, Any], *flags: str) -> Object:
        """Create the object and return it as stored; raise KubectlError if it is refused."""
        return self._object("create", "--filename=-", *flags, stdin=manifest)

    def apply(self, manifest: Mapping[str, Any], *flags: str) -> Object:
        """Apply the manifest, and return the object as stored; raise KubectlError if it is rejected."""
        return self._object("apply", "--filename=-", *flags, stdin=manifest)

    def get(self, *arguments: str) -> Object:
        """Return one object (`get("job", "train")`), or a list with `items`; raise KubectlError if there is none."""
        return self._object("get", *arguments)

    def _object(self, *arguments: str, stdin: Mapping[str, Any] | str | None = None) -> Object:
        arguments = (*arguments, "--output=json")
        result = self.run(*arguments, stdin=stdin)
        if result.returncode:
            raise KubectlError(f"{' '.join(map(str, self._command(arguments)))}\n{result.stderr}{result.stdout}")
        parsed: Object = json.loads(result.stdout)
        return parsed

    def _command(self, arguments: tuple[str, ...]) -> list[str | Path]:
        return [self.program, f"--kubeconfig={self.kubeconfig}", PATIENT, *self._scope(), *arguments]

    def _scope(self) -> list[str]:
        return []
