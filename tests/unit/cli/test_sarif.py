"""SARIF."""

from pathlib import Path

import pytest

from webhook.cli import forms


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("jobs/a b.yaml", "jobs/a%20b.yaml"),
        ("./jobs/../a.yaml", "a.yaml"),
        ("a:b#c?.yaml", "a%3Ab%23c%3F.yaml"),
        ("-", "stdin"),
    ],
)
def test_a_file_is_a_uri_relative_to_the_folder(file: str, uri: str) -> None:
    assert forms.uri_of(file) == uri


def test_a_file_that_is_named_as_a_whole_is_a_whole_uri() -> None:
    assert forms.uri_of(str(Path("/tmp/a b.yaml"))) == "file:///tmp/a%20b.yaml"  # noqa: S108 - not opened
