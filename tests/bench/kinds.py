"""Measures whether the number of kinds slows a request down: the same requests with 3 kinds, all kinds, and 1,000."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from statistics import median
from time import perf_counter

from tests.admission import policy, review_of
from tests.objects import job, job_spec, pod, stored_job
from webhook.admission import engine, review
from webhook.admission.subject import read, subject_of
from webhook.objects.problem import Json
from webhook.policy.model import Placement, Profile
from webhook.rules.facts import Facts
from webhook.systems import core
from webhook.systems.job import spec as batch
from webhook.systems.job.spec import CRON_JOB
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kinds import CONTROLLERS, KINDS

ROUNDS = 15
REQUESTS = 400  # in each round
POLICY = policy(default=Profile(placement=Placement(provider="eks", spot="Require")))
FACTS = Facts(profile_name="default", owner=stored_job(job_spec(backoffLimit=3), {"failed": 1}))
FEW = (core.POD, batch.JOB, CRON_JOB)


@contextmanager
def tables(rows: list[KindSpec]) -> Iterator[None]:
    """Use only these kinds while the block runs."""
    kept = dict(KINDS), dict(CONTROLLERS)
    fill({(row.group, row.kind): row for row in rows}, {(row.group, row.kind.lower()): row for row in rows})
    try:
        yield
    finally:
        fill(*kept)


def fill(kinds: dict[tuple[str, str], KindSpec], controllers: dict[tuple[str, str], KindSpec]) -> None:
    """Replace the contents of both tables."""
    for table, contents in ((KINDS, kinds), (CONTROLLERS, controllers)):
        table.clear()
        table.update(contents)


def seconds(body: bytes) -> float:
    """Answer a request many times; return the mean seconds."""
    start = perf_counter()
    for _ in range(REQUESTS):
        request = read(body)
        subject = subject_of(request, body=body)
        assert subject is not None
        review.encode(request.uid, engine.mutate(subject, POLICY, FACTS))
    return (perf_counter() - start) / REQUESTS


def main() -> None:
    """Print medians and ratios."""
    many = [*KINDS.values(), *(replace(batch.JOB, kind=f"Kind{index}") for index in range(1000 - len(KINDS)))]
    sizes: dict[str, list[KindSpec]] = {"3": list(FEW), str(len(KINDS)): list(KINDS.values())}
    sizes["1000"] = many
    requests: dict[str, Json] = {"Job": job(), "Pod of a Job": pod()}
    for name, root in requests.items():
        body = review_of(root)
        took = measured(sizes, body)
        first = median(took["3"])
        figures = ", ".join(
            f"{size} kinds {median(all_of) * 1e6:.0f} us ({median(all_of) / first:.2f})"
            for size, all_of in took.items()
        )
        print(f"{name}: {figures}")


def measured(sizes: dict[str, list[KindSpec]], body: bytes) -> dict[str, list[float]]:
    """Measure with each table in turn, in several rounds."""
    took: dict[str, list[float]] = {size: [] for size in sizes}
    for _ in range(ROUNDS):
        for size, rows in sizes.items():
            with tables(rows):
                took[size].append(seconds(body))
    return took


if __name__ == "__main__":
    main()
