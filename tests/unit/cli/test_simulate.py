"""retry-policy simulate, as users run it."""

import gzip
import json
import re
from pathlib import Path

import msgspec
import pytest
from jsonschema import Draft202012Validator
from msgspec import yaml

from tests.unit.cli.test_main import invoke, run
from tests.unit.insight.simulate.test_live import GOOD, JOB, LOST, NODE
from tests.unit.insight.simulate.world import PRICES, Rules, World
from tools.generate import schemas
from webhook.cli import simulate
from webhook.cli.console import UNUSABLE
from webhook.history import reading
from webhook.history.record import encode
from webhook.insight.simulate import sweep
from webhook.policy.model import Policy, Prices

pytestmark = pytest.mark.usefixtures("in_a_folder")
FEW = ("--replications", "3")


@pytest.fixture(autouse=True)
def written(in_a_folder: None) -> None:  # noqa: ARG001 - the files belong there
    records, _ = World(1, jobs=40).live(Rules(), run=0)
    Path("history.ndjson").write_bytes(b"".join(encode(one) + b"\n" for one in records))
    write_policy("old.yaml", Rules().policy())
    write_policy("new.yaml", Rules(limit=4).policy())
    Path("renamed.yaml").write_text(
        Path("new.yaml").read_text().replace("profiles:\n  default:", "profiles:\n  batch:")
    )


def write_policy(name: str, policy: Policy) -> None:
    Path(name).write_bytes(yaml.encode(sweep.raw(policy)))


def test_another_policy_is_compared_with_the_one_in_force() -> None:
    out, err = run("simulate", "--history", "history.ndjson", "--from", "old.yaml", "--policy", "new.yaml", *FEW)

    assert out.startswith("40 workloads from 2026-11-16T")
    assert "each replayed 3 times under either policy" in out
    assert "this assumes:" in out
    assert err == ""


def test_there_are_replications_without_asking_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulate, "REPLICATIONS", 2)

    out, _ = run("simulate", "--history", "history.ndjson", "--policy", "new.yaml")

    assert "each replayed 2 times" in out


def test_json_is_as_its_schema_says() -> None:
    out, _ = run("simulate", "--history", "history.ndjson", "--policy", "new.yaml", *FEW, "-o", "json")

    Draft202012Validator(json.loads(schemas.simulation())).validate(json.loads(out))


def test_a_sweep_needs_no_other_policy_and_names_the_best_value() -> None:
    command = (
        "simulate",
        "--history",
        "history.ndjson",
        "--from",
        "old.yaml",
        "--sweep",
        "disruptions.limit=1..3",
        *FEW,
    )

    out, _ = run(*command)
    by_time, _ = run(*command, "--best", "time")
    as_json, _ = run(*command, "-o", "json")

    assert "best by money per complete workload" in out
    assert "best by time to finish" in by_time
    drawn = json.loads(as_json)
    Draft202012Validator(json.loads(schemas.simulation_sweep())).validate(drawn)
    assert [one["value"] for one in drawn["points"]] == [1, 2, 3]


def test_a_sweep_of_deadlines_counts_what_is_late_if_that_is_asked_for() -> None:
    command = ("simulate", "--history", "history.ndjson", "--from", "old.yaml", "--sweep", "deadline.factor=null,1.5")

    plain, _ = run(*command, *FEW)
    asked, _ = run(*command, *FEW, "--late", "2x", "--checkpoint", "30m")
    as_json, _ = run(*command, *FEW, "--late", "2x", "-o", "json")
    whole, _ = run("simulate", "--history", "history.ndjson", "--policy", "new.yaml", *FEW, "--late", "1.5x")

    assert "LATE" not in plain
    assert "LATE" in asked
    assert "and as few late" in asked
    assert re.search(r"^all +late +", whole, re.MULTILINE)
    drawn = json.loads(as_json)
    Draft202012Validator(json.loads(schemas.simulation_sweep())).validate(drawn)
    assert [one["value"] for one in drawn["points"]] == [None, 1.5]


