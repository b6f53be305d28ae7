"""The recipes of CONTRIBUTING.md, followed in a copy: each suffices, and half of one does not import."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Final

import pytest

from tools.generate import FILES, PART, PARTS

ROOT: Final = Path(__file__).parents[2]
TYPED: Final = ROOT / ".mypy_cache"
NOT_COPIED: Final = shutil.ignore_patterns(".*", "*.egg-info", "*.svg", "*.png")

# A kind, an attempt source and a system with an account.
INIT: Final = '"""Render."""\n\nPARTS = ("spec", "pods", "account")\n'
SPEC: Final = '''"""example.dev/v1: Renders."""

from typing import Final

from webhook.systems.core import METADATA, POD_TEMPLATE
from webhook.systems.kind_spec import KindSpec, RetryField

RENDER: Final = KindSpec(
    group="example.dev",
    versions=("v1",),
    kind="Render",
    resource="renders",
    shape={"metadata": METADATA, "spec": {"tries": int, "template": POD_TEMPLATE}},
    owns_pods=True,
    pod_templates=(("spec", "template"),),
    retry_fields=(RetryField(within=("spec",), name=("tries",), single=1, absent=None),),
)
KINDS: Final = (RENDER,)
'''
PODS: Final = '''"""The pods of a Render: an annotation has the number of the try."""

from typing import Final

from webhook.objects.problem import Json
from webhook.systems.kind_spec import OwnerReference
from webhook.systems.pod_source import Evidence, Level, Place, PodSource
from webhook.systems.render import spec

NAME: Final = "Render"


def levels(evidence: Evidence) -> list[Level]:
    """Return the level of the annotation."""
    attempt = evidence.count_in_annotations("example.dev/try")
    return [] if attempt is None else [Level(NAME, attempt, evidence.settings_budget)]


def _place_of(_metadata: Json, controller: OwnerReference) -> Place:
    return Place(spec.RENDER, controller.name, controller.uid, "")


PODS: Final = (PodSource(spec.RENDER, NAME, levels, _place_of),)
'''
ACCOUNT: Final = '''"""What the end of a pod costs a Render."""

from typing import Final

from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.pods.pods import Pod
from webhook.policy.attempt_costs import AttemptCost
from webhook.policy.settings import Settings
from webhook.systems.render import spec
from webhook.systems.system import Spent, System


def _cost_of(pod: Pod, _root: Json, _spent: Spent, _settings: Settings) -> AttemptCost:
    return "retry" if pod.disruption is None else "disruption"


def _has_ended(root: Json) -> bool:
    return bool(at(root, ("status", "phase")) == "Done")


RENDER: Final = System(
    kind=spec.RENDER, unit="", cost_of=_cost_of, has_ended=_has_ended, knows_retries=False
)
SYSTEMS: Final = (RENDER,)
'''
SAMPLE: Final = """# Look at spec.tries.
apiVersion: example.dev/v1
kind: Render
metadata: {name: frames}
spec:
  tries: 3
  template:
    spec:
      containers: [{name: main, image: example.test/render}]
"""
CRD: Final = """apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: renders.example.dev
spec:
  group: example.dev
  names: {kind: Render, plural: renders, singular: render}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
PRIORITY: Final = '''"""Gives pods a priority class if their author names none.

Writes in a JobSpec, where absent:
    template.spec.priorityClassName
"""

from typing import TYPE_CHECKING, Final

from webhook.objects.problem import Problem
from webhook.rules.rule import Rule, in_job_specs

if TYPE_CHECKING:
    from webhook.rules.contexts import JobContext


def _edit(context: "JobContext") -> list[Problem]:
    """Set the class in the pod template."""
    if "priorityClassName" not in context.job.pod_spec:
        context.editor.set((*context.job.path, "template", "spec", "priorityClassName"), "batch")
    return []


RULE: Final[Rule["JobContext"]] = Rule(
    name="priority",
    applies_to="a Job without a priority class",
    edit=_edit,
    writes=in_job_specs(("template", "spec", "priorityClassName")),
)
'''

POLICY: Final = """apiVersion: retry-policy.dev/v1alpha1
kind: RetryPolicy
profiles:
  default:
    retries: {warnAbove: 4}
    onFailure: [{match: {exitCodes: [3], signal: 9}, next: {cost: Free}}]
"""
JOB: Final = json.dumps(
    {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "a"}]}}},
    }
)
ATTEMPT: Final = """
from tests.admission import mutate
from tests.objects import pod
from webhook.kube import names
from webhook.rules.facts import Facts

root = pod(owner=None, annotations={"example.dev/try": "2"})
reference = {"apiVersion": "example.dev/v1", "kind": "Render", "name": "film", "uid": "u", "controller": True}
root["metadata"]["ownerReferences"] = [reference]
annotations = mutate(root, Facts(profile_name="default")).object["metadata"]["annotations"]
print(annotations[names.ATTEMPT], annotations[names.ATTEMPT_SOURCE])
"""
PROGRAM: Final = "from webhook.cli.main import main; main(prog_name='retry-policy')"

