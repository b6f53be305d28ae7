"""The systems that run workloads: a folder for each, or a file, and beside them what they have in common.

A system has the parts that its PARTS name: `spec`, its kinds and where their retries are; `pods`, whose pod is this,
and which attempt; `account`, what the end of a pod costs; `rerun`, how an object runs again; `progress`, what an object
says of how far its work is. It may have rules too, whose order is in webhook/rules/registry.py.
"""

from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Final

# In the order of the documentation.
SYSTEMS: Final = (
    "core",
    "job",
    "job_set",
    "tekton",
    "argo",
    "kubeflow",
    "trainer",
    "ray",
    "spark",
    "volcano",
    "flyte",
    "airflow",
    "app_wrapper",
)


def parts(name: str) -> Iterator[ModuleType]:
    """Yield the part of this name of each system that has it: a module of its folder, or its only file."""
    for system in SYSTEMS:
        module = import_module(f"{__name__}.{system}")
        if name in module.PARTS:
            yield import_module(f"{module.__name__}.{name}") if hasattr(module, "__path__") else module
