"""The controllers of other systems, which `python -m tests.cluster --with-systems` starts.

A new one is a folder in tools/, a module with `BINARY` and `start`, and a line here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from tests.cluster import argo_controller, kuberay, mpi_operator, spark_operator, trainer, training_operator

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.cluster.binaries import Binary
    from tests.cluster.kubectl import Kubectl
    from tests.cluster.processes import Processes


class Controller(Protocol):
    """A module that starts the controller of a system, whose CRDs are installed."""

    @property
    def BINARY(self) -> Binary:  # noqa: N802 - a module's constant
        """The program."""

    def start(self, binaries: Mapping[str, Path], processes: Processes, kubectl: Kubectl, folder: Path) -> None:
        """Start the controller; `folder` is for its files."""


CONTROLLERS: Final[tuple[Controller, ...]] = (
    argo_controller,
    mpi_operator,
    training_operator,
    trainer,
    kuberay,
    spark_operator,
)
