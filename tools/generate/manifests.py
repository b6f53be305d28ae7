"""The parts of manifests/ that are generated from the table of kinds."""

from collections.abc import Iterator

from webhook.systems import airflow
from webhook.systems.accounts import WITHOUT_JOBS
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kinds import KINDS
from webhook.systems.spark import spec as spark

WATCHED = (batch.JOB, JOB_SET)


def rules(kinds: list[KindSpec], scope: str) -> str:
    """Return the rules of a webhook: a line for the kinds of a group that have the same versions."""
    by_versions: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for kind in kinds:
        by_versions.setdefault((kind.group, kind.versions), []).append(kind.resource)
    line = "- {{apiGroups: [{}], apiVersions: [{}], resources: [{}], operations: [CREATE, UPDATE], scope: {}}}\n"
    return "".join(
        line.format(group, ", ".join(versions), ", ".join(names), scope)
        for (group, versions), names in by_versions.items()
    )


def namespaced_kinds() -> str:
    """Return the rules for namespaced kinds."""
    return rules([kind for kind in KINDS.values() if kind.admitted and kind.namespaced], "Namespaced")


def cluster_kinds() -> str:
    """Return the rules for cluster-scoped kinds."""
    return rules([kind for kind in KINDS.values() if kind.admitted and not kind.namespaced], "Cluster")


def batch_systems() -> str:
    """Return the condition on pods without a Job's label: they have opted in, or a batch system created them.

    A Job with a selector of its own does not label its pods. The head of manifests/base/webhooks.yaml says why 100.
    """
    controllers = [f"'{kind.group}/{kind.kind.lower()}'" for kind in KINDS.values() if kind.owns_pods]
    makers = [f"'{maker}'" for maker in airflow.MAKERS]
    conditions = [
        "['attempt', 'interruptible'].exists(key,",
        "'retry-policy.dev/' + key in object.metadata.?annotations.orValue({})) ||",
        "object.metadata.?ownerReferences.orValue([]).size() > 100 ||",
        "object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false) &&",
        "(o.apiVersion.split('/')[0] + '/' + o.kind).lowerAscii() in",
        *wrapped(controllers),
        f"['{spark.LAUNCHED}', '{spark.APACHE_APPLICATION}'].exists(key,",
        "key in object.metadata.?labels.orValue({})) ||",
        f"('{airflow.TRY_NUMBER}' in object.metadata.?labels.orValue({{}}) &&",
        f"[{', '.join(makers)}].exists(maker,",
        "maker in object.metadata.?labels.orValue({})))",
    ]
    lines = ["- name: asks-to-take-part-or-is-batch", "  expression: >-", *(f"    {line}" for line in conditions)]
    return "\n".join(lines) + "\n"


def wrapped(entries: list[str]) -> Iterator[str]:
    """Yield the lines of a list that is wrapped."""
    for index in range(0, len(entries), 3):
        begin = "[" if index == 0 else " "
        end = "]) ||" if index + 3 >= len(entries) else ","
        yield begin + ", ".join(entries[index : index + 3]) + end


def controllers() -> str:
    """Return the rights to read the controllers that count attempts, and the workloads that have an account.

    The latter are watched. Without Job and JobSet, which have rules of their own.
    """
    watched: dict[str, list[str]] = {}
    read: dict[str, list[str]] = {}
    for kind in KINDS.values():
        if kind in WITHOUT_JOBS:
            watched.setdefault(kind.group, []).append(kind.resource)
        elif (kind.owns_pods or kind.counts) and kind not in WATCHED:
            read.setdefault(kind.group, []).append(kind.resource)
    return rights(watched, "list, watch, get") + rights(read, "get")


def rights(resources: dict[str, list[str]], verbs: str) -> str:
    """Return the rules that allow these verbs, for the resources of each group."""
    return "".join(
        f"- apiGroups: [{group}]\n  resources: [{', '.join(names)}]\n  verbs: [{verbs}]\n"
        for group, names in resources.items()
    )