Recipe = dict[str, tuple[str, str] | str]  # for each file what is replaced by what; or the text of a new file
KIND: Final[Recipe] = {
    "webhook/systems/render/__init__.py": INIT,
    "webhook/systems/render/spec.py": SPEC,
    "webhook/systems/render/pods.py": PODS,
    "webhook/systems/render/account.py": ACCOUNT,
    "webhook/systems/__init__.py": ('    "airflow",\n', '    "airflow",\n    "render",\n'),
    "manifests/samples/kinds/render.yaml": SAMPLE,
    "tests/cluster/crds/render.yaml": CRD,
}
LACKS: Final = ("Fail fast", "`onFailure`", "Requested retry", "Renewed retries")
REASONS: Final[Recipe] = {
    "tools/generate/features.py": (
        "    flyte.FLYTE_WORKFLOW: FLYTE,\n",
        (
            '    KINDS["example.dev", "Render"]: dict.fromkeys(\n'
            f'        {LACKS}, "nobody can"\n    ),\n'
            "    flyte.FLYTE_WORKFLOW: FLYTE,\n"
        ),
    )
}
RULE: Final[Recipe] = {
    "webhook/systems/job/rules/priority.py": PRIORITY,
    "webhook/rules/registry.py": ("    timeouts.IN_JOB,\n", "    timeouts.IN_JOB,\n    priority.RULE,\n"),
}
NAMED: Final[Recipe] = {
    "webhook/cli/findings.py": (
        '    "timeouts": "The time',
        '    "priority": "A pod gets no priority class.",\n    "timeouts": "The time',
    )
}
IMPORTED: Final[Recipe] = {"webhook/rules/registry.py": ("many_pods, schema", "many_pods, priority, schema")}
STEP: Final[Recipe] = {
    "webhook/kube/names.py": (
        "# What a value may decide depends on its source.",
        """# Annotation on a Job that runs again: who requested that.
RETRY_BY: Final = PREFIX + "retry-by"

# What a value may decide depends on its source.""",
    ),
    "webhook/systems/job/rerun.py": (
        "def release(state: RetryState) -> list[Json]:\n",
        """def tell_requester(state: RetryState) -> list[Json]:
    by = pointer(("metadata", "annotations", names.RETRY_BY))
    return [unreleased_check(state), {"op": "add", "path": by, "value": state.by}]


def release(state: RetryState) -> list[Json]:
""",
    ),
    "webhook/retry/executor.py": (
        "async def _release_successor(",
        """async def _tell_requester(api: Api, placeholder: Json, state: of_job.RetryState) -> None:
    path = batch.JOB.path(placeholder["metadata"]["namespace"], state.name)
    job = await api.find(path)
    if job is None or not of_job.is_successor(job, state.uid) or of_job.is_released(job, state.uid):
        return
    if names.RETRY_BY not in job["metadata"]["annotations"]:
        await api.patch(path, of_job.tell_requester(state))


async def _release_successor(""",
    ),
    "tests/unit/retry/server.py": (
        '    ("PATCH", PLACEHOLDER),\n    ("PATCH", TRAIN),\n',
        '    ("PATCH", PLACEHOLDER),\n    ("PATCH", TRAIN),\n    ("PATCH", TRAIN),\n',
    ),
}
IN_ORDER: Final[Recipe] = {
    "webhook/retry/executor.py": (
        "(_wait_until_continued, _release_successor,",
        "(_wait_until_continued, _tell_requester, _release_successor,",
    )
}
KEPT: Final[Recipe] = {
    "webhook/kube/names.py": ("RETRY_ACCEPTED, RETRY_HISTORY,", "RETRY_ACCEPTED, RETRY_BY, RETRY_HISTORY,")
}
SET: Final[Recipe] = {
    "webhook/systems/job/rerun.py": (
        "SETS: Final = (names.RETRY_HISTORY,",
        "SETS: Final = (names.RETRY_BY, names.RETRY_HISTORY,",
    )
}
FIELD: Final[Recipe] = {
    "webhook/policy/model.py": (
        "    total: Count = 1000\n",
        "    total: Count = 1000\n    warn_above: Retries10 = 10\n",
    ),
    "webhook/policy/default.yaml": (
        "      # What happens to a workload that asks for more:",
        (
            "      # From which number of retries on its author is warned, 0 to 10.\n      warnAbove: 10\n"
            "      # What happens to a workload that asks for more:"
        ),
    ),
}
CRITERION: Final[tuple[Recipe, ...]] = (
    {
        "webhook/policy/model.py": (
            "    message: Glob | None = None\n",
            "    message: Glob | None = None\n    signal: int | None = None\n",
        )
    },
    {
        "webhook/policy/criteria.py": (
            '    "same_node": Criterion(',
            (
                '    "signal": Criterion(\n'
                "        sure_codes=lambda match, codes: codes & {128 + (match.signal or 0)},\n"
                '        simulated=False,\n        words=lambda _: " by signal",\n    ),\n'
                '    "same_node": Criterion('
            ),
        )
    },
    {
        "webhook/pods/on_failure.py": (
            '    "message": _has_message,\n',
            '    "message": _has_message,\n    "signal": lambda match, one: one.code == 128 + (match.signal or 0),\n',
        )
    },
)
PLAYED: Final[Recipe] = {
    "tests/cluster/on_failure_matrix.py": (
        '    Criterion("message", ',
        '    Criterion("signal", {"signal": 9}, Ending(137)),\n    Criterion("message", ',
    )
}
CAUSE: Final[tuple[Recipe, ...]] = (
    {"webhook/policy/causes.py": ('    "Other",\n]\n', '    "Cursed",\n    "Other",\n]\n')},
    {
        "webhook/policy/causes.py": (
            '    "Other": CauseRow(\n',
            (
                '    "Cursed": CauseRow(\n'
                '        "Cursed", "B", Colour("#734f33", "#fff"), lambda reason: reason, "Other",\n'
                "        is_matched=False,\n"
                "    ),\n"
                '    "Other": CauseRow(\n'
            ),
        )
    },
    {
        "webhook/pods/outcomes.py": (
            "    if pod.reason == DEADLINE:\n",
            '    if pod.reason == "InvalidImageName":\n        return "Cursed", ""\n    if pod.reason == DEADLINE:\n',
        )
    },
)


