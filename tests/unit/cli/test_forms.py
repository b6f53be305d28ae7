"""`check` on 500 manifests, in each form that programs read."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import jsonschema
import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, Phase, given, settings

from tests.documents import documents_of
from tests.strategies import CRON_JOBS, PODS, Strategy, judged_jobs
from tests.unit.cli import schemas
from webhook.cli import forms
from webhook.cli.check import check
from webhook.cli.findings import RULES
from webhook.cli.forms import CheckReport
from webhook.objects.problem import Json

SAMPLES: Final = Path(__file__).parents[3] / "manifests" / "samples"
NUMBER: Final = 500


def drawn(strategy: Strategy, number: int) -> list[Json]:
    """Return objects that a strategy draws, the same ones each time."""
    found: list[Json] = []

    @settings(
        max_examples=number,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(one: Json) -> None:
        found.append(one)

    draw()
    return found


def damaged(samples: list[Json], number: int) -> Iterator[Json]:
    """Yield samples of all kinds, in each of which a field has another value."""
    chance = random.Random(1)  # noqa: S311 - the same ones each time
    for index in range(number):
        root = deepcopy(samples[index % len(samples)])
        root["metadata"]["annotations"] = {"retry-policy.dev/max-retries": chance.choice(["2", "11", "many"])}
        holder: Any = root
        while isinstance(holder, dict | list) and holder:
            keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            key = chance.choice([key for key in keys if key not in {"apiVersion", "kind", "metadata"}] or keys)
            if not isinstance(holder[key], dict | list) or chance.random() < 0.1:
                if key not in {"apiVersion", "kind"}:
                    holder[key] = chance.choice([25, "25", "\N{OHM SIGN}: %0A,\t<b>&", None, [], -1])
                break
            holder = holder[key]
        yield root


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write 500 manifests, in YAML and JSON, alone and several in a file, and some that cannot be read."""
    found = tmp_path_factory.mktemp("manifests")
    files = [*SAMPLES.glob("job*.yaml"), *SAMPLES.glob("kinds/*.yaml")]
    samples = [root for file in sorted(files) for root in documents_of(file.read_text())]
    generated = [*drawn(judged_jobs(), 40), *drawn(CRON_JOBS, 15), *drawn(PODS, 15)]
    manifests = [*samples, *generated, *damaged(samples, NUMBER - len(samples) - len(generated))]
    assert len(manifests) == NUMBER
    for index in range(0, NUMBER, 2):
        pair = manifests[index : index + 2]
        if index % 3:
            (found / f"{index:03}, 100%.yaml").write_text(
                yaml.dump_all(pair, Dumper=yaml.CSafeDumper, allow_unicode=True)
            )
        else:
            items = {"apiVersion": "v1", "kind": "List", "items": pair}
            (found / f"{index:03}.json").write_text(json.dumps(items, indent=1))
    labels = {"retry-policy.dev/profile": "default", "retry-policy.dev/mode": "enforce"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml", "labels": labels}}
    (found / "namespace.yaml").write_text(yaml.safe_dump(namespace))
    (found / "broken.yaml").write_text("kind: [\n")
    (found / "half.yaml").write_text("kind: Job\nkind: Job\n")
    (found / "latin.yaml").write_bytes(b"kind: \xe9\n")
    return found


@pytest.fixture(scope="module")
def outputs(folder: Path) -> dict[str, Result]:
    """Check the manifests once in each form."""
    return {form: checked("-f", str(folder), "-o", form) for form in forms.NAMES}


def checked(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(check, arguments, input=stdin, catch_exceptions=False)


def findings(outputs: dict[str, Result]) -> list[Json]:
    found: list[Json] = json.loads(outputs["json"].stdout)["findings"]
    return found


def test_the_manifests_have_findings_of_most_rules(outputs: dict[str, Result]) -> None:
    found = findings(outputs)
    assert {one["level"] for one in found} == {"problem", "warning", "unreadable"}
    assert len(found) > 300
    assert len({one["rule"] for one in found}) >= 10
    assert {one["rule"] for one in found} <= set(RULES)


def test_each_form_has_the_same_exit_code_and_the_same_on_stderr_but_for_warnings(outputs: dict[str, Result]) -> None:
    assert {form: one.exit_code for form, one in outputs.items()} == dict.fromkeys(outputs, 2)
    unreadable = [line for line in outputs["text"].stderr.splitlines() if "warning: " not in line]
    assert len(unreadable) == 2
    assert [one.stderr.splitlines() for form, one in outputs.items() if form != "text"] == [unreadable] * 4


def test_json_has_what_text_has(outputs: dict[str, Result]) -> None:
    assert msgspec.json.decode(outputs["json"].stdout, type=CheckReport).kind == "CheckReport"
    report = json.loads(outputs["json"].stdout)
    jsonschema.validate(report, schemas.of("check-report"))
    lines = outputs["text"].stdout.splitlines()
    of_problems = [one for one in report["findings"] if one["level"] == "problem"]
    assert [f"{one['file']}:{one['document']} {text_of(one)}" for one in of_problems] == lines
    warned = [line for line in outputs["text"].stderr.splitlines() if "warning: " in line]
    numbers = report["summary"]
    assert (numbers["problems"], numbers["warnings"]) == (len(lines), len(warned))
    assert (numbers["unreadable"], numbers["unlisted"]) == (2, 0)
    assert numbers["objects"] > NUMBER * 0.95


def text_of(finding: Json) -> str:
    where = f"{finding['path']}: " if finding["path"] else ""
    return f"{where}{finding['what']}; {finding['remedy']} ({finding['object']})"


def test_each_finding_about_a_document_has_its_line(outputs: dict[str, Result], folder: Path) -> None:
    for one in findings(outputs):
        if one["level"] == "unreadable":
            continue
        lines = Path(one["file"]).read_text().splitlines()
        assert 1 <= one["line"] <= len(lines), one
    lined = [one for one in findings(outputs) if one["path"].endswith(".backoffLimit") and one["what"][0] == "2"]
    assert lined
    for one in lined:
        assert "backoffLimit" in Path(one["file"]).read_text().splitlines()[one["line"] - 1]
    assert folder.exists()


def test_sarif_is_valid_by_its_schema_and_has_each_finding(outputs: dict[str, Result]) -> None:
    log = json.loads(outputs["sarif"].stdout)
    jsonschema.validate(log, schemas.sarif())
    (run,) = log["runs"]
    found = findings(outputs)
    assert [one["ruleId"] for one in run["results"]] == [one["rule"] for one in found]
    rules = run["tool"]["driver"]["rules"]
    for one, finding in zip(run["results"], found, strict=True):
        assert rules[one["ruleIndex"]]["id"] == one["ruleId"]
        assert one["level"] == ("warning" if finding["level"] == "warning" else "error")
        region = one["locations"][0]["physicalLocation"].get("region", {"startLine": None})
        assert region["startLine"] == finding["line"]
        assert one["message"]["text"].startswith(finding["path"])
    assert {rule["helpUri"].partition("#")[2] for rule in rules} == {one["rule"] for one in found}
    assert run["invocations"] == [{"executionSuccessful": False, "exitCode": 2}]


def test_junit_is_valid_by_its_schema_and_has_each_object(outputs: dict[str, Result]) -> None:
    text = outputs["junit"].stdout
    schemas.validate_junit(text)
    root = ET.fromstring(text)  # noqa: S314 - our own
    found = findings(outputs)
    failed = {(one["file"], one["document"], one["object"]) for one in found if one["level"] == "problem"}
    cases = root.findall("testsuite/testcase")
    assert sum(1 for case in cases if case.find("failure") is not None) == len(failed) == int(root.attrib["failures"])
    assert sum(1 for case in cases if case.find("error") is not None) == 2 == int(root.attrib["errors"])
    assert len(cases) == int(root.attrib["tests"]) >= NUMBER * 0.95
    told = Counter(line for case in cases for part in case for line in (part.text or "").splitlines())
    assert sum(told.values()) == len(found)


def test_each_finding_is_one_annotation_of_github_at_its_line(outputs: dict[str, Result]) -> None:
    lines = outputs["github"].stdout.splitlines()
    found = findings(outputs)
    assert len(lines) == len(found)
    for line, finding in zip(lines, found, strict=True):
        command, properties, message = annotation(line)
        assert command == ("warning" if finding["level"] == "warning" else "error")
        where = {"file": finding["file"], "title": f"retry-policy {finding['rule']}"}
        assert properties == where | ({} if finding["line"] is None else {"line": str(finding["line"])})
        assert finding["what"] in message


def annotation(line: str) -> tuple[str, dict[str, str], str]:
    """Read a workflow command as the runner of GitHub Actions does (ActionCommand.TryParseV2)."""
    assert line.startswith("::")
    head, _, data = line[2:].partition("::")
    command, _, rest = head.partition(" ")
    properties = dict(part.split("=", 1) for part in rest.split(",") if part)
    for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        properties = {key: value.replace(code, character) for key, value in properties.items()}
    for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        data = data.replace(code, character)
    return command, properties, data


@pytest.mark.usefixtures("in_a_folder")
def test_with_fail_on_warning_a_warning_fails_in_every_form() -> None:
    Path("half.yaml").write_text("kind: Job\n")
    for form in forms.NAMES:
        assert checked("-f", "half.yaml", "-o", form).exit_code == 0
        assert checked("-f", "half.yaml", "-o", form, "--fail-on", "warning").exit_code == 1
    assert "<failure" not in checked("-f", "half.yaml", "-o", "junit").stdout
    assert "<failure" in checked("-f", "half.yaml", "-o", "junit", "--fail-on", "warning").stdout


@pytest.mark.usefixtures("in_a_folder")
def test_stdin_has_lines_and_no_file() -> None:
    text = yaml.safe_dump({"kind": "Job", "spec": {}})
    for more in ((), ("--profile", "default")):
        found = json.loads(checked("-f", "-", "-o", "json", *more, stdin=text).stdout)["findings"]
        assert [(one["file"], one["line"]) for one in found] == [("-", 1)]
    assert checked("-f", "-", "-o", "github", stdin=text).stdout.startswith("::warning title=")
    log = json.loads(checked("-f", "-", "-o", "sarif", stdin=text).stdout)
    jsonschema.validate(log, schemas.sarif())


@pytest.mark.usefixtures("in_a_folder")
@pytest.mark.parametrize("form", ["json", "sarif", "junit", "github"])
def test_the_problems_of_a_policy_have_each_form(form: str) -> None:
    text = "apiVersion: retry-policy.dev/v1alpha1\nkind: RetryPolicy\nprofiles:\n  default:\n    retries: {limit: 11}\n"
    Path("policy.yaml").write_text(text)
    found = checked("--policy", "policy.yaml", "-o", form)
    assert (found.exit_code, found.stderr) == (1, "")
    assert "profiles.default.retries.limit" in found.stdout
    if form == "json":
        assert [one["line"] for one in json.loads(found.stdout)["findings"]] == [5]
    Path("policy.yaml").write_text(text.replace("11", "10"))
    assert checked("--policy", "policy.yaml", "-o", form).exit_code == 0


@pytest.mark.usefixtures("in_a_folder")
@pytest.mark.parametrize("form", ["json", "sarif", "junit", "github"])
def test_without_a_finding_each_form_is_valid(form: str) -> None:
    Path("service.yaml").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: web}\n")
    text = checked("-f", "service.yaml", "-o", form).stdout
    if form == "sarif":
        jsonschema.validate(json.loads(text), schemas.sarif())
    elif form == "junit":
        schemas.validate_junit(text)
        assert 'tests="1" failures="0" errors="0"' in text
    elif form == "json":
        assert json.loads(text)["findings"] == []
    else:
        assert text == ""
