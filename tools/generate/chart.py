"""The generated parts of the Helm chart: its templates are those of manifests/, so that the two cannot differ.

What the chart's values change in a manifest is an Edit. A manifest that no longer has the text of an Edit is an error.
"""

import json
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.documents import document_of
from tools.generate import values_schema
from webhook import __version__

ROOT: Final = Path(__file__).parents[2]
CHART: Final = "charts/retry-policy-webhook"
MANIFESTS: Final = ROOT / "manifests"
NAMESPACE: Final = "retry-policy-system"
MARK: Final = re.compile(r"^ *# (?:generated: [\w ]+|end)\n", re.MULTILINE)
KEY: Final = re.compile(r"^(?P<indent> *)(?P<name>\w+):(?: (?P<value>.*))?$")
LABELS: Final = "retry-policy-webhook.labels"
VERSIONED: Final = "retry-policy-webhook.versioned-labels"
OF_PROMETHEUS: Final = "retry-policy-webhook.prometheus-labels"


class Edit(NamedTuple):
    """A text of a manifest, what the template has in its place, and how often it must be there."""

    old: str
    new: str
    times: int = 1


def template(*files: str, edits: tuple[Edit, ...] = (), labels: str = VERSIONED) -> str:
    """Return the template of manifests; `labels`: the named template with the labels of their objects."""
    text = "---\n".join((MANIFESTS / file).read_text() for file in files)
    text = MARK.sub("", text).replace("{{", '{{ "{{" }}')
    for edit in edits:
        if (found := text.count(edit.old)) != edit.times:
            raise ValueError(f"{', '.join(files)}: {edit.old!r} is there {found} times; it must be {edit.times}")
        text = text.replace(edit.old, edit.new)
    text = text.replace(NAMESPACE, "{{ .Release.Namespace }}")
    block = f'metadata:\n  labels:\n    {{{{- include "{labels}" . | nindent 4 }}}}\n'
    return re.sub(r"^metadata:\n", lambda _: block, text, flags=re.MULTILINE)


def overlay(name: str, labels: str = LABELS) -> str:
    """Return the template of the objects that an overlay adds."""
    root = _kustomization(name)
    resources = (f"overlays/{name}/{file}" for file in root["resources"] if file.endswith(".yaml"))
    return template(*resources, labels=labels) + "".join(map(config_map, root.get("configMapGenerator", ())))


def config_map(generator: dict[str, Any]) -> str:
    """Return the template of a ConfigMap that kustomize generates from files; the chart has a copy of each."""
    labels = "".join(f"    {key}: {json.dumps(value)}\n" for key, value in generator["options"]["labels"].items())
    data = "".join(f'  {file}: |\n    {{{{- .Files.Get "{file}" | nindent 4 }}}}\n' for file in generator["files"])
    return (
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  labels:\n"
        f'    {{{{- include "{OF_PROMETHEUS}" . | nindent 4 }}}}\n{labels}'
        f"  name: {generator['name']}\n  namespace: {{{{ .Release.Namespace }}}}\ndata:\n{data}"
    )


def copies() -> dict[str, Callable[[], str]]:
    """Return a function for each file of a generated ConfigMap that returns its content, by its name in the chart."""
    folder = MANIFESTS / "overlays" / "prometheus"
    files = [file for one in _kustomization("prometheus").get("configMapGenerator", ()) for file in one["files"]]
    return {f"{CHART}/{file}": (folder / file).read_text for file in files}


def _kustomization(name: str) -> Any:
    return document_of((MANIFESTS / "overlays" / name / "kustomization.yaml").read_text())


def when(condition: str, text: str) -> str:
    """Return a text that is in the output only under a condition, indented as its first line."""
    space = re.match(" *", text)
    assert space is not None
    return f"{space[0]}{{{{- if {condition} }}}}\n{text}{space[0]}{{{{- end }}}}\n"


def admission_policies() -> str:
    """Return the template of the admission policies, with what the overlay requested-retries changes in them."""
    never = '      expression: "false"\n'
    lines = textwrap.wrap(runs_again(), 110, break_long_words=False, break_on_hyphens=False)
    expression = "      expression: >-\n" + "".join(f"        {line}\n" for line in lines)
    edit = Edit(
        never,
        f"      {{{{- if .Values.requestedRetries.enabled }}}}\n{expression}"
        f"      {{{{- else }}}}\n{never}      {{{{- end }}}}\n",
    )
    variables = "  variables:\n    - name: optedIn\n"
    resource = "    - name: resource\n      expression: request.resource.resource + '.' + request.resource.group\n"
    base = (MANIFESTS / "base" / "admission-policies.yaml").read_text()
    of_workloads = base[base.rindex(variables, 0, base.index(resource)) : base.index(resource)] + resource
    reruns = when(".Values.requestedRetries.enabled", condition_of_reruns())
    return template("base/admission-policies.yaml", edits=(edit, Edit(of_workloads, reruns + of_workloads)))


def condition_of_reruns() -> str:
    """Return the match condition that the overlay requested-retries adds to the policy of workloads, as text."""
    (patch,) = (one for one in _kustomization("requested-retries")["patches"] if "rerun-of" in one["patch"])
    added = document_of(patch["patch"])[0]["value"]
    return f"    - name: {added['name']}\n      expression: >-\n        {added['expression']}\n"


def runs_again() -> str:
    """Return the expression that the overlay requested-retries puts in place of `false`."""
    (patch,) = (one for one in _kustomization("requested-retries")["patches"] if "runsAgain" in one["patch"])
    return str(document_of(patch["patch"])[1]["value"])