def follow(copy: Path, recipe: Recipe) -> None:
    for name, change in recipe.items():
        file = copy / name
        if isinstance(change, str):
            file.parent.mkdir(exist_ok=True)
            file.write_text(change)
        else:
            old, new = change
            text = file.read_text()
            assert text.count(old) == 1, (name, old, text.count(old))
            file.write_text(text.replace(old, new))


def run(copy: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=copy, env=environment, input=stdin, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy in which no recipe is followed yet."""
    found = tmp_path_factory.mktemp("checkout") / "copy"
    shutil.copytree(ROOT, found, ignore=NOT_COPIED)
    if TYPED.exists():  # so that mypy reads again only what changes
        shutil.copytree(TYPED, found / TYPED.name)
    return found


@pytest.fixture(scope="module")
def followed(copy: Path) -> Path:
    """A copy in which every recipe is followed, `make generated` included."""
    for recipe in (KIND, RULE, NAMED, IMPORTED, STEP, IN_ORDER, KEPT, SET, FIELD):
        follow(copy, recipe)
    halves = [*zip(CRITERION, ("signal", "signal"), strict=False), *zip(CAUSE, ("Cursed",), strict=False)]
    for recipe, missing in halves:  # after the last step of each, everything imports
        follow(copy, recipe)
        half = run(copy, "-c", "import webhook.pods.on_failure")
        assert half.returncode == 1, missing
        assert half.stderr.splitlines()[-1].startswith("ImportError: "), half.stderr
        assert missing in half.stderr.splitlines()[-1]
        if recipe is CRITERION[1]:
            follow(copy, CRITERION[2])
    for recipe in (PLAYED, *CAUSE[1:]):
        follow(copy, recipe)
    page = (copy / "docs/reference/workloads.md").read_text()
    done = run(copy, "-m", "tools.generate")
    assert (done.returncode, (copy / "docs/reference/workloads.md").read_text()) == (1, page)
    said = done.stderr.splitlines()
    assert [line.partition(" has no ")[2] for line in said] == [f"{one!r}: say why a Render lacks it" for one in LACKS]
    follow(copy, REASONS)
    done = run(copy, "-m", "tools.generate")
    assert done.returncode == 0, done.stderr
    (copy / "policy.yaml").write_text(POLICY)
    return copy


def test_half_a_criterion_or_a_cause_does_not_import_and_the_whole_of_each_recipe_generates(followed: Path) -> None:
    assert run(followed, "-c", "import webhook.serving.app, webhook.controller.app").returncode == 0


def test_one_run_of_the_generator_makes_all_parts_anew_whatever_they_were_before(followed: Path) -> None:
    files = [followed / name for name in (*PARTS, *FILES)]
    first = {file: file.read_bytes() for file in files}
    for name in PARTS:
        file = followed / name
        file.write_text(PART.sub(r"\g<begin>\g<end>", file.read_text()))
    done = run(followed, "-m", "tools.generate")
    assert done.returncode == 0, done.stderr
    assert [str(file.relative_to(followed)) for file in files if file.read_bytes() != first[file]] == []


def test_the_new_kind_is_limited_and_in_what_is_generated(followed: Path) -> None:
    greedy = SAMPLE.replace("tries: 3", "tries: 25")
    done = run(followed, "-c", PROGRAM, "check", "-f", "-", stdin=greedy)
    assert (done.returncode, "24 retries exceed the limit of 10" in done.stdout) == (1, True), done.stderr
    for file in ("docs/reference/workloads.md", "manifests/base/webhooks.yaml"):
        assert "Render" in (followed / file).read_text() or "renders" in (followed / file).read_text(), file
    assert "renders" not in (followed / "manifests/base/admission-policies.yaml").read_text()  # nothing writes it


def test_the_new_kind_has_a_sample_and_a_crd_and_without_the_crd_a_test_names_it(followed: Path) -> None:
    tests = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/unit/test_samples.py", "-k", "test_every")
    done = run(followed, *tests)
    assert done.returncode == 0, done.stdout
    (followed / "tests/cluster/crds/render.yaml").unlink()
    said = run(followed, *tests).stdout
    assert "{'renders.example.dev'} == set()" in said
    assert "add a file to tests/cluster/crds/" in said


def test_what_the_recipes_write_has_the_types_that_it_says(followed: Path) -> None:
    recipes = (KIND, RULE, NAMED, IMPORTED, FIELD, *CRITERION, *CAUSE)
    files = sorted({name for recipe in recipes for name in recipe if name.endswith(".py")})
    done = run(followed, "-m", "mypy", *files)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_recipe_shows_the_kind_that_is_added_here() -> None:
    shown = re.findall(r"   ```python\n(.*?)   ```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    assert [textwrap.dedent(block) in SPEC for block in shown] == [True]


def test_a_pod_of_the_new_kind_has_the_attempt_that_its_annotation_names(followed: Path) -> None:
    done = run(followed, "-c", ATTEMPT)
    assert done.stdout == "2 Render\n", done.stderr


def test_the_new_rule_edits_what_it_says(followed: Path) -> None:
    done = run(followed, "-c", PROGRAM, "render", "-f", "-", "-o", "json", stdin=JOB)
    assert '"priorityClassName":"batch"' in done.stdout.replace(" ", ""), done.stdout + done.stderr


def test_the_new_field_and_criterion_are_in_the_reference_and_in_a_policy(followed: Path) -> None:
    assert "`retries.warnAbove`" in (followed / "docs/reference/policy.md").read_text()
    assert '"signal"' in (followed / "docs/reference/policy.schema.json").read_text()


def test_the_new_criterion_is_judged_with_each_answer_and_beside_each_other_criterion(followed: Path) -> None:
    done = run(followed, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/unit/test_on_failure_matrix.py")
    assert done.returncode == 0, done.stdout


def test_a_free_cost_is_refused_for_exit_codes_that_are_not_enough_for_the_new_criterion(followed: Path) -> None:
    done = run(followed, "-c", PROGRAM, "check", "--policy", "policy.yaml")
    assert done.returncode == 1
    assert "onFailure[0].next: is Free, which the API cannot tell by this match" in done.stdout
    (followed / "enough.yaml").write_text(POLICY.replace("[3]", "[137]"))
    done = run(followed, "-c", PROGRAM, "render", "--policy", "enough.yaml", "-f", "-", "-o", "json", stdin=JOB)
    injected = '{"action":"Ignore","onExitCodes":{"operator":"In","values":[137]}}'
    assert injected in "".join(done.stdout.split()), done.stdout + done.stderr


def test_a_retry_that_is_interrupted_at_the_new_step_is_continued(followed: Path) -> None:
    tests = ("tests/unit/retry/test_executor.py", "-k", "interrupted_at_any_step or stored_at_every_step")
    done = run(followed, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)
    assert (done.returncode, "15 passed" in done.stdout) == (0, True), done.stdout
    assert "retry-policy.dev/retry-by" in (followed / "manifests/base/admission-policies.yaml").read_text()
