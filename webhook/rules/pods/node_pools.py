"""Warns about a Job whose pods would be required to run on nodes that no pool has.

Reads, in the JobSpec:
    template.spec.{nodeSelector,affinity.nodeAffinity}
    template.metadata.annotations: those of capacity that is set aside

A pool that has no node now is not known, unless it has had one since the server started: hence warnings, no more.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from webhook import capacity
from webhook.capacity.contradictions import terms
from webhook.kinds import EmbeddedJob
from webhook.objects.problem import Json, Problem
from webhook.policy.settings import Settings
from webhook.rules.pods import placement

MOST_JOBS: Final = 10  # of one object that are looked at
MOST_WORDS: Final = 300  # expressions and values of one Job, its nodeSelector included; with more it is not judged


def warnings(
    jobs: Iterable[tuple[EmbeddedJob, Settings]], recognised: capacity.Provider | None, pools: tuple[capacity.Pool, ...]
) -> Iterator[Problem]:
    """Yield a warning for each requirement that leaves a Job's pods no pool; `pools` are those that are known."""
    if not pools:
        return
    for job, settings in islice(jobs, MOST_JOBS):
        provider = placement.provider_of(settings, recognised)
        if provider is not None and not settings.skip:
            yield from of_job(job, settings, provider, pools)


def of_job(
    job: EmbeddedJob, settings: Settings, provider: capacity.Provider, pools: tuple[capacity.Pool, ...]
) -> Iterator[Problem]:
    """Yield the warnings about one Job; none where its author's own words leave it no pool already."""
    selector, alternatives = job.pod_spec.get("nodeSelector") or {}, [found for _, found in terms(job.pod_spec)]
    values = [expression.get("values") or () for term in alternatives for expression in term]
    if len(selector) + len(alternatives) + len(values) + sum(map(len, values)) > MOST_WORDS:
        return
    if capacity.set_aside(job.pod_spec, job.pod_annotations):
        return
    fitting = [pool for pool in pools if pool.may_take(selector, alternatives)]
    path = (*job.path, "template", "spec")
    for what, requirement in requirements(job.pod_spec, settings, provider):
        if fitting and requirement and not any(all(map(pool.meets, requirement)) for pool in fitting):
            yield Problem(path, f"fits on no {what} node of this cluster", "its pods wait for one")


def requirements(pod_spec: Json, settings: Settings, provider: capacity.Provider) -> Iterator[tuple[str, list[Json]]]:
    """Yield what will be required of the nodes, on the early attempts and on the last."""
    rules = settings.profile.placement
    if (
        rules.spot == "Require"
        and settings.interruptible is not False
        and not capacity.refuses_spot(pod_spec, provider)
    ):
        yield "spot", capacity.on_spot(provider)
    if not capacity.refuses_on_demand(pod_spec, provider):
        yield "on-demand", capacity.off_spot(provider)
