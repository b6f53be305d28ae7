"""The samples of every kind with `render` and `check`; cluster tests check them against the real CRDs."""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.cluster import operators
from tests.cluster.command_line import run
from tests.documents import documents_of
from webhook.objects.patch import at
from webhook.objects.problem import Json, field
from webhook.objects.problem import Path as FieldPath
from webhook.systems.kinds import KINDS, embedded_in

FOLDER: Final = Path(__file__).parents[2] / "manifests" / "samples" / "kinds"
FILES: Final = sorted(FOLDER.glob("*.yaml"))
# The samples of batch/v1 are outside the folder.
HERE: Final = {key for key, kind in KINDS.items() if kind.admitted and kind.group != "batch"}
LONGEST: Final = 25  # lines of a sample


def documents(file: Path) -> list[Json]:
    return documents_of(file.read_text())


def kind_of(root: Json) -> tuple[str, str]:
    return root["apiVersion"].rpartition("/")[0], root["kind"]


SAMPLES: Final = {(file.name, number): root for file in FILES for number, root in enumerate(documents(file), start=1)}


def retry_fields(root: Json) -> Iterator[tuple[FieldPath, dict[Any, Any], int]]:
    """Yield path and parent of each retry field that an object has, and its value for a single attempt."""
    for within, found, kind in [((), root, KINDS[kind_of(root)]), *embedded_in(KINDS[kind_of(root)], root)]:
        places = [(path, holder, one.name, one.single) for one in kind.retry_fields for path, holder in one.find(found)]
        places += [
            ((*job.path, name), job.spec, (name,), 0)
            for job in kind.jobs(found)
            for name in ("backoffLimit", "backoffLimitPerIndex")
        ]
        for path, holder, name, single in places:
            if at(holder, name) is not None:
                yield (*within, *path), at(holder, name[:-1]), single


def with_retries(retries: int, folder: Path) -> list[str]:
    """Write the samples with this number of retries in each retry field; return the fields as `check` names them."""
    changed = deepcopy(SAMPLES)
    names = []
    for (file, number), root in changed.items():
        for path, holder, single in retry_fields(root):
            holder[path[-1]] = type(holder[path[-1]])(retries + single)
            names.append(f"{folder / file}:{number} {field(path)}")
    for file in {file for file, _ in changed}:
        text = yaml.safe_dump_all([root for (one, _), root in changed.items() if one == file])
        (folder / file).write_text(text)
    return names


def test_every_kind_of_the_table_has_a_sample() -> None:
    assert {kind_of(root) for root in SAMPLES.values()} == HERE, "add a file to manifests/samples/kinds/"


def test_every_retry_field_of_the_table_is_in_a_sample() -> None:
    written = {
        (kind.group, one.name)
        for root in SAMPLES.values()
        for kind in (KINDS[kind_of(root)],)
        for one in kind.retry_fields
        if any(at(holder, one.name) is not None for _, holder in one.find(root))
    }
    assert written == {(kind.group, one.name) for kind in KINDS.values() for one in kind.retry_fields}


def test_every_kind_with_a_sample_has_a_crd_in_the_cluster_tests() -> None:
    by_hand = {
        crd["metadata"]["name"]: {one["name"] for one in crd["spec"]["versions"]}
        for file in operators.BY_HAND.iterdir()
        for crd in documents(file)
    }
    # GROUP_RESOURCE; of Tekton the kind, with a prefix. Volcano's are generated.
    files = [one.files.format(name) for one in operators.MODULES for name in one.names.split()]
    fetched = {Path(file).stem.removeprefix("300-") for file in files}
    kinds = {KINDS[kind_of(root)] for root in SAMPLES.values()}
    missing = {
        kind.list_name
        for kind in kinds
        if not fetched & {f"{kind.group}_{kind.resource}", kind.kind.lower()}
        if kind.list_name not in by_hand and not kind.group.endswith("volcano.sh")
    }
    assert missing == set(), "add a file to tests/cluster/crds/, or a row to MODULES of tests/cluster/operators.py"
    assert all(by_hand[kind.list_name] >= {*kind.versions} for kind in kinds if kind.list_name in by_hand)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_sample_is_short_has_a_comment_and_a_unique_name(file: Path) -> None:
    text = file.read_text()
    assert text.startswith("# Look at ")
    assert all(len(part.strip().splitlines()) <= LONGEST for part in text.partition("\n")[2].split("\n---\n"))
    names = [root["metadata"]["name"] for root in documents(file)]
    assert len(set(names)) == len(names)


def test_check_finds_no_problem_and_no_warning_in_the_samples() -> None:
    checked = run("check", "-f", str(FOLDER))
    assert (checked.exit_code, checked.stdout, checked.stderr) == (0, "", "")


def test_render_prints_every_sample_without_a_problem_and_rendering_twice_changes_nothing_more(tmp_path: Path) -> None:
    once = run("render", "-f", str(FOLDER))
    assert (once.exit_code, once.stderr) == (0, "")
    rendered = documents_of(once.stdout)
    assert [(kind_of(root), root["metadata"]["name"]) for root in rendered] == [
        (kind_of(root), root["metadata"]["name"]) for root in SAMPLES.values()
    ]
    assert rendered != list(SAMPLES.values())
    (tmp_path / "once.yaml").write_text(once.stdout)
    again = run("render", "-f", str(tmp_path / "once.yaml"))
    assert (again.exit_code, again.stdout, again.stderr) == (0, once.stdout, "")
    checked = run("check", "-f", str(tmp_path))
    assert (checked.exit_code, checked.stdout) == (0, "")
    assert all("only exit code 143 is retried" in line for line in checked.stderr.splitlines())


def test_with_11_retries_exactly_the_retry_fields_are_problems(tmp_path: Path) -> None:
    names = with_retries(11, tmp_path)
    checked = run("check", "-f", str(tmp_path))
    assert sorted(line.partition(": ")[0] for line in checked.stdout.splitlines()) == sorted(names)
    assert all("11 retries exceed the limit of 10" in line for line in checked.stdout.splitlines())
    assert (checked.exit_code, checked.stderr) == (1, "")


def test_with_10_retries_there_is_no_problem(tmp_path: Path) -> None:
    assert with_retries(10, tmp_path)
    checked = run("check", "-f", str(tmp_path))
    assert (checked.exit_code, checked.stdout) == (0, "")
    assert all("only exit code 143 is retried" in line for line in checked.stderr.splitlines())
