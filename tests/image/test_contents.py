"""The content of the image."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from webhook import __version__

if TYPE_CHECKING:
    from tests.image.engine import Engine

OURS = "/opt/retry-policy"
SERVER = (
    "import uvloop, webhook.serving.app; from kubernetes.aio import config; from kubernetes.aio.client import ApiClient"
)


@pytest.fixture(scope="module")
def description(engine: Engine, image: str) -> Any:
    return json.loads(engine.output("image", "inspect", image))[0]


def in_image(engine: Engine, image: str, program: str, *arguments: str, user: str = "0") -> str:
    """Run a program of the image, by default as root, which can read all files."""
    return engine.output(
        "run", "--rm", "--network=none", f"--user={user}", f"--entrypoint={program}", image, *arguments
    )


def found(engine: Engine, image: str, *condition: str, user: str = "0") -> set[str]:
    """Return the files of the image that `find` finds; folders that the user may not read are skipped."""
    script = 'command -v find && find / -xdev "$@" 2>/dev/null || true'
    first, *files = in_image(engine, image, "sh", "-c", script, "find", *condition, user=user).splitlines()
    assert first.endswith("/find")
    return set(files)


def named(*names: str) -> list[str]:
    return ["(", *" -o ".join(f"-name {name}" for name in names).split(), ")"]


def test_the_image_runs_as_a_numeric_user_other_than_root(description: Any) -> None:
    config = description["Config"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", config["User"])
    assert config["Entrypoint"] == ["retry-policy"]
    assert config["Cmd"] == ["serve"]


def test_the_image_has_no_health_check(description: Any) -> None:
    for place in (description, description["Config"]):  # of podman and of docker
        assert not place.get("Healthcheck")


def test_the_labels_of_the_image_describe_it(engine: Engine, description: Any) -> None:
    label = "org.opencontainers.image."
    labels = {key.removeprefix(label): value for key, value in description["Config"]["Labels"].items() if label in key}
    assert labels.pop("description")
    assert labels == {
        "title": "retry-policy-webhook",
        "version": __version__,
        "licenses": "Apache-2.0",
        "base.name": engine.base_image,
    }


@pytest.mark.parametrize(
    "python", ["python3", "$(readlink -f /opt/retry-policy/bin/python3)"], ids=["ours", "the base's"]
)
@pytest.mark.parametrize("module", ["pip", "ensurepip"])
def test_neither_python_in_the_image_has_pip(engine: Engine, image: str, python: str, module: str) -> None:
    script = f"{python} -m {module} --version 2>&1 || true"
    assert f"No module named {module}\n" in in_image(engine, image, "sh", "-c", script)


def test_the_image_has_no_file_of_pip(engine: Engine, image: str) -> None:
    condition = ("-path", "/usr/share/doc", "-prune", "-o", *named("pip", "pip[-0-9]*", "ensurepip"), "-print")
    assert found(engine, image, *condition) == set()


def test_the_image_has_no_compiler(engine: Engine, image: str) -> None:
    names = named("cc", "c++", "gcc*", "g++*", "clang*", "ld", "as", "make", "rustc")
    assert found(engine, image, "-path", "*/bin/*", *names) == set()


def test_the_image_adds_no_setuid_file(engine: Engine, image: str) -> None:
    condition = ("-type", "f", "-perm", "/6000")
    assert found(engine, image, *condition) <= found(engine, engine.base_image, *condition)


@pytest.mark.parametrize("user", ["65532:65532", "1000660000:0"], ids=["its own user", "one that OpenShift chose"])
def test_the_image_adds_no_file_that_its_user_can_write(engine: Engine, image: str, user: str) -> None:
    condition = ("-writable", "-not", "-type", "l", "-not", "-path", "/proc/*")
    assert found(engine, image, *condition, user=user) <= found(engine, engine.base_image, *condition, user=user)


def test_the_image_has_no_trace_of_the_builds_pip_configuration(engine: Engine, image: str, mark: str) -> None:
    assert found(engine, image, "-type", "f", "-exec", "grep", "-lF", mark, "{}", "+") == set()


def test_all_imported_modules_have_bytecode(engine: Engine, image: str) -> None:
    done = engine.run("run", "--rm", "--network=none", "--entrypoint=python3", image, "-v", "-c", SERVER)
    assert done.returncode == 0, done.stderr
    loaded = re.findall(r"^# code object from (.*)", done.stderr, re.MULTILINE)
    assert [file for file in loaded if not file.endswith(".pyc'")] == []
    assert any(OURS in file for file in loaded)


def test_the_added_files_have_less_than_170_megabytes(engine: Engine, image: str) -> None:
    assert int(in_image(engine, image, "du", "-sm", OURS).split()[0]) < 170
