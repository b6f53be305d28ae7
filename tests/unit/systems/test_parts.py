"""Each system says which parts it has, and has no others."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from webhook import systems

EVERY = [import_module(f"webhook.systems.{name}") for name in systems.SYSTEMS]
RULES = {"rules"}  # their order is in webhook/rules/registry.py


def test_every_folder_is_a_system() -> None:
    folders = {one.parent.name for one in Path(systems.__file__).parent.glob("*/__init__.py")}
    assert folders <= set(systems.SYSTEMS), "name it in SYSTEMS of webhook/systems/__init__.py"


@pytest.mark.parametrize("system", [one for one in EVERY if hasattr(one, "__path__")], ids=lambda one: one.__name__)
def test_a_system_names_each_part_in_its_folder(system: ModuleType) -> None:
    (folder,) = map(Path, system.__path__)
    assert {one.stem for one in folder.glob("[!_]*")} - RULES == set(system.PARTS), (
        "name each in PARTS of the __init__.py"
    )


@pytest.mark.parametrize("part", ["spec", "pods", "account", "rerun"])
def test_each_part_of_every_system_that_has_it_is_found(part: str) -> None:
    assert len(list(systems.parts(part))) == sum(part in one.PARTS for one in EVERY)
