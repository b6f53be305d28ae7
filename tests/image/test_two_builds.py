"""Two builds of the same source; collected last, so that the second build is complete."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tests.image.engine import Engine


def test_a_second_build_gives_the_same_layers(engine: Engine, builds: tuple[str, Future[str]]) -> None:
    if engine.program == "docker":
        pytest.skip("docker gives a layer's folders the time of the build")
    first, second = builds[0], builds[1].result()
    layers = [json.loads(engine.output("image", "inspect", tag))[0]["RootFS"]["Layers"] for tag in (first, second)]
    assert layers[0] == layers[1]
