"""Annotations of GitHub Actions."""

from webhook.cli import forms


def test_characters_that_end_a_command_or_a_property_are_escaped() -> None:
    text = forms.annotation("error", "100%\nof: a,b", file="a,b:c%.yaml", line=3, title="is: %\r\n")
    assert text == "::error file=a%2Cb%3Ac%25.yaml,line=3,title=is%3A %25%0D%0A::100%25%0Aof: a,b\n"


def test_a_file_in_this_folder_is_named_as_github_names_it() -> None:
    assert "file=jobs/a.yaml," in forms.annotation("warning", "x", file="./jobs/a.yaml", line=1, title="t")


def test_stdin_and_an_unknown_line_are_left_out() -> None:
    assert forms.annotation("error", "x", file="-", line=4, title="t") == "::error title=t::x\n"
    assert forms.annotation("error", "x", file="a", line=None, title="t") == "::error file=a,title=t::x\n"
