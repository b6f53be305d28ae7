"""Runs a command (the tests) in a test cluster that has the webhook: `python -m tests.cluster [-- COMMAND …]`.

The cluster is a new control plane, which is built first if needed. With --kubeconfig it is the cluster of that file,
and what was created in it is deleted at the end. A KUBECONFIG in the environment is not used: it may name a cluster
that people work on. Without COMMAND the cluster runs until Ctrl-C (playground.py). For COMMAND a new control plane has
the CRDs of all workload kinds, and the controllers of JobSet and Tekton (operators.py). Kueue's controller runs only
with --with-kueue, and those of other systems (systems.py) only with --with-systems: they take minutes to build, and
only their own scenarios need them. With --real-nodes containers run: kubelets in place of KWOK's simulated nodes
(real_nodes/), as root on Debian; there the webhook and the controller are pods too, which Helm installs, and Kueue is
as its own tests expect it. With --real-nodes-where-possible they do so where they can, without COMMAND only.

The API server of a foreign cluster must reach this machine. RETRY_POLICY_WEBHOOK_HOST is the address for that; the
server listens on it. For kind it is the gateway of its network:
`docker network inspect kind --format '{{(index .IPAM.Config 0).Gateway}}'`.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tests.cluster import (
    binaries,
    control_plane,
    installation,
    job_set_controller,
    kueue_controller,
    nodes,
    operators,
    playground,
    systems,
    tekton_controller,
)
from tests.cluster.kubectl import Kubectl, KubectlError
from tests.cluster.processes import HarnessError, Processes, die_with_parent
from tests.cluster.real_nodes import own_namespaces, product
from tests.cluster.real_nodes import start as real_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ENDS = (signal.SIGTERM, signal.SIGHUP)
FOLDER_PREFIX = "retry-policy-cluster-"
REAL = "The nodes are real: containers run.\n"
SIMULATED = "The nodes are simulated (KWOK), and no container runs: real ones need root on Debian, and namespaces.\n"


def main() -> int:
    """Return the command's exit code, 1 if the cluster did not start, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument(
        "--without-operators",
        action="store_true",
        help="no CRDs, and only the controllers of Kubernetes: starts in half the time",
    )
    parser.add_argument("--with-kueue", action="store_true", help="Kueue's controller beside JobSet's and Tekton's")
    parser.add_argument("--with-systems", action="store_true", help="the controllers of other systems: systems.py")
    parser.add_argument("--real-nodes", action="store_true", help="kubelets that run containers, in place of KWOK")
    parser.add_argument("--real-nodes-where-possible", action="store_true", help="the same, as root on Debian")
    parser.add_argument("--kubeconfig", metavar="FILE", help="use this cluster, and start no control plane")
    parser.add_argument("command", nargs="*", help="runs with KUBECONFIG set; its exit code is the result")
    options = parser.parse_args()
    # A signal from outside also makes the runner clean up, as Ctrl-C does; under nohup it still ignores SIGHUP.
    for number in ENDS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _exit)
    try:
        with ExitStack() as stack:
            if options.real_nodes and options.kubeconfig:
                parser.error("--real-nodes excludes --kubeconfig")
            if options.without_operators and (options.with_kueue or options.with_systems):
                parser.error("--without-operators excludes --with-kueue and --with-systems")
            if options.real_nodes_where_possible and options.kubeconfig is None:
                options.real_nodes = real_nodes.are_possible()
                sys.stderr.write(REAL if options.real_nodes else SIMULATED)
            _warn_about_exported_kubeconfig(options.kubeconfig)
            return _run(stack, options)
    except (HarnessError, KubectlError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _warn_about_exported_kubeconfig(chosen: str | None) -> None:
    exported = os.environ.get("KUBECONFIG")
    if exported and chosen is None:
        sys.stderr.write(
            f"KUBECONFIG={exported} is not used: this is a control plane of its own.\n"
            f"For that cluster: make … KUBECONFIG={exported}, or: python -m tests.cluster --kubeconfig={exported}\n"
        )


def _run(stack: ExitStack, options: argparse.Namespace) -> int:
    command: Sequence[str] = options.command
    with_operators = bool(command) and options.kubeconfig is None and not options.without_operators
    image = real_nodes.prepare(for_tests=bool(command)) if options.real_nodes else None
    programs = binaries.build(_needed(options, with_operators=with_operators))
    found = operators.fetch() if with_operators else None
    passage = own_namespaces.passage() if image is not None and not command else None
    if image is not None:
        own_namespaces.enter()
    folder = stack.enter_context(_run_folder())
    processes = Processes(folder / "logs")
    processes.logs.mkdir()
    stack.callback(processes.stop)
    if image is not None:
        kubeconfig = real_nodes.start(stack, programs, processes, folder, image=image, passage=passage)
    else:
        kubeconfig = _with_simulated_nodes(stack, programs, processes, folder, options.kubeconfig)
    kubectl = Kubectl(programs["kubectl"], kubeconfig)
    if found is not None:
        operators.install(processes, kubectl, found)
    if options.real_nodes:
        policy = product.install(programs["helm"], processes, kubectl, folder, for_tests=bool(command))
    else:
        policy = installation.start(processes, kubectl, folder, for_tests=bool(command))
    if found is not None:
        job_set_controller.start(programs, processes, kubectl, folder, found)
        if options.with_kueue:
            kueue_controller.start(programs, processes, kubectl, folder, found, for_its_tests=options.real_nodes)
        tekton_controller.start(programs, processes, kubectl, found)
        for one in systems.CONTROLLERS if options.with_systems else ():
            one.start(programs, processes, kubectl, folder)

    tools = [str(programs[name].parent) for name in ("kubectl", "helm") if name in programs]
    folders = [*tools, str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {
        "KUBECONFIG": str(kubeconfig),
        "PATH": os.pathsep.join(folders),  # this kubectl, this pytest
        "RETRY_POLICY_TEST_POLICY": str(policy),
        "RETRY_POLICY_TEST_LOGS": str(processes.logs),
        "RETRY_POLICY_TEST_KUEUE": "true" if options.with_kueue else "",
        "RETRY_POLICY_TEST_SYSTEMS": "true" if options.with_systems else "",
        "RETRY_POLICY_TEST_NODES": str(folder / real_nodes.FILE) if options.real_nodes else "",
    }
    if not command:
        _keep(processes, environment, folder, passage)
    code = _call(command, environment)
    processes.check(but=real_nodes.programs_in(folder))
    return code


def _needed(options: argparse.Namespace, *, with_operators: bool) -> list[binaries.Binary]:
    """Return the programs to build."""
    needed = binaries.own_cluster() if options.kubeconfig is None else binaries.foreign_cluster()
    if options.real_nodes:
        needed += binaries.real_nodes()
    if with_operators:
        needed += [binaries.JOB_SET, binaries.TEKTON]
    if options.with_kueue:
        needed += [binaries.KUEUE, *([binaries.AGNHOST] if options.real_nodes else [])]
    return [*needed, *(one.BINARY for one in systems.CONTROLLERS if options.with_systems)]


def _with_simulated_nodes(
    stack: ExitStack, programs: Mapping[str, Path], processes: Processes, folder: Path, chosen: str | None
) -> Path:
    """Start a control plane, or use the cluster of a kubeconfig, and add nodes of KWOK; return the kubeconfig."""
    foreign = chosen is not None
    if chosen is None:
        kubeconfig = control_plane.start(programs, processes, folder)
    else:
        kubeconfig = _flat_kubeconfig(programs["kubectl"], chosen, folder)
    kubectl = Kubectl(programs["kubectl"], kubeconfig)
    if foreign:
        _refuse_if_taken(kubectl)
        stack.callback(nodes.remove, kubectl)
        stack.callback(installation.remove, kubectl)
    nodes.start(programs, processes, kubectl, foreign=foreign)
    return kubeconfig


def _begin() -> None:
    die_with_parent()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)


def _call(command: Sequence[str], environment: Mapping[str, str]) -> int:
    # While Python forks, an exception from a signal handler is lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        preexec_fn=_begin,  # noqa: PLW1509  # the runner has one thread, so forking is safe
    )
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
        while True:
            try:
                code = process.wait()
            except KeyboardInterrupt:  # the command gets the signal too, and may need time to clean up
                continue
            return code if code >= 0 else 128 - code
    finally:
        process.kill()
        process.wait()


