"""The server in the image, with the Deployment's restrictions, as the API server and the kubelet use it."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.admission import answer_of, review_of
from tests.awaiting import until
from tests.image.container import pod, serving
from tests.served import request

if TYPE_CHECKING:
    from tests.image.container import Container
    from tests.image.engine import Engine

SAMPLES = Path(__file__).parents[2] / "manifests" / "samples"


def sample(name: str) -> Any:
    return yaml.safe_load((SAMPLES / name).read_text())


def test_the_server_in_the_image_is_ready(container: Container) -> None:
    assert container.served.get("/readyz").status == 200


def test_the_sample_job_is_mutated_and_admitted(container: Container) -> None:
    job = sample("job.yaml")
    mutated = answer_of(container.served.post("/mutate", review_of(job)).body, job).object
    assert [rule["action"] for rule in mutated["spec"]["podFailurePolicy"]["rules"]] == ["Ignore", "FailJob"]
    assert answer_of(container.served.post("/validate", review_of(mutated)).body, mutated).allowed


def test_the_sample_job_with_25_retries_is_denied(container: Container) -> None:
    job = sample("job-with-25-retries.yaml")
    assert not answer_of(container.served.post("/validate", review_of(job)).body, job).allowed


def test_the_server_has_no_privileges_and_cannot_get_any(container: Container) -> None:
    lines = container.run("cat", "/proc/1/status").stdout.splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    assert {status[field] for field in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert "0" not in (status["Uid"] + "\t" + status["Gid"]).split("\t")


def test_the_server_can_write_only_to_tmp(container: Container) -> None:
    assert container.run("touch", "/tmp/file").returncode == 0  # noqa: S108 - in the container, where there is no other
    for folder in ("/", "/opt/retry-policy", "/run", "/var/tmp", "/usr"):  # noqa: S108 - likewise
        assert "Read-only file system" in container.run("touch", f"{folder}/file").stderr


def test_the_server_also_runs_as_another_user_that_the_platform_chooses(
    engine: Engine, image: str, tmp_path: Path
) -> None:
    with serving(engine, image, tmp_path, "--user=1000660000:0") as chosen:
        assert chosen.run("id", "-u").stdout == "1000660000\n"
        assert chosen.served.get("/readyz").status == 200


def test_after_sigterm_the_server_drains_and_ends_before_the_kubelet_would_kill_it(
    engine: Engine, image: str, tmp_path: Path
) -> None:
    with serving(engine, image, tmp_path) as ending, closing(ending.served.connect()) as connection:
        engine.output("kill", "--signal=TERM", ending.name)
        until(lambda: ending.served.get("/readyz").status != 200)
        reply = request(connection, "POST", "/mutate", review_of(sample("job.yaml")))
        assert (reply.status, reply.headers["Connection"]) == (200, "close")
        assert json.loads(reply.body)["response"]["allowed"]
        assert ending.served.process.wait(pod()["terminationGracePeriodSeconds"]) == 0
        assert ending.served.process.stdout is not None
        assert ending.served.process.stdout.read() == b""  # only the line with the addresses is written to stdout
