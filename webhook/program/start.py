"""Start a program: its connection to the API, its policy, its signals, its memory, and the line on its stdout."""

import asyncio
import gc
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec

from webhook.kube.busy import Busy
from webhook.kube.client import Api, NoCredentialsError
from webhook.kube.names import COMPONENT
from webhook.policy.parse import load_default
from webhook.tracking.policy_source import LastGood, PolicySource

GARBAGE: Final = 20_000  # new objects after which the garbage collector examines the youngest generation
CONTROLLER: Final = "retry-policy-controller"  # the ServiceAccount of `control`
LEDGER_LEASE: Final = f"{COMPONENT}-ledger"  # of the controller that writes accounts


class CannotStartError(Exception):
    """The program cannot start with these options; the message has a remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options that both programs have; None for an option that was not given."""

    policy: Path | None = None
    policy_configmap: tuple[str, str] | None = None
    host: str | None = None
    health_port: int = 8080
    kubeconfig: str | None = None
    requested_retries: bool = False

    @property
    def in_cluster(self) -> bool:
        """Whether the program runs in a pod."""
        return "KUBERNETES_SERVICE_HOST" in os.environ

    @property
    def has_cluster(self) -> bool:
        """Whether the program knows an API server."""
        return self.kubeconfig is not None or self.in_cluster

    @property
    def namespace(self) -> str | None:
        """The namespace of the program's pod, which the Deployment passes by the downward API; None without a pod."""
        return os.environ.get("POD_NAMESPACE")

    @property
    def controller(self) -> str:
        """The controller as a user of the API; empty without a pod."""
        return f"system:serviceaccount:{self.namespace}:{CONTROLLER}" if self.namespace else ""

    @property
    def address(self) -> str:
        """The address to listen on: by default all addresses in a cluster, and loopback elsewhere."""
        return self.host or ("0.0.0.0" if self.in_cluster else "127.0.0.1")  # noqa: S104 - a pod's only network


async def connect(kubeconfig: str | None) -> Api:
    """Return a connection to the API; raise CannotStartError if the credentials cannot be used.

    If the API server is busy, each caller decides itself when it tries again: an admission cannot wait, and the leader
    counts anew before it writes.
    """
    try:
        return await Api.connect(kubeconfig, on_busy=Busy(), repeats=0)
    except NoCredentialsError as error:
        what = "the pod's service account" if kubeconfig is None else f"the kubeconfig {kubeconfig}"
        raise CannotStartError(f"{what} cannot be used: {error}; name another with --kubeconfig") from None


def start_policy(
    options: Options, api: Api | None, refused: Callable[[str], None] = lambda _: None
) -> tuple[PolicySource, list[Coroutine[None, None, None]]]:
    """Return the source of the policy, and the tasks that keep it current; raise CannotStartError.

    `refused`: called with each refusal of a policy in a ConfigMap, and again and again for as long as it lasts.
    """
    if options.policy is not None:
        source = PolicySource()
        seen = source.read(options.policy)
        return source, [source.follow(options.policy, seen)]
    if options.policy_configmap is not None:
        if api is None:
            raise CannotStartError("--policy-configmap needs an API server; add --kubeconfig")
        source = PolicySource(
            config_map=options.policy_configmap,
            refused=refused,
            last_good=LastGood(Path(tempfile.gettempdir())) if "POD_NAME" in os.environ else None,
        )
        return source, [source.follow_config_map(api), source.remind()]
    return PolicySource(load_default()), []


def stop_signals() -> tuple[asyncio.Event, asyncio.Event]:
    """Return two events: `draining`, set by the first SIGTERM, and `stopped`, set by SIGINT or a second SIGTERM."""
    draining, stopped = asyncio.Event(), asyncio.Event()

    def terminate() -> None:
        (stopped if draining.is_set() else draining).set()

    def interrupt() -> None:
        draining.set()
        stopped.set()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, terminate)
    loop.add_signal_handler(signal.SIGINT, interrupt)
    return draining, stopped


def identity() -> str:
    """Return a unique name for this process."""
    return f"{os.uname().nodename}_{uuid4()}"


def settle_memory() -> None:
    """Exclude all objects of the start from garbage collection, and run the collector less often.

    These objects live as long as the process. To examine them takes 20 ms and more each time, in which no request is
    answered. Requests leave no reference cycles, so the collector has little to do for them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE)


def announce(addresses: dict[str, str | None]) -> None:
    """Print the addresses of the ports as JSON: the only line on stdout, once all of them listen."""
    sys.stdout.buffer.write(msgspec.json.encode(addresses) + b"\n")
    sys.stdout.buffer.flush()
