"""The policy that `--policy` names."""

from pathlib import Path

import click
import pytest

from webhook.cli import policy_file
from webhook.policy.parse import load_default

MIB = 1024 * 1024


def test_without_a_file_the_packaged_policy_is_used() -> None:
    assert policy_file.usable_policy(None) == load_default()


def test_an_unknown_profile_is_a_usage_error_that_lists_the_known_ones() -> None:
    with pytest.raises(click.UsageError, match=r"no profile 'gpu'; it has: confirm, default"):
        policy_file.profile_of(load_default(), "gpu")


@pytest.mark.parametrize(
    ("data", "what"),
    [(b"\xff", "is not UTF-8"), (b"#" * (MIB + 1), "is larger than 1 MiB"), (None, "cannot be read: No such file")],
)
def test_an_unusable_policy_file_is_an_error_with_the_reason(tmp_path: Path, data: bytes | None, what: str) -> None:
    file = tmp_path / "policy.yaml"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(ValueError, match=what):
        policy_file.policy_text(file)


def test_all_problems_of_a_policy_are_printed_and_the_exit_code_is_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(
        "apiVersion: retry-policy.dev/v1alpha1\nkind: RetryPolicy\n"
        "profiles: {default: {retries: {limit: 11}, placement: {spot: Perhaps}}}\n"
    )
    with pytest.raises(SystemExit) as ended:
        policy_file.usable_policy(file)
    assert ended.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == [
        "profiles.default.retries.limit:",
        "profiles.default.placement.spot:",
    ]
