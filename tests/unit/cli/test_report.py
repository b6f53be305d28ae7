"""The command `retry-policy report`: where it reads, which prices it takes, and what it prints when it cannot."""

import gzip
import json
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from tests.accounts import held
from tests.unit.cli.test_check_cluster import Connected
from tests.unit.cli.test_check_cluster_lists import CONFIG_MAPS
from tests.unit.insight.report.facts import attempt, ended
from tests.unit.insight.report.test_live import account_of_five, job, pod
from webhook.cli import report as command
from webhook.history.record import encode
from webhook.insight.report import opencost
from webhook.insight.report.known import Price
from webhook.insight.report.opencost import PricesUnreadableError, Source
from webhook.kube.client import Api, ApiError
from webhook.objects.problem import Json

PRICED: Final = """
apiVersion: retry-policy.dev/v1alpha1
kind: RetryPolicy
profiles: {default: {}}
prices: {currency: EUR, rates: [{perHour: {cpu: 1}}]}
"""
GUIDE: Final = Path(__file__).parents[3] / "docs" / "how-to" / "report.md"
FORBIDDEN = ApiError(403, "forbidden")
DATA = b"\n".join(
    [
        encode(attempt("ExitCode", reason="main 1", number=1, price=2.0, currency="USD")),
        encode(attempt(number=2, workload="etl", namespace="etl", profile="strict", end=30)),
        encode(ended("Failed")),
    ]
)


@pytest.fixture
def records(tmp_path: Path) -> Path:
    file = tmp_path / "records.ndjson"
    file.write_bytes(DATA)
    return file


def run(*arguments: Any, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(command.report, [str(one) for one in arguments], input=stdin)


def as_json(*arguments: Any, stdin: bytes | None = None) -> Json:
    done = run(*arguments, "-o", "json", stdin=stdin)
    assert done.exit_code == 0, done.output
    found: Json = json.loads(done.stdout)
    return found


def test_records_are_read_from_a_file_a_folder_and_standard_input(records: Path) -> None:
    (records.parent / "more.ndjson.gz").write_bytes(gzip.compress(encode(attempt(number=3))))
    assert as_json("--history", records)["total"]["used"]["attempts"] == 2
    assert as_json("--history", records.parent)["total"]["used"]["attempts"] == 3
    assert as_json("--history", "-", stdin=DATA)["total"]["used"]["attempts"] == 2
    assert as_json("--history", records, "--history", records.parent / "more.ndjson.gz")["total"]["workloads"] == 2


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ((), ["train", "etl"]),
        (("-n", "etl"), ["etl"]),
        (("--profile", "default"), ["train"]),
        (("--since", "2026-11-16T12:00:00Z"), ["etl", "train"]),  # train has ended then, without an attempt
        (("--since", "2026-11-16T13:00:00Z"), ["etl"]),
        (("--until", "2026-11-16T10:00:01Z"), ["train"]),
        (("--since", "1m"), []),
        (("--since", "2000w"), ["train", "etl"]),
    ],
)
def test_the_report_is_about_what_is_asked_for(options: tuple[str, ...], names: list[str], records: Path) -> None:
    found = as_json("--history", records, *options)
    assert [row["name"] for row in found["workloads"]] == names


def test_without_a_policy_records_have_their_own_prices(records: Path) -> None:
    found = as_json("--history", records, "-n", "ml")
    assert (found["currency"], found["total"]["used"]["price"]) == ("USD", 2.0)
    assert found["notes"] == [
        "what spot saved is not known from records alone: name a policy with prices with --policy"
    ]


def test_a_policy_file_prices_records_anew(records: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(PRICED)
    found = as_json("--history", records, "--policy", policy)
    assert (found["currency"], found["total"]["used"]["price"], found["notes"]) == ("EUR", 8.0, [])


def test_lines_that_are_skipped_are_named_in_a_note(tmp_path: Path) -> None:
    (tmp_path / "bad.ndjson").write_bytes(b"x\n" + DATA)
    (note,) = [one for one in as_json("--history", tmp_path)["notes"] if "skipped" in one]
    assert note.startswith(f"1 lines were skipped, of which: {tmp_path}/bad.ndjson:1: is no record: ")


def test_the_text_is_plain_in_a_pipe_and_the_csv_has_a_line_for_each_workload(records: Path) -> None:
    text = run("--history", records).stdout
    assert text.startswith("All namespaces: until ")
    assert "\x1b" not in text
    assert len(run("--history", records, "-o", "csv").stdout.splitlines()) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--since", "yesterday"),
            "'yesterday' is no time since 1970 with a zone; write how long ago, such as 90m, 12h, 7d or 4w, or 2026-",
        ),
        (("--since", "999999w"), "'999999w' is no time since 1970 with a zone; write how long ago, such as 90m"),
        (
            ("--until", "0001-01-01T00:00:00Z"),
            "'0001-01-01T00:00:00Z' is no time since 1970 with a zone; write how long ago",
        ),
        (("-n", "No"), "'No' is not the name of a namespace"),
        (
            ("--history", "-", "-l", "a=b"),
            "-l needs the cluster, because records have no labels; leave out -l or --history",
        ),
        (("--history", "-", "--prometheus-token-file", "x"), "name it with --prometheus URL"),
        (("--history", "/missing"), "/missing: cannot be read: No such file or directory; name another with --history"),
    ],
)
def test_what_cannot_be_answered_ends_with_2_and_says_what_to_write(arguments: tuple[str, ...], said: str) -> None:
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())


