"""The server in the image, with the restrictions of the Deployment, on a TLS port of this machine."""

from __future__ import annotations

import contextlib
import json
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from tests.served import Served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.image.engine import Engine
    from webhook.objects.problem import Json

DEPLOYMENT = Path(__file__).parents[2] / "manifests" / "base" / "deployment.yaml"


@dataclass(frozen=True, slots=True)
class Container:
    """A server that is listening on loopback ports of this machine."""

    engine: Engine
    name: str
    served: Served

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the server's container, as its user."""
        return self.engine.run("exec", self.name, *command)


def pod() -> Json:
    """Return the Deployment's pod spec."""
    spec: Json = yaml.safe_load(DEPLOYMENT.read_text())["spec"]["template"]["spec"]
    return spec


def restrictions() -> list[str]:
    """Return the options for the Deployment's restrictions; add new restrictions here."""
    spec = pod()
    [container] = spec["containers"]
    assert spec["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    options = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    for mount in container["volumeMounts"]:
        size = volumes[mount["name"]]["emptyDir"]["sizeLimit"].removesuffix("i").lower()  # 1Mi is 1m here
        options.append(f"--tmpfs={mount['mountPath']}:size={size}")
    return options


@contextlib.contextmanager
def serving(engine: Engine, image: str, folder: Path, *options: str) -> Iterator[Container]:
    """Start the server in the image, and remove the container at the end; its log goes to a file in `folder`."""
    name = f"retry-policy-test-{secrets.token_hex(4)}"
    # The network of this machine; outside a cluster the server listens on loopback only.
    command = (engine.program, "run", "--name", name, "--rm", "--network=host", *engine.run_options, *restrictions())
    serve = (*options, image, "serve", "--port=0", "--health-port=0")
    log = folder / "server.log"
    with (
        log.open("wb") as stderr,
        subprocess.Popen((*command, *serve), stdout=subprocess.PIPE, stderr=stderr, env=engine.environment) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, f"the server did not start:\n{log.read_text()}"
            addresses = json.loads(line)
            ca = folder / "ca.crt"
            ca.write_text(engine.output("exec", name, "cat", addresses["ca"]))
            yield Container(engine, name, Served(process, {**addresses, "ca": str(ca)}, log))
        finally:
            engine.run("kill", name)  # `rm` alone would wait until it has drained
            engine.run("rm", "--force", name)
