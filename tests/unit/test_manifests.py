"""The manifests agree with the code and with each other; cluster tests apply them."""

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import click
import jsonpatch
import pytest

from tests.cluster.command_line import run
from tests.documents import document_of, documents_of
from webhook import __version__
from webhook.cli.main import main
from webhook.controller import app as controller
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.pods import pods as pods_of_jobs
from webhook.policy.parse import KEY, load_default, parse
from webhook.serving import app
from webhook.systems.job import spec as batch
from webhook.systems.job_set import spec as job_set
from webhook.tracking import certificates, state_key

ROOT: Final = Path(__file__).parents[2]
MANIFESTS: Final = ROOT / "manifests"
BASE: Final = MANIFESTS / "base"
OVERLAYS: Final = MANIFESTS / "overlays"
HOW_TO: Final = ROOT / "docs" / "how-to"
NAME: Final = "retry-policy-webhook"
CONTROLLER: Final = "retry-policy-controller"
PROGRAMS: Final = (NAME, CONTROLLER)
SYSTEM: Final = "retry-policy-system"
POLICIES: Final = sorted(MANIFESTS.glob("samples/policy-*.yaml"))
# Seconds for open requests on shutdown, for each of the two ports.
SHUTDOWN: Final = 2 * 5.0


@cache
def documents(file: Path) -> list[Json]:
    return documents_of(file.read_text())


def kind(name: str, folder: Path = BASE, *, of: str = NAME) -> Json:
    """Return the object of a kind; of the program `of` if each has one."""
    found = [one for file in sorted(folder.glob("*.yaml")) for one in documents(file) if one["kind"] == name]
    (one,) = [one for one in found if one["metadata"]["name"] == of] if len(found) > 1 else found
    return dict(one)