def test_help_and_guide_read_the_log_of_all_replicas_alike() -> None:
    (line,) = [line.strip() for line in run("--help").stdout.splitlines() if "kubectl logs" in line]
    assert "-l app.kubernetes.io/name=retry-policy-webhook --tail=-1" in line
    assert f"$ {line}\n" in GUIDE.read_text(encoding="utf-8")


def live(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *options: str, **lists: list[Json] | ApiError) -> Result:
    paths = {
        "policy": CONFIG_MAPS,
        "jobs": "/apis/batch/v1/jobs",
        "accounts": "/apis/retry-policy.dev/v1alpha1/accounts",
        "pods": "/api/v1/pods",
        "nodes": "/api/v1/nodes",
    }
    found: dict[str, list[Json] | ApiError] = {path: lists.get(name, []) for name, path in paths.items()}

    async def connect(_: object) -> Connected:
        return Connected(found)

    monkeypatch.setattr(Api, "connect", connect)
    (tmp_path / "config").touch()
    return CliRunner().invoke(command.report, [*options, f"--kubeconfig={tmp_path / 'config'}", "-o", "json"])


def test_a_cluster_is_priced_by_its_policy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    policy: list[Json] = [{"data": {"policy.yaml": PRICED}}]
    done = live(monkeypatch, tmp_path, jobs=[job()], pods=[pod("a", "Succeeded")], policy=policy)
    found = json.loads(done.stdout)
    assert (found["source"], found["currency"], found["total"]["used"]["price"]) == ("cluster", "EUR", 1.0)
    assert found["notes"] == []


@pytest.mark.parametrize(
    ("policy", "note"),
    [
        (
            FORBIDDEN,
            "the policy cannot be read, so its prices are not known (403 forbidden); name it with --policy FILE",
        ),
        (
            [{"data": {"policy.yaml": "profiles: 3"}}],
            "the policy in the cluster has problems, so its prices are not known",
        ),
        ([], command.NO_PRICES),
    ],
)
def test_without_a_usable_policy_the_report_has_hours_and_says_why(
    policy: list[Json] | ApiError, note: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = live(monkeypatch, tmp_path, jobs=[job()], pods=[pod("a", "Succeeded")], policy=policy)
    found = json.loads(done.stdout)
    assert note in found["notes"]
    assert "price" not in found["total"]["used"]
    assert found["total"]["used"]["seconds"] == 3600


def test_missing_rights_are_notes_and_without_any_jobs_the_command_ends_with_2(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = live(monkeypatch, tmp_path, jobs=[job()], pods=FORBIDDEN, nodes=FORBIDDEN)
    assert done.exit_code == 0
    assert [one.split(" cannot")[0] for one in json.loads(done.stdout)["notes"][:2]] == ["pods", "nodes"]
    done = live(monkeypatch, tmp_path, jobs=FORBIDDEN)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "you may not list the Jobs of the cluster" in done.stderr


def test_opencost_prices_attempts_from_the_first_start_on(records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    async def prices(source: Source, since: float, until: float) -> Any:
        asked.append((source, since, until))
        return lambda _: Price(0.25, None)

    monkeypatch.setattr(opencost, "prices", prices)
    found = as_json("--history", records, "--prometheus", "https://prometheus", "--prometheus-ca-file", "ca.pem")
    ((source, since, until),) = asked
    assert (source.url, source.ca_file, since) == ("https://prometheus", Path("ca.pem"), 1794819600.0)
    assert until > since
    assert (found["total"]["used"]["price"], found["currency"]) == (0.5, "")
    assert "prices are those of OpenCost, in its currency; what spot saved is not known" in found["notes"]


def test_opencost_prices_pods_and_the_policy_no_sums_of_accounts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def prices(*_: object) -> Any:
        return lambda _: Price(0.25, None)

    monkeypatch.setattr(opencost, "prices", prices)
    counted = job(account=account_of_five())
    lists: dict[str, list[Json]] = {
        "jobs": [counted],
        "accounts": held(counted),
        "pods": [pod("a", "Succeeded")],
        "policy": [{"data": {"policy.yaml": PRICED}}],
    }
    found = json.loads(live(monkeypatch, tmp_path, "--prometheus", "https://prometheus", **lists).stdout)
    total = found["total"]
    assert (total["used"]["attempts"], "price" in total["used"], "price" in total["lost"]) == (6, False, False)
    assert "the price of 4 attempts is not known; sums with them have no price" in found["notes"]
    total = json.loads(live(monkeypatch, tmp_path, **lists).stdout)["total"]
    assert (total["used"]["price"], total["lost"]["price"]) == (5.0, 4.0)


def test_a_prometheus_that_cannot_be_asked_ends_with_2(records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def prices(*_: object) -> Any:
        raise PricesUnreadableError("Prometheus is away")

    monkeypatch.setattr(opencost, "prices", prices)
    done = run("--history", records, "--prometheus", "https://prometheus")
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", "Prometheus is away\n")
