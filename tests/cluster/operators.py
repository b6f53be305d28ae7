"""The CRDs of the kinds that the webhook knows, from the Go modules of their operators.

They are fetched once, into the cache. Volcano's module has only types: its CRDs are generated from them as in Volcano
itself. Those of Flyte and of Apache Spark, which have no module, are written by hand (crds/).
"""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from tests.cluster import binaries, toolchain
from tests.cluster.binaries import Binary
from tests.cluster.processes import HarnessError
from webhook.systems.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.processes import Processes

AT_ONCE: Final = 3
CREATE: Final = ("create", "--validate=false")
BY_HAND: Final = Path(__file__).parent / "crds"
UNTYPED: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Module:
    """A Go module with version and checksum, and its files with CRDs; `{}` stands for each of the names."""

    path: str
    version: str
    checksum: str
    files: str
    names: str


# Those of JobSet, Kueue and Tekton are also in tools/.
MODULES: Final = (
    Module(
        "sigs.k8s.io/jobset",
        "v0.12.0",
        "h1:YYPuV0px8Ongq/RXmJg6V0w2UC67aiR+rCMD06vhQQQ=",
        "config/components/crd/bases/jobset.x-k8s.io_{}.yaml",
        "jobsets",
    ),
    Module(
        "github.com/tektoncd/pipeline",
        "v1.9.0",
        "h1:f/5Vwq1bF4eQQk3hiE7Y5fMvq1nJRTxqqhq5E9YZBeQ=",
        "config/300-crds/300-{}.yaml",
        "task taskrun pipeline pipelinerun customrun stepaction verificationpolicy resolutionrequest",
    ),
    Module(
        "github.com/tektoncd/triggers",
        "v0.34.0",
        "h1:CuhG1moThPGEMlxPUcoBDDplJ3FAczzF8MMAjGScRY0=",
        "config/300-{}.yaml",
        "triggertemplate",
    ),
    Module(
        "github.com/project-codeflare/appwrapper",
        "v1.2.0",
        "h1:MvenqEV/NuNOoq9SmttRABw0Yueiu8p3S0kFOybYeZo=",
        "config/crd/bases/workload.codeflare.dev_{}.yaml",
        "appwrappers",
    ),
    # For Workflow the full CRD, which has a type for each field. The other kinds contain the same WorkflowSpec and have
    # the minimal CRDs, which are usual: four full ones would be half of the API server's work with CRDs.
    Module(
        "github.com/argoproj/argo-workflows/v3",
        "v3.7.3",
        "h1:b0o03RTLXIL7lQunDEvLoDTeI5TbfXe2obGaItvvifk=",
        "manifests/base/crds/{}.yaml",
        "full/argoproj.io_workflows minimal/argoproj.io_workflowtemplates minimal/argoproj.io_clusterworkflowtemplates"
        " minimal/argoproj.io_cronworkflows",
    ),
    # Its MPIJob is v1. mpi-operator has a CRD with the same name for v2beta1, and a cluster can have only one of them:
    # the version is added without types.
    Module(
        "github.com/kubeflow/training-operator",
        "v1.9.3",
        "h1:aaSHqskOtCY8Dn8sVd+l9p5XAczW6O0nYMPjVLAw/lc=",
        "manifests/base/crds/kubeflow.org_{}.yaml",
        "pytorchjobs tfjobs mpijobs xgboostjobs paddlejobs jaxjobs",
    ),
    Module(
        "github.com/kubeflow/trainer/v2",
        "v2.1.0",
        "h1:jRABD9ZYToamNH2atHze3L/VC/v6KCAqUEqsOQOjVTg=",
        "manifests/base/crds/trainer.kubeflow.org_{}.yaml",
        "trainjobs trainingruntimes clustertrainingruntimes",
    ),
    Module(
        "github.com/ray-project/kuberay/ray-operator",
        "v1.6.2",
        "h1:XUckRswLMyk71D00L62d2Vanh0fVkNqu56+IF/rr+O0=",
        "config/crd/bases/ray.io_{}.yaml",
        "rayjobs raycronjobs rayclusters",
    ),
    Module(
        "github.com/kubeflow/spark-operator/v2",
        "v2.4.0",
        "h1:Bo5rz5dlhqYEa7e/TLtUEVXDMNRotnVaQ4VLCyeLeOc=",
        "config/crd/bases/sparkoperator.k8s.io_{}.yaml",
        "sparkapplications scheduledsparkapplications",
    ),
    Module(
        "sigs.k8s.io/kueue",
        "v0.19.2",
        "h1:mPNzr37u0nwI7ikST5QQl5gg6EgtYOAvC9ZbTgywdN8=",
        "config/components/crd/bases/kueue.x-k8s.io_{}.yaml",
        "workloads workloadpriorityclasses localqueues clusterqueues cohorts resourceflavors topologies admissionchecks"
        " provisioningrequestconfigs multikueueconfigs multikueueclusters",
    ),
)
# A test replaces the older CRD by this one: since Trainer 2.2 TrainJobs have other fields.
NEWER_TRAINER: Final = Module(
    "github.com/kubeflow/trainer/v2",
    "v2.3.0",
    "h1:Je+e7zvTLzB4qW09J1fB7pZrqvPtWuGng2NqdN5p5QU=",
    "manifests/base/crds/trainer.kubeflow.org_{}.yaml",
    "trainjobs",
)
# The MPI operator replaces the training operator's CRD by this one, where it runs.
MPI_OPERATOR: Final = Module(
    "github.com/kubeflow/mpi-operator",
    "v0.6.0",
    "h1:RzzG03oyQIiHe/SH2k19N+Hp4QkxEsG2l9G1T7US+ys=",
    "manifests/base/kubeflow.org_{}.yaml",
    "mpijobs",
)
# The modules whose controllers run, and the files with their webhook configurations.
WEBHOOKS: Final = {"sigs.k8s.io/jobset": "job-set-webhooks", "sigs.k8s.io/kueue": "kueue-webhooks"}
TEKTON: Final = "github.com/tektoncd/pipeline"
TEKTON_CONFIGURATION: Final = "tekton-configuration"
KUEUE_SYSTEM: Final = "kueue-system"
KUEUE_SERVICE: Final = "kueue-webhook-service"
OTHER: Final = "other-crds"
CONTROLLER_GEN: Final = Binary("controller-gen", "volcano", "sigs.k8s.io/controller-tools/cmd/controller-gen")
# Commands, on the bus, end and suspend Jobs.
VOLCANO_TYPES: Final = ";".join(f"volcano.sh/apis/pkg/apis/{group}/v1alpha1" for group in ("batch", "bus", "flow"))
# As in Volcano's Makefile, but without descriptions; embedded metadata keeps the annotations of tasks.
VOLCANO_CRDS: Final = "crd:crdVersions=v1,generateEmbeddedObjectMeta=true,maxDescLen=0"