def every(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield all keys with their values, at every level."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield key, inner
        yield from every(inner)
    for inner in value if isinstance(value, list) else ():
        yield from every(inner)


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> str:
    """Return the name of a Deployment."""
    return str(request.param)


@pytest.fixture
def pods(program: str) -> Json:
    """Return the Deployment's pod template."""
    template: Json = kind("Deployment", of=program)["spec"]["template"]
    return template


@pytest.fixture
def container(pods: Json) -> Json:
    (found,) = pods["spec"]["containers"]
    return dict(found)


def test_the_shipped_policy_means_the_same_as_the_packaged_one() -> None:
    assert parse(kind("ConfigMap")["data"][KEY]) == load_default()


def test_the_shipped_policy_lists_no_field_that_only_newer_versions_know() -> None:
    # A running server refuses unknown fields, so a field that is added here makes the next upgrade fail.
    shipped = document_of(kind("ConfigMap")["data"][KEY])
    assert shipped.keys() == {"apiVersion", "kind", "profiles"}
    assert {
        profile: {name: list(one) for name, one in fields.items()} for profile, fields in shipped["profiles"].items()
    } == {
        "default": {
            "retries": ["limit", "default"],
            "failurePolicy": ["retriableExitCodes"],
            "disruptions": ["limit"],
            "placement": ["provider", "spot"],
        },
        "confirm": {"retries": ["onExceed"], "failurePolicy": ["unknownExit", "manyPods", "hardware"]},
    }


def test_the_documented_uninstall_deletes_every_cluster_scoped_kind() -> None:
    pages = [page.read_text() for page in (ROOT / "docs").rglob("*.md")]
    (section,) = [page.partition("\n## Uninstall\n")[2] for page in pages if "\n## Uninstall\n" in page]
    deleted = {
        kind for kinds in re.findall(r"^\$ kubectl delete (\S+)", section, re.MULTILINE) for kind in kinds.split(",")
    }
    files = [*BASE.glob("*.yaml"), *OVERLAYS.glob("*/*.yaml")]
    manifests = [one for file in files if file.name != "kustomization.yaml" for one in documents(file)]
    assert {one["metadata"].get("namespace", SYSTEM) for one in manifests} == {SYSTEM}
    without_namespace = {one["kind"].lower() for one in manifests if "namespace" not in one["metadata"]}
    assert deleted == {f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s" for kind in without_namespace}


def test_image_and_labels_have_the_products_version() -> None:
    kustomization = documents(BASE / "kustomization.yaml")[0]
    assert [(image["name"], image["newTag"]) for image in kustomization["images"]] == [(NAME, __version__)]
    assert kustomization["labels"][0]["pairs"]["app.kubernetes.io/version"] == __version__


def test_no_manifest_sets_the_ca_bundle_of_a_webhook() -> None:
    for file in MANIFESTS.rglob("*.yaml"):
        assert "caBundle" not in dict(every(documents(file)))


def test_the_server_accepts_its_arguments_and_follows_the_shipped_policy(container: Json) -> None:
    options = parsed(container["args"])
    metadata = kind("ConfigMap")["metadata"]
    assert options["policy_configmap"] == f"{metadata['namespace']}/{metadata['name']}"
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": options["health_port"]} | ({"https": options["port"]} if "port" in options else {})


def parsed(arguments: list[str]) -> dict[str, Any]:
    """Return the options in a container's arguments; raise click.UsageError."""
    command, *rest = arguments
    serve = main.get_command(click.Context(main), command)
    assert serve is not None
    return dict(serve.make_context(command, rest).params)


def test_an_unknown_argument_is_an_error() -> None:
    with pytest.raises(click.UsageError):
        parsed(["serve", "--policy-config-map=a/b"])


def test_a_replica_drains_before_it_is_killed() -> None:
    pods = kind("Deployment")["spec"]["template"]
    assert pods["spec"]["terminationGracePeriodSeconds"] > app.DRAIN + SHUTDOWN


def test_a_roll_out_starts_a_new_replica_before_it_stops_an_old_one(program: str) -> None:
    assert kind("Deployment", of=program)["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("Deployment", "spec.selector.matchLabels"),
        ("Service", "spec.selector"),
        ("PodDisruptionBudget", "spec.selector.matchLabels"),
        ("NetworkPolicy", "spec.podSelector.matchLabels"),
    ],
)
def test_every_selector_finds_the_pods_of_its_program_alone(name: str, path: str, program: str) -> None:
    selector: Any = kind(name, of=program)
    for key in path.split("."):
        selector = selector[key]
    assert selector
    labels = {one: kind("Deployment", of=one)["spec"]["template"]["metadata"]["labels"] for one in PROGRAMS}
    assert [one for one in PROGRAMS if selector.items() <= labels[one].items()] == [program]


def test_replicas_spread_over_nodes_and_zones(pods: Json) -> None:
    spread = pods["spec"]["topologySpreadConstraints"]
    assert [one["topologyKey"] for one in spread] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    for one in spread:
        assert one["labelSelector"]["matchLabels"].items() <= pods["metadata"]["labels"].items()


def test_services_probes_and_network_policy_use_existing_ports(program: str, container: Json) -> None:
    ports = {port["name"] for port in container["ports"]}
    probes = {container[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe")}
    targets = {port["targetPort"] for port in kind("Service", of=program)["spec"]["ports"]}
    assert (targets, set(ingress(kind("NetworkPolicy", of=program)))) == (ports, ports)
    assert probes == {"http"}


def ingress(policy: Json | None = None) -> dict[str, Any]:
    """Return the sources that a NetworkPolicy allows, by port; None for any source."""
    rules = (policy or kind("NetworkPolicy"))["spec"]["ingress"]
    return {port["port"]: rule.get("from") for rule in rules for port in rule["ports"]}


def block_of(page: str, language: str, containing: str) -> str:
    """Return the only code block of a page in this language that contains a text."""
    blocks = re.findall(rf"```{language}\n(.*?)```", (HOW_TO / page).read_text(), re.DOTALL)
    (found,) = [block for block in blocks if containing in block]
    return str(found)


def test_only_the_namespaces_that_the_docs_label_can_reach_the_metrics() -> None:
    labelled = {"metrics": "enabled"}
    assert ingress()["http"] == [{"namespaceSelector": {"matchLabels": labelled}}]
    command = "kubectl label namespace monitoring metrics=enabled"
    assert [page for page in ("install.md", "network.md") if command not in (HOW_TO / page).read_text()] == []


def test_the_documented_patch_restricts_the_open_admission_port_to_api_servers() -> None:
    assert ingress()["https"] is None
    (patch,) = document_of(block_of("network.md", "yaml", "/spec/ingress/0/from"))["patches"]
    policy = kind("NetworkPolicy")
    assert patch["target"] == {"kind": policy["kind"], "name": policy["metadata"]["name"]}
    patched = jsonpatch.apply_patch(policy, document_of(patch["patch"]))
    assert ingress(patched) == {**ingress(), "https": [{"ipBlock": {"cidr": "192.0.2.0/28"}}]}


def test_the_policy_for_cilium_in_the_docs_selects_the_same_pods_and_port() -> None:
    (container,) = kind("Deployment")["spec"]["template"]["spec"]["containers"]
    cilium = document_of(block_of("network.md", "yaml", "kind: CiliumNetworkPolicy"))
    policy = kind("NetworkPolicy")
    assert cilium["metadata"]["namespace"] == policy["metadata"]["namespace"]
    assert cilium["spec"]["endpointSelector"] == policy["spec"]["podSelector"]
    (port,) = [port["containerPort"] for port in container["ports"] if port["name"] == "https"]
    assert cilium["spec"]["ingress"][0]["toPorts"][0]["ports"] == [{"port": str(port), "protocol": "TCP"}]


def test_the_command_in_the_docs_lists_the_clients_of_the_admission_port() -> None:
    (container,) = kind("Deployment")["spec"]["template"]["spec"]["containers"]
    (program,) = re.findall(r"python3 -c '(.*?)'", block_of("network.md", "console", "/proc/net/tcp"), re.DOTALL)
    (shipped,) = [port["containerPort"] for port in container["ports"] if port["name"] == "https"]
    assert f":{shipped:04X}" in program
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.7", 0)):
            command = (sys.executable, "-c", program.replace(f":{shipped:04X}", f":{port:04X}"))
            assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "{'127.0.0.7'}\n"


def test_every_webhook_calls_the_right_path_of_the_service() -> None:
    service = kind("Service")
    (port,) = [port["port"] for port in service["spec"]["ports"] if port["targetPort"] == "https"]
    for name, path in (("MutatingWebhookConfiguration", "/mutate"), ("ValidatingWebhookConfiguration", "/validate")):
        for webhook in kind(name)["webhooks"]:
            reference = {key: service["metadata"][key] for key in ("name", "namespace")}
            assert webhook["clientConfig"] == {"service": {**reference, "port": port, "path": path}}
            assert (webhook["timeoutSeconds"], webhook["sideEffects"]) == (5, "None")


def test_webhooks_for_objects_of_admins_are_fail_open() -> None:
    policies = {one["name"]: one["failurePolicy"] for one in kind("ValidatingWebhookConfiguration")["webhooks"]}
    assert policies["namespaces.retry-policy.dev"] == policies["policy.retry-policy.dev"] == "Ignore"


def variables_of(container: Json) -> dict[str, str]:
    """Return the environment variables of a container by the field of the pod that each has."""
    return {variable["valueFrom"]["fieldRef"]["fieldPath"]: variable["name"] for variable in container["env"]}


def test_the_last_good_policy_is_kept_in_an_empty_dir_of_the_pod(pods: Json, container: Json) -> None:
    (mount,) = container["volumeMounts"]
    (volume,) = pods["spec"]["volumes"]
    assert (volume["name"], mount["mountPath"]) == (mount["name"], "/tmp")  # noqa: S108 - of the container
    assert volume["emptyDir"]["sizeLimit"] == "4Mi"  # room for two of 1 MiB: one is written beside the other
    assert container["securityContext"]["readOnlyRootFilesystem"]


def test_the_servers_certificate_is_for_the_webhooks_service(container: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variables_of(container)["metadata.namespace"], SYSTEM)
    services = [value for one in documents(BASE / "webhooks.yaml") for key, value in every(one) if key == "service"]
    assert services
    for service in services:
        assert f"{service['name']}.{service['namespace']}.svc" in controller.hosts_of(controller.ControlOptions())


def test_the_roles_use_the_servers_names_of_secret_and_configurations() -> None:
    rules = [
        rule for one in documents(BASE / "rbac.yaml") for rule in one.get("rules") or () if "resourceNames" in rule
    ]
    named = {
        resource: {name for rule in rules if resource in rule["resources"] for name in rule["resourceNames"]}
        for rule in rules
        for resource in rule["resources"]
    }
    assert named["secrets"] == {certificates.SECRET, state_key.SECRET}
    assert named["mutatingwebhookconfigurations"] == {certificates.CONFIGURATIONS}
    assert {one["metadata"]["name"] for one in documents(BASE / "webhooks.yaml")} == {certificates.CONFIGURATIONS}


def test_the_certificate_is_for_the_service_and_mounted_where_the_webhook_reads_it() -> None:
    (container,) = kind("Deployment")["spec"]["template"]["spec"]["containers"]
    overlay = OVERLAYS / "cert-manager"
    patch = documents(overlay / "kustomization.yaml")[0]["patches"][1]["patch"]
    added: dict[str, list[Any]] = {operation["path"]: [] for operation in document_of(patch)}
    for operation in document_of(patch):
        added[operation["path"]].append(operation["value"])
    options = parsed([*container["args"], *added["/spec/template/spec/containers/0/args/-"]])
    (mount,) = added["/spec/template/spec/containers/0/volumeMounts/-"]
    (volume,) = added["/spec/template/spec/volumes/-"]
    issued = {one["metadata"]["name"]: one["spec"] for one in documents(overlay / "certificates.yaml")}
    assert issued[NAME]["dnsNames"] == [f"{NAME}.{SYSTEM}.svc"]
    assert volume == {"name": mount["name"], "secret": {"secretName": issued[NAME]["secretName"]}}
    files = (Path(mount["mountPath"]) / "tls.crt", Path(mount["mountPath"]) / "tls.key")
    assert (options["tls_cert"], options["tls_key"]) == files


def test_prometheus_scrapes_the_services_metrics_port() -> None:
    monitor = kind("ServiceMonitor", OVERLAYS / "prometheus")["spec"]
    service = kind("Service")
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert {one["port"] for one in monitor["endpoints"]} <= {port["name"] for port in service["spec"]["ports"]}


@pytest.mark.parametrize("file", POLICIES, ids=lambda file: file.stem)
def test_a_sample_policy_has_no_problem(file: Path) -> None:
    checked = run("check", "--policy", str(file))
    assert (checked.exit_code, checked.stderr) == (0, "")
    assert "policy is valid" in checked.stdout


def test_the_sample_policies_are_for_aks_eks_gke_and_karpenter() -> None:
    providers = {"policy-aks", "policy-eks", "policy-gke", "policy-karpenter"}
    assert {file.stem for file in POLICIES} == {*providers, "policy-on-failure"}


def test_only_the_sample_job_with_25_retries_is_denied() -> None:
    checked = run("check", "-f", str(MANIFESTS / "samples"))
    (line,) = checked.stdout.splitlines()
    assert "job-with-25-retries.yaml:1 spec.backoffLimit" in line
    assert checked.exit_code == 1
    assert all("only exit code 143 is retried" in warning for warning in checked.stderr.splitlines())


def expressions_of(policy: str) -> str:
    of_name = [one for one in documents(BASE / "protected-keys.yaml") if one["metadata"]["name"] == policy]
    spec = next(one["spec"] for one in of_name if one["kind"] == "ValidatingAdmissionPolicy")
    return " ".join(one["expression"] for one in (*spec.get("variables", ()), *spec["validations"]))


def test_keys_that_only_the_server_writes_are_protected_even_where_no_webhook_is_called() -> None:
    on_pods = expressions_of(f"{NAME}-pod-keys")
    for key in (names.PROFILE, names.PLACEMENT, names.ATTEMPT_SOURCE, names.COUNTED):
        assert f"'{key}'" in on_pods
    in_status = expressions_of(f"{NAME}-job-status-keys")
    for key in (names.PROFILE, names.POLICY, names.RETRY_HISTORY):
        assert f"'{key}'" in in_status


def test_the_labels_by_which_the_ledger_finds_a_pods_job_are_protected_too() -> None:
    on_pods = expressions_of(f"{NAME}-pod-keys")
    for key in (pods_of_jobs.INDEX, batch.INDEX_FAILURES, job_set.SET_NAME, job_set.RESTART):
        assert f"'{key}'" in on_pods


def test_the_conditions_of_the_webhooks_go_through_100_entries_of_an_object_at_most() -> None:
    expressions = [
        condition["expression"]
        for one in documents(BASE / "webhooks.yaml")
        for hook in one["webhooks"]
        for condition in hook.get("matchConditions", ())
    ]
    gone_through = {
        (expression, listed)
        for expression in expressions
        for listed in re.findall(r"(object\.[\w.?]+\.orValue\([^)]*\))\.(?:exists|all|filter|map)\(", expression)
    }
    assert len(gone_through) == 5
    for expression, listed in gone_through:
        assert f"{listed}.size() > 100 ||" in expression.partition(f"{listed}.exists(")[0], (listed, expression)
