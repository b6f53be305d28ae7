"""How `render` and `check` read their files: the order, the exit codes, and signals."""

import errno
import signal
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from tests.objects import job, job_spec
from tests.unit.cli.test_colours import Terminal
from webhook.cli.console import ERASE
from webhook.cli.manifests import Run, on_files
from webhook.cli.terminal import Progress

pytestmark = pytest.mark.usefixtures("in_a_folder")

GOOD, GREEDY = job(job_spec(backoffLimit=3)), job(job_spec(backoffLimit=25))


def write(name: str, *documents: Any) -> None:
    Path(name).write_text(yaml.safe_dump_all(documents))


def judged(*files: str) -> int:
    """Judge all objects in files; return the exit code."""
    run = Run(files, None, None)
    for document in run.documents():
        for path, root in document.objects():
            run.judge(document, path, root, None)
    return run.exit_code


@pytest.mark.parametrize(
    ("files", "code"),
    [
        (["good.yaml"], 0),
        (["good.yaml", "greedy.yaml"], 1),
        (["broken.yaml"], 2),
        (["missing.yaml"], 2),
        (["greedy.yaml", "broken.yaml"], 2),
        (["broken.yaml", "greedy.yaml"], 2),
    ],
)
def test_unreadable_input_gives_exit_code_2_even_if_there_are_problems(files: list[str], code: int) -> None:
    write("good.yaml", GOOD)
    write("greedy.yaml", GREEDY)
    Path("broken.yaml").write_text("kind: [")
    assert judged(*files) == code


def test_documents_are_read_in_the_order_of_the_arguments_and_folders_by_name() -> None:
    Path("folder").mkdir()
    for name in ("b.yaml", "folder/2.yaml", "folder/1.yaml", "a.yaml"):
        write(name, GOOD, GOOD)
    found = [(one.file, one.number) for one in Run(("b.yaml", "folder", "a.yaml"), None, None).documents()]
    files = ["b.yaml", "folder/1.yaml", "folder/2.yaml", "a.yaml"]
    assert found == [(file, number) for file in files for number in (1, 2)]


def test_a_file_after_one_that_cannot_be_read_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    write("good.yaml", GOOD)
    assert [one.file for one in Run(("missing.yaml", "good.yaml"), None, None).documents()] == ["good.yaml"]
    assert capsys.readouterr().err.startswith("missing.yaml: ")


def test_the_path_of_a_problem_starts_at_the_document() -> None:
    write("list.yaml", {"apiVersion": "v1", "kind": "List", "items": [GOOD, GREEDY]})
    run = Run(("list.yaml",), None, None)
    (document,) = run.documents()
    verdicts = [run.judge(document, path, root, None) for path, root in document.objects()]
    assert [[str(one).partition(": ")[0] for one in verdict.problems] for verdict in verdicts if verdict] == [
        [],
        ["items[1].spec.backoffLimit"],
    ]


def test_a_command_without_files_is_refused() -> None:
    with pytest.raises(click.UsageError, match="-f is missing"):
        Run((), None, None)


def test_without_a_named_profile_the_only_one_of_the_policy_is_that_of_all_objects(tmp_path: Path) -> None:
    only = tmp_path / "policy.yaml"
    only.write_text("{apiVersion: retry-policy.dev/v1alpha1, kind: RetryPolicy, profiles: {etl: {}}}")
    assert Run(("job.yaml",), only, None).profile_for({"metadata": {"namespace": "etl"}}) == "etl"


def test_an_unknown_profile_is_refused_before_any_file_is_read() -> None:
    with pytest.raises(click.UsageError, match="no profile 'gpu'; it has: confirm, default"):
        Run(("missing.yaml",), None, "gpu")


def test_sigint_and_sigpipe_have_their_default_effect() -> None:
    @click.command()
    @on_files
    def print_handlers(**_: Any) -> None:
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGPIPE)]
        click.echo(handlers == [signal.SIG_DFL] * 2)

    assert CliRunner().invoke(print_handlers).output == "True\n"


def test_a_write_error_prints_one_line_and_exits_with_2() -> None:
    @click.command()
    @on_files
    def write_much(**_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    found = CliRunner().invoke(write_much)
    assert found.exit_code == 2
    assert found.stderr == "the output cannot be written: No space left on device; write it elsewhere\n"


def test_render_and_check_have_the_same_options() -> None:
    @click.command()
    @on_files
    def print_options(files: tuple[str, ...], policy: Path | None, profile_name: str | None) -> None:
        click.echo(repr((files, policy, profile_name)))

    given = ["-f", "a", "-f", "-", "--policy", "p.yaml", "--profile", "gpu"]
    assert CliRunner().invoke(print_options, given).output == f"{(('a', '-'), Path('p.yaml'), 'gpu')!r}\n"
    assert CliRunner().invoke(print_options).output == "((), None, None)\n"


def test_the_progress_is_erased_before_a_problem_is_printed_and_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    write("jobs.yaml", service, GREEDY)
    terminal, times = Terminal(), iter(range(100))
    run = Run(("jobs.yaml",), None, None, progress=Progress(stream=terminal, clock=lambda: next(times) * 2.0))
    for document in run.documents():
        for path, root in document.objects():
            run.judge(document, path, root, None)
            assert terminal.getvalue().endswith(ERASE) is (root["kind"] == "Job")
    lines = [line for line in terminal.getvalue().split(ERASE) if line]
    assert lines == [f"{number} objects judged; reading jobs.yaml" for number in (0, 1, 1, 2)]
    assert terminal.getvalue().endswith(ERASE)
    assert capsys.readouterr().out.startswith("jobs.yaml:2 spec.backoffLimit: ")