def webhooks() -> str:
    """Return the template of the webhook configurations."""
    metadata = "metadata:\n  name: retry-policy-webhook\n"
    source = "  annotations:\n    cert-manager.io/inject-ca-from: retry-policy-system/retry-policy-webhook\n"
    mutating = f"kind: MutatingWebhookConfiguration\n{metadata}webhooks:\n"
    requested = when(".Values.requestedRetries.enabled", requested_retries_webhook())
    return template(
        "base/webhooks.yaml",
        edits=(
            Edit("failurePolicy: Fail\n", "failurePolicy: {{ .Values.failurePolicy }}\n", times=5),
            Edit(mutating, mutating + requested),
            Edit(metadata, metadata + when(".Values.certManager.enabled", source), times=2),
        ),
    )


def requested_retries_webhook() -> str:
    """Return the webhook that the overlay requested-retries adds, as text."""
    (patch,) = (one["patch"] for one in _kustomization("requested-retries")["patches"] if "webhooks:" in one["patch"])
    return str(patch.partition("webhooks:\n")[2])


def rbac() -> str:
    """Return the template of the roles, which have no permissions for certificates with cert-manager."""
    text = (MANIFESTS / "base" / "rbac.yaml").read_text()
    firsts = (
        "  # The certificate that all replicas serve, which the controller keeps.\n",
        "  # The CAs that the API server trusts when it calls the webhook.\n",
        "  # The webhook's certificate.\n",
    )
    lasts = (
        "      - watch # so that every replica serves a new certificate at once\n",
        "      - patch # caBundle, and no other field\n",
        "      - update # at each renewal\n",
    )
    blocks = [text[text.index(first) : text.index(last) + len(last)] for first, last in zip(firsts, lasts, strict=True)]
    own = "not .Values.certManager.enabled"
    return template("base/rbac.yaml", edits=tuple(Edit(block, when(own, block)) for block in blocks))


def accounts() -> str:
    """Return the template of the Accounts: a role in it has a label of its own."""
    own = 'rbac.authorization.k8s.io/aggregate-to-view: "true"\n'
    text = template("base/accounts.yaml", edits=(Edit(f"  labels:\n    {own}", ""),))
    before, labels, after = text.rpartition("nindent 4 }}\n")
    return f"{before}{labels}    {own}{after}"


def service() -> str:
    """Return the template of the Services, whose label is that of all objects."""
    label = "app.kubernetes.io/name: retry-policy-webhook # the ServiceMonitor in overlays/prometheus selects it\n"
    return template("base/service.yaml", edits=(Edit(f"  labels:\n    {label}", "", times=2),))


def shipped_policy() -> str:
    """Return the ConfigMap's key with the policy, as the template has it."""
    _, _, data = template("base/configmap.yaml").partition("\ndata:\n")
    return textwrap.dedent(data)


def version() -> str:
    """Return the chart's version, and that of the program in it."""
    return f'version: {__version__}\nappVersion: "{__version__}"\n'


def values_table() -> str:
    """Return a table of the values: allowed ones from the schema, defaults and meanings from values.yaml."""
    text = (ROOT / CHART / "values.yaml").read_text()
    defaults, properties = document_of(text), json.loads((ROOT / values_schema.FILE).read_text())["properties"]
    lines = ["| Value | Allowed | Default | |", "|---|---|---|---|"]
    for path, meaning in meanings(text):
        allowed, default = {"properties": properties}, defaults
        for name in path:
            allowed, default = allowed["properties"][name], default[name]
        shown = f"`{json.dumps(default)}`"
        lines.append(f"| `{'.'.join(path)}` | {allowed_by(allowed)} | {shown} | {meaning} |")
    return "".join(f"{line}\n" for line in lines)


def meanings(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path and the comment of each value that has a comment."""
    path: list[str] = []
    comment: list[str] = []
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            comment.append(line.strip("# "))
        elif found := KEY.match(line):
            path = [*path[: len(found["indent"]) // 2], found["name"]]
            if comment:
                yield tuple(path), " ".join(comment).replace("|", "\\|")
            comment = []
        else:
            comment = []


def allowed_by(one: dict[str, Any]) -> str:
    """Return the values that a schema allows, in words."""
    if "$ref" in one:
        return "an object"
    if "enum" in one:
        return ", ".join(f"`{value}`" for value in one["enum"])
    if one["type"] == "integer":
        return f"{one['minimum']} to {one['maximum']}"
    names = {
        "array": "a list",
        "boolean": "`true`, `false`",
        "null": "`null`",
        "object": "an object",
        "string": "a string",
    }
    return ", ".join(names[kind] for kind in ([one["type"]] if isinstance(one["type"], str) else one["type"]))


TEMPLATES: Final = {
    "admission-policies": admission_policies,
    "cert-manager": lambda: overlay("cert-manager"),
    "flow-control": lambda: template("base/flow-control.yaml"),
    "ledger-rbac": lambda: template("base/ledger-rbac.yaml"),
    "poddisruptionbudget": lambda: template("base/poddisruptionbudget.yaml"),
    "prometheus": lambda: overlay("prometheus", OF_PROMETHEUS),
    "protected-keys": lambda: template("base/protected-keys.yaml"),
    "rbac": rbac,
    "requested-retries": lambda: overlay("requested-retries"),
    "service": service,
    "accounts": accounts,
    "serviceaccount": lambda: template("base/serviceaccount.yaml"),
    "webhooks": webhooks,
}
PARTS: Final = {
    f"{CHART}/Chart.yaml": {"version": version},
    f"{CHART}/templates/configmap.yaml": {"shipped policy": shipped_policy},
    **{f"{CHART}/templates/{name}.yaml": {name.replace("-", " "): make} for name, make in TEMPLATES.items()},
    "docs/reference/chart.md": {"values": values_table},
}