@dataclass(frozen=True, slots=True)
class Operators:
    """The folders of fetched files: CRDs and webhook configurations, each a kustomization, and ConfigMaps.

    `other_crds`: those that replace one of `crds`, for a time or where another operator runs.
    """

    crds: Path
    job_set_webhooks: Path
    kueue_webhooks: Path
    tekton_configuration: Path
    other_crds: Path


def fetch() -> Operators:
    """Return the folders in the cache for this version of the file; fill the cache first if needed."""
    pins = [(CONTROLLER_GEN.folder / name).read_text() for name in ("go.mod", "go.sum")]
    versions = [f"{name}: {row.versions}" for name, row in KINDS.items()]
    folder = toolchain.cache() / f"operators-{toolchain.digest(Path(__file__).read_text(), *pins, *versions)}"
    found = Operators(*(folder / name for name in ("crds", *WEBHOOKS.values(), TEKTON_CONFIGURATION, OTHER)))
    if not folder.exists():
        binaries.build([CONTROLLER_GEN])
        with toolchain.only_one():
            if not folder.exists():
                unfinished = toolchain.cache() / ".operators"
                shutil.rmtree(unfinished, ignore_errors=True)
                _fill(unfinished)
                unfinished.rename(folder)
    return found


def install(processes: Processes, kubectl: Kubectl, operators: Operators) -> None:
    """Install the CRDs; return when the API server serves their kinds; raise HarnessError if it rejects one."""
    files = sorted([*operators.crds.iterdir(), *BY_HAND.iterdir()], key=lambda file: file.stat().st_size)
    parts = [files[first::AT_ONCE] for first in range(AT_ONCE)]
    with ThreadPoolExecutor() as executor:
        # Not with apply: they are too long for the annotation that it writes.
        for created in executor.map(lambda part: kubectl.run(*CREATE, *(f"--filename={file}" for file in part)), parts):
            if created.returncode:
                raise HarnessError(created.stderr)
    by_hand = (crd for file in BY_HAND.iterdir() for crd in yaml.load_all(file.read_text(), Loader))
    names = {file.stem for file in operators.crds.iterdir()} | {crd["metadata"]["name"] for crd in by_hand}
    processes.wait_until(lambda: _are_served(kubectl, names), "the CRDs to be Established", log="kube-apiserver")


def add_untyped(kubectl: Kubectl, group: str, version: str, kind: str) -> None:
    """Install a CRD without types, for a kind that a controller watches and no test uses; return when it is served."""
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": UNTYPED}
    served = {"name": version, "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # The API server asks for the annotation in groups that end in k8s.io.
        "metadata": {"name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": "unapproved"}},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [served],
        },
    }
    kubectl.apply(crd)
    kubectl.run("wait", f"crd/{plural}.{group}", "--for=condition=Established")


def _are_served(kubectl: Kubectl, names: set[str]) -> bool:
    return names <= set(kubectl.run("api-resources", "--cached=false", "--output=name").stdout.split())


