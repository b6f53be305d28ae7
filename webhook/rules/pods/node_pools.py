"""Warns about a Job whose pods would have to run on nodes that no node pool has.

Reads, in the JobSpec:
    template.spec.{nodeSelector,affinity.nodeAffinity}
    template.metadata.annotations: those that ask for reserved or requested capacity

These are only warnings, because a pool is known only if it has had a node since the server started.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from webhook import capacity
from webhook.capacity.contradictions import terms
from webhook.objects.problem import Json, Problem
from webhook.policy.settings import Settings
from webhook.rules.pods import placement
from webhook.systems.kind_spec import EmbeddedJob

MOST_JOBS: Final = 10  # of one object that are judged
MOST_WORDS: Final = 300  # expressions and values of one Job, with its nodeSelector; a Job with more is not judged


def warnings(
    jobs: Iterable[tuple[EmbeddedJob, Settings]], recognised: capacity.Provider | None, pools: tuple[capacity.Pool, ...]
) -> Iterator[Problem]:
    """Yield a warning for each requirement of a Job's pods that no pool meets; `pools`: the known ones."""
    if not pools:
        return
    for job, settings in islice(jobs, MOST_JOBS):
        provider = placement.provider_of(settings.profile, recognised)
        if provider is not None and not settings.skip:
            yield from of_job(job, settings, provider, pools)


def of_job(
    job: EmbeddedJob, settings: Settings, provider: capacity.Provider, pools: tuple[capacity.Pool, ...]
) -> Iterator[Problem]:
    """Yield the warnings about one Job; none if no pool meets even its author's own requirements."""
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
    """Yield the requirements on nodes, first of the early attempts, then of the last ones, each with its name."""
    rules = settings.profile.placement
    if (
        rules.spot == "Require"
        and settings.interruptible is not False
        and not capacity.refuses_spot(pod_spec, provider)
    ):
        yield "spot", capacity.on_spot(provider)
    if not capacity.refuses_on_demand(pod_spec, provider):
        yield "on-demand", capacity.off_spot(provider)