def test_a_sweep_has_no_best_by_money_if_a_price_is_missing() -> None:
    rules = Rules().policy()
    spot_only = Prices(currency="USD", rates=PRICES.rates[:1])
    write_policy("spot.yaml", msgspec.structs.replace(rules, prices=spot_only))
    sweep_it = ("--history", "history.ndjson", "--from", "spot.yaml", "--sweep", "disruptions.limit=1,2", *FEW)

    out, _ = run("simulate", *sweep_it)
    _, err = run("simulate", *sweep_it, "--best", "money", code=UNUSABLE)

    assert "best by time to finish" in out
    assert "without a known price: no money; use --best time" in err.replace("\n", " ")


def test_no_workload_fares_worse_if_the_policy_stays() -> None:
    out, _ = run("simulate", "--history", "history.ndjson", "--from", "old.yaml", "--policy", "old.yaml", *FEW)

    assert "no workload would fare worse" in out


def test_a_dump_of_jobs_and_pods_is_a_history() -> None:
    Path("dump.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [JOB, LOST, GOOD, NODE]}))

    out, _ = run("simulate", "-f", "dump.json", "--from", "renamed.yaml", "--policy", "renamed.yaml", *FEW)

    assert out.startswith("1 workloads from 2026-11-21T12:00:00Z")


def test_the_history_may_come_from_a_pipe_and_from_compressed_files() -> None:
    data = Path("history.ndjson").read_bytes()
    Path("history.ndjson.gz").write_bytes(gzip.compress(data))

    packed, _ = run("simulate", "--history", "history.ndjson.gz", "--policy", "new.yaml", *FEW)
    piped, _ = run("simulate", "--history", "-", "--policy", "new.yaml", *FEW, stdin=data.decode())

    assert packed == piped


def test_one_namespace_alone_can_be_asked_for() -> None:
    out, _ = run("simulate", "--history", "history.ndjson", "-n", "ml", "--policy", "new.yaml", *FEW, "-o", "json")

    assert [one["name"] for one in json.loads(out)["namespaces"]] == ["ml"]


def test_lines_that_are_no_records_are_named_and_left_out() -> None:
    with Path("history.ndjson").open("a") as opened:
        opened.write('{"type": "Attempt", "version": 99}\n')

    _, err = run("simulate", "--history", "history.ndjson", "--policy", "new.yaml", *FEW)

    assert err.startswith("1 lines left out, of which: history.ndjson:")


def test_too_many_records_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST", 5)

    _, err = run("simulate", "--history", "history.ndjson", "--policy", "new.yaml", code=2)

    assert "more than 5 records" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--policy", "new.yaml", "--kubeconfig", "none"), "kubeconfig none: file does not exist"),
        (("--history", "history.ndjson"), "there is no other policy; name one with --policy"),
        (("--history", "history.ndjson", "--sweep", "disruptions.limit=3..1"), "write 1..3"),
        (("--history", "history.ndjson", "--policy", "new.yaml", "--late", "soon"), "write one such as 2x"),
        (("--history", "history.ndjson", "--policy", "new.yaml", "--checkpoint", "x"), "write one such as 30m"),
        (("--history", "none.ndjson", "--policy", "new.yaml"), "none.ndjson: cannot be read"),
        (("--history", "history.ndjson", "--policy", "none.yaml"), "none.yaml: cannot be read"),
        (("-f", "none.json", "--policy", "new.yaml"), "none.json: cannot be read"),
        (("--replications", str(simulate.MOST_REPLICATIONS + 1)), "is not in the range 1<=x<=10000"),
        (("--history", "history.ndjson", "-n", "empty", "--policy", "new.yaml"), "no workload of namespace empty"),
        (("--history", "history.ndjson", "--policy", "renamed.yaml"), "profiles are matched by name"),
        (("--history", "history.ndjson", "--sweep", "retries.most=1,2"), "retries.most: is not a field"),
        (("--history", "history.ndjson", "--sweep", "disruptions.limit=1", "--profile", "x"), "has no profile 'x'"),
    ],
)
def test_what_cannot_be_simulated_is_said_with_what_would_be_right(arguments: tuple[str, ...], said: str) -> None:
    done = invoke("simulate", *arguments)

    assert done.exit_code == UNUSABLE
    assert said in done.output
    assert "Traceback" not in done.output