def _fill(folder: Path) -> None:
    for name in ("crds", OTHER):
        (folder / name).mkdir(parents=True)
    go = toolchain.go(CONTROLLER_GEN.go_version)
    for module, source in download(go, (*MODULES, NEWER_TRAINER, MPI_OPERATOR)).items():
        kept = folder / (OTHER if module in {NEWER_TRAINER, MPI_OPERATOR} else "crds")
        for name in module.names.split():
            _save(yaml.load_all((source / module.files.format(name)).read_text(), Loader), kept)
        if module.path in WEBHOOKS:
            _copy(source / "config" / "components" / "webhook", folder / WEBHOOKS[module.path])
        if module.path == TEKTON:
            _copy(source / "config", folder / TEKTON_CONFIGURATION, "config-*.yaml")
    _generate(go, folder / "volcano")
    for file in (folder / "volcano").iterdir():
        _save(yaml.load_all(file.read_text(), Loader), folder / "crds")


def _copy(source: Path, target: Path, files: str = "**/*.yaml") -> None:
    """Copy a folder of Go's own cache without its file modes, which forbid changes and deletion."""
    for file in source.glob(files):
        copied = target / file.relative_to(source)
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_text(file.read_text())


def download(go: Path, modules: Sequence[Module]) -> Mapping[Module, Path]:
    """Return each module's folder in Go's own cache; raise HarnessError if a checksum differs."""
    printed = toolchain.run(
        "download operators",
        [go, "mod", "download", "-json", *(f"{module.path}@{module.version}" for module in modules)],
        folder=toolchain.cache(),  # not a Go module
        # Go's own check needs a database on the internet; the checksums in MODULES replace it.
        environment={**os.environ, **toolchain.SETTINGS, "GOFLAGS": "", "GOSUMDB": "off"},
    )
    found = {}
    decoder = json.JSONDecoder()
    for module in modules:
        answer, end = decoder.raw_decode(printed)
        printed = printed[end:].lstrip()
        if (answer["Path"], answer["Sum"]) != (module.path, module.checksum):
            raise HarnessError(
                f"{module.path}@{module.version} does not have the pinned checksum: it has {answer['Sum']}"
            )
        found[module] = Path(answer["Dir"])
    return found


def _generate(go: Path, folder: Path) -> None:
    toolchain.run(
        "generate Volcano's CRDs",
        [CONTROLLER_GEN.path, VOLCANO_CRDS, f"paths={VOLCANO_TYPES}", f"output:crd:dir={folder}"],
        folder=CONTROLLER_GEN.folder,
        environment={
            **os.environ,
            **toolchain.SETTINGS,
            "GOFLAGS": "-mod=readonly",
            "PATH": os.pathsep.join([str(go.parent), os.environ["PATH"]]),
        },
    )


def _save(documents: Iterable[Object], folder: Path) -> None:
    """Write CRDs without conversion by operators that do not run, and without parts that slow the API server down."""
    for crd in documents:
        spec = crd["spec"]
        if spec.get("conversion", {}).get("strategy") == "Webhook":
            spec["conversion"] = {"strategy": "None"}  # the operator that converts does not run here
        row = KINDS.get((spec["group"], spec["names"]["kind"]))
        asked_about = () if row is None else row.versions
        if spec["group"] == "kueue.x-k8s.io":
            # Its controller uses the newest version.
            newest = max(spec["versions"], key=lambda one: str(one["name"]))
            spec["versions"] = [{**newest, "storage": True, "served": True}]
            service = {"namespace": KUEUE_SYSTEM, "name": KUEUE_SERVICE, "path": "/convert"}
            called = {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]}
            spec["conversion"] = {"strategy": "Webhook", "webhook": called}
        spec["versions"] = [one for one in spec["versions"] if one["storage"] or one["name"] in asked_about]
        if crd["metadata"]["name"] == "mpijobs.kubeflow.org" and all(one["name"] == "v1" for one in spec["versions"]):
            added = {"name": "v2beta1", "storage": False, "schema": {"openAPIV3Schema": UNTYPED}}
            spec["versions"].append({**spec["versions"][0], **added})
        if crd["metadata"]["name"] == "workflows.argoproj.io":
            for version in spec["versions"]:  # the status contains complete templates, and is larger than the spec
                version["schema"]["openAPIV3Schema"]["properties"]["status"] = UNTYPED
        (folder / f"{crd['metadata']['name']}.json").write_text(json.dumps(_without_descriptions(crd)))


def _without_descriptions(value: Any) -> Any:
    """Return a copy without the descriptions of fields; a field named `description` is an object, never a string.

    Descriptions are most of a CRD. The API server keeps each schema several times, parsed, and merges all into its
    OpenAPI documents again and again: with descriptions these CRDs take minutes and hundreds of MiB.
    """
    if isinstance(value, dict):
        described = isinstance(value.get("description"), str)
        return {
            key: _without_descriptions(one) for key, one in value.items() if not (key == "description" and described)
        }
    return [_without_descriptions(one) for one in value] if isinstance(value, list) else value
