"""The parts of manifests/ that are generated from the systems: the kinds beside Job and JobSet that have an account."""

import json
import textwrap
from collections.abc import Iterable
from typing import Final

from tools.generate import manifests
from webhook.kube import names
from webhook.objects.problem import Path
from webhook.pods.pods import INDEX
from webhook.rules.pods.decision import POD_KEYS
from webhook.systems import pods as places
from webhook.systems.accounts import SYSTEMS, WITHOUT_JOBS
from webhook.systems.job import spec as batch
from webhook.systems.kind_spec import KindSpec
from webhook.systems.reruns import ADAPTERS
from webhook.systems.system import System

WIDTH: Final = 108  # of a line
# The annotations that admission alone writes on a pod; the ledger adds COUNTED.
FROZEN: Final = tuple(key for key in POD_KEYS if key != names.COUNTED)
WRITTEN: Final = [
    kind for kind in WITHOUT_JOBS if SYSTEMS[kind].writes or kind in ADAPTERS
]  # by the server, in their spec


def by_group(kinds: Iterable[KindSpec]) -> dict[str, list[str]]:
    """Return the resources of kinds by their group."""
    found: dict[str, list[str]] = {}
    for kind in kinds:
        found.setdefault(kind.group, []).append(kind.resource)
    return found


def rights() -> str:
    """Return the rights of the ledger to end or suspend workloads by their spec."""
    return manifests.rights(by_group(kind for kind in WITHOUT_JOBS if SYSTEMS[kind].writes), "patch")


def resource_rules() -> str:
    """Return the rules of an admission policy that judges updates of the workloads."""
    return "".join(
        f'- {{apiGroups: [{group}], apiVersions: ["*"], operations: [UPDATE], resources: [{", ".join(resources)}],'
        " scope: Namespaced}\n"
        for group, resources in by_group(WRITTEN).items()
    )


def fields() -> str:
    """Return the variable with the changes of a spec that end or suspend a workload: pairs of resource and field."""
    lines = [f"{line} ||" for kind in WITHOUT_JOBS for line in changes(SYSTEMS[kind])] or ["false ||"]
    lines[-1] = lines[-1].removesuffix(" ||")
    return "- expression: >-\n" + textwrap.indent(
        "[variables.spec, variables.specBefore].all(side, side.all(field,\n"
        "variables.spec[?field] == variables.specBefore[?field] ||\n"
        "(variables.resource == 'pipelineruns.tekton.dev' && field == 'status' && !has(variables.spec.status) &&\n"
        "variables.optedIn && variables.specBefore.status != 'PipelineRunPending') ||\n"
        "(variables.optedIn && (\n" + "\n".join(lines) + "))))\n",
        "    ",
    )


def changes(system: System) -> list[str]:
    """Return an expression for each field of a spec that a system's writes may change."""
    kind, tops = system.kind, dict.fromkeys(path[0] for path in system.writes)
    here = f"variables.resource == '{kind.resource}.{kind.group}'"
    return [f"({here} && field == '{top}' && {of_field(system, str(top))})" for top in tops]


def of_field(system: System, top: str) -> str:
    """Return the expression for what one field at the top of the spec may be after a write."""
    writes = {path: values for path, values in system.writes.items() if path[0] == top}
    if (top,) in writes:
        return allowed("variables.spec", (top,), writes[top,])
    inner = " ||\n ".join(
        f"(inner == '{path[1]}' && {allowed(f'variables.spec.{top}', path[1:], values)})"
        for path, values in writes.items()
    )
    sides = f"variables.spec.?{top}.orValue({{}})", f"variables.specBefore.?{top}.orValue({{}})"
    return f"[{', '.join(sides)}].all(one, one.all(inner,\n {sides[0]}[?inner] == {sides[1]}[?inner] ||\n {inner}))"


def allowed(parent: str, path: Path, values: tuple[str | bool, ...]) -> str:
    """Return the expression for the values that a field may get; any text if there are none."""
    field = f"{parent}.?{path[0]}"
    if not values:
        return f"type({field}.orValue('')) == string"
    found = " || ".join(f"{field} == optional.of({literal(value)})" for value in values)
    return f"({found})" if len(values) > 1 else found


def literal(value: str | bool) -> str:  # noqa: FBT001 - a value of a field
    """Return a value in CEL."""
    return json.dumps(value) if isinstance(value, bool) else f"'{value}'"


def pod_labels() -> str:
    """Return the variable with the labels of a pod by which the ledger finds its workload, and that have changed."""
    return changed("labels", (names.PROFILE, *places.READ["labels"]))


def pod_annotations() -> str:
    """Return the variable with the annotations of a pod by which it is counted, and that have changed."""
    return changed("annotations", (*FROZEN, *places.READ["annotations"]))


def job_pod_annotations() -> str:
    """Return the same of a pod of a Job: from the failure counts the Job controller computes what an index has left."""
    return changed("annotations", (*FROZEN, INDEX, batch.INDEX_FAILURES, batch.INDEX_IGNORED_FAILURES))


def changed(part: str, keys: tuple[str, ...]) -> str:
    """Return a variable with those of the keys whose values an update changes."""
    lines = textwrap.wrap(f"[{', '.join(repr(key) for key in keys)}].filter(key,", WIDTH, break_on_hyphens=False)
    text = "\n".join([*lines, f"object.metadata.?{part}[?key] != oldObject.metadata.?{part}[?key])"])
    return f"- name: {part}\n  expression: >-\n{textwrap.indent(text, '    ')}\n"