def _keep(
    processes: Processes, environment: dict[str, str], folder: Path, passage: own_namespaces.Passage | None
) -> NoReturn:
    """Keep the cluster until Ctrl-C; with a passage, in namespaces of its own."""
    if passage is None:
        playground.keep(processes, environment, json.loads((folder / installation.ANSWER).read_text())["http"])
    outside = folder / "kubeconfig"
    inside = Path(environment["KUBECONFIG"]).read_text()
    outside.write_text(re.sub(r'"https://[^"]+"', f'"https://{control_plane.HOST}:{passage.port}"', inside))
    playground.keep_real(processes, environment | {"KUBECONFIG": str(outside)}, passage.process)


def _refuse_if_taken(kubectl: Kubectl) -> None:
    """Raise HarnessError if the cluster already has objects that this run would create and, at the end, delete."""
    for what in (("nodes", f"--selector={nodes.MARK}=fake"), (f"--kustomize={installation.INSTALLED}",)):
        found = kubectl.run("get", *what, "--ignore-not-found", "--output=name")
        if found.stdout or found.returncode:
            remedy = f"If a run that was killed left it: kubectl delete {' '.join(what)}"
            raise HarnessError(
                f"This cluster is in use by a retry policy webhook:\n{found.stdout}{found.stderr}{remedy}"
            )


def _flat_kubeconfig(kubectl: Path, chosen: str, folder: Path) -> Path:
    """Copy the current context of the chosen kubeconfig, which may be several files, into one complete file."""
    command = [str(kubectl), "config", "view", "--raw", "--flatten", "--minify"]
    environment = {**os.environ, "KUBECONFIG": chosen}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise HarnessError(f"--kubeconfig={chosen} cannot be used: {result.stderr}")
    file = folder / "kubeconfig"
    file.write_text(result.stdout)
    return file


@contextmanager
def _run_folder() -> Iterator[Path]:
    """Create this run's folder and delete it at the end; also delete the folders of runs that were killed."""
    for old in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*/lock"):
        with old.open() as lock, _locked(lock.fileno()) as unused:
            if unused:
                _delete(old.parent)
    folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
    try:
        # The file gets its final name once it is locked: another run may be looking for unlocked ones.
        with (folder / "new").open("w") as lock, _locked(lock.fileno()):
            (folder / "new").rename(folder / "lock")
            yield folder
    finally:
        _delete(folder)


def _delete(folder: Path) -> None:
    """Delete the folder of a run. The volume of a pod may still be mounted; by the lock the next run finds the rest."""
    for one in folder.iterdir():
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one, ignore_errors=True)
        elif one.name != "lock":
            one.unlink(missing_ok=True)
    if [one.name for one in folder.iterdir()] == ["lock"]:
        shutil.rmtree(folder)


@contextmanager
def _locked(descriptor: int) -> Iterator[bool]:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True


def _exit(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
