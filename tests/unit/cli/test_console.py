"""The input and output of commands."""

import pytest

from webhook.cli import console
from webhook.systems.job import spec as batch
from webhook.systems.kind_spec import KindSpec
from webhook.systems.volcano import spec as volcano


@pytest.mark.parametrize("character", ["\n", "\x1b", "\u202e", "\x00", "\x9b"])
def test_control_characters_are_escaped(character: str) -> None:
    line = console.printable(f"name{character}rest")
    assert line.isprintable()
    assert line.startswith("name\\")
    assert line.endswith("rest")


@pytest.mark.parametrize("name", ["::stop-commands::x.yaml", "##[error]x.yaml", " ::warning::x.yaml"])
def test_no_line_is_a_command_of_githubs_runner(name: str) -> None:
    assert console.printable(f"{name}:1 spec: is missing") == f"./{name}:1 spec: is missing"


def test_words_of_any_language_are_printed_unchanged() -> None:
    assert console.printable("Größe 大きさ") == "Größe 大きさ"


def test_a_long_line_is_cut_in_the_middle() -> None:
    line = console.printable("a" * 10_000 + "b" * 10_000)
    assert len(line) < 5000
    assert line.startswith("aaa")
    assert line.endswith("bbb")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ml/job/train", batch.JOB),
        ("ml/jobs/train", batch.JOB),
        ("ml/job.batch.volcano.sh/train", volcano.JOB),
        ("ml/jobs.batch.volcano.sh/train", volcano.JOB),
    ],
)
def test_of_two_kinds_with_the_same_name_the_second_one_is_named_with_its_group(text: str, kind: KindSpec) -> None:
    found = console.object_argument(text, (batch.JOB, volcano.JOB))
    assert found.kind is kind
    assert console.object_argument(str(found), (batch.JOB, volcano.JOB)) == found
