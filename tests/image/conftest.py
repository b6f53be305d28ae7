"""The image, built from this checkout, and a server that runs in it."""

from __future__ import annotations

import secrets
import sys
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.image import pip_configuration
from tests.image.container import Container, serving
from tests.image.engine import Engine, EngineError, ready

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Return a function that prints a line at once: otherwise nothing is printed in the first minute."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def write(text: str) -> None:
        with capture.global_and_fixture_disabled():
            sys.stderr.write(f"{text}\n")

    return write


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory, say: Callable[[str], None]) -> Engine:
    try:
        return ready(tmp_path_factory.mktemp("engine"), say)
    except EngineError as error:
        pytest.exit(str(error), returncode=1)


@pytest.fixture(scope="session")
def mark() -> str:
    """A random text in the secret pip configuration with which the image is built."""
    return secrets.token_hex()


@pytest.fixture(scope="session")
def builds(engine: Engine, mark: str, say: Callable[[str], None]) -> Iterator[tuple[str, Future[str]]]:
    """Build the image, and again while the tests run; both images are removed at the end.

    The builds are not simultaneous, because the parts that depend on the clock would then be equal.
    """
    run = secrets.token_hex(4)
    first, second = (f"localhost/retry-policy-webhook:test-{run}-{number}" for number in (1, 2))
    with ThreadPoolExecutor() as pool, tempfile.TemporaryDirectory() as folder:
        options = pip_configuration.secrets(Path(folder), mark)
        say("build the image")
        try:
            engine.build(first, CHECKOUT, *options)
        except EngineError as error:
            pytest.exit(str(error), returncode=1)
        again = pool.submit(engine.build, second, CHECKOUT, *options)
        yield first, again
        again.exception()
        engine.run("image", "rm", "--force", first, second)


@pytest.fixture(scope="session")
def image(builds: tuple[str, Future[str]]) -> str:
    return builds[0]


@pytest.fixture(scope="session")
def container(engine: Engine, image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    with serving(engine, image, tmp_path_factory.mktemp("server")) as running:
        yield running
