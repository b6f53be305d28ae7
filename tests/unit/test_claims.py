"""What pages that are written by hand say of the code, the manifests and the committed measurements."""

import re
from collections.abc import Iterator
from itertools import chain
from operator import attrgetter
from typing import Final, get_args

import msgspec
import pytest

from tests.bench.week.compare import FIGURES, PREDICTED, WITHIN, Compared
from tests.unit.test_manifests import BASE, ROOT, documents, kind
from tools.generate import features
from webhook.accounts.account import DETAILS, MOST_MESSAGES
from webhook.accounts.stored import LARGEST
from webhook.kube.lease import DURATION
from webhook.objects.problem import Json
from webhook.policy.causes import MatchedCause
from webhook.policy.criteria import CRITERIA, SPELT
from webhook.policy.model import RateLimit
from webhook.serving.app import DRAIN
from webhook.systems.accounts import SYSTEMS
from webhook.systems.flyte.spec import TASK_ACTION
from webhook.systems.job.spec import JOB
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kubeflow.spec import MPI_JOB
from webhook.systems.pod_source import NONE
from webhook.systems.pods import SOURCES

DOCS: Final = ROOT / "docs"
WORDS: Final = {3: "three", 10: "ten"}
# How pages call a resource.
WORDS_OF: Final = {
    "configmaps": "the policy",
    "customresourcedefinitions": "two crds",
    "mutatingwebhookconfigurations": "webhook configurations",
    "validatingwebhookconfigurations": "webhook configurations",
}


def said(page: str) -> str:
    """Return the words of a page, without line breaks."""
    return " ".join((DOCS / page).read_text().split())


def row_of(page: str, first: str) -> str:
    """Return the line of a table whose first cell is this; empty if there is none."""
    return next((line for line in (DOCS / page).read_text().splitlines() if line.startswith(f"| {first} |")), "")


def shipped() -> Iterator[Json]:
    """Yield the objects of manifests/base."""
    return chain.from_iterable(map(documents, sorted(BASE.glob("*.yaml"))))


def test_the_comparison_names_all_kinds_without_a_limit() -> None:
    unlimited = [row for row in features.listed_kinds() if not features.COLUMNS["Limit"](row)]
    assert unlimited == [TASK_ACTION]  # Airflow's tries are no kind of the API
    assert "enforced, for all of these kinds but Airflow and Flyte 2" in said("explanation/comparison.md")


@pytest.mark.parametrize("page", ["how-to/troubleshooting.md", "explanation/what-happens-to-a-job.md"])
def test_pages_name_the_kind_whose_attempts_the_ledger_alone_knows(page: str) -> None:
    names = {controller: {source.name for source in of} for controller, of in SOURCES.items() if controller != NONE}
    counted = {controller for controller, of in names.items() if of == {"", "Ledger"}}
    assert counted == {(MPI_JOB.group, MPI_JOB.kind.lower())}
    assert "an MPIJob" in said(page)


def test_the_page_of_on_failure_names_all_criteria_that_the_api_cannot_see() -> None:
    unseen = [f"`{SPELT[name]}`" for name, criterion in CRITERIA.items() if criterion.sure_codes is None]
    assert f"or one of {', '.join(unseen)} | the ledger" in said("reference/on-failure.md")


@pytest.mark.parametrize("name", SPELT.values())
def test_the_page_of_on_failure_has_a_row_for_each_criterion(name: str) -> None:
    assert row_of("reference/on-failure.md", f"`{name}`"), f"docs/reference/on-failure.md, ## match: add a row `{name}`"


@pytest.mark.parametrize("cause", get_args(MatchedCause))
def test_the_page_of_on_failure_names_each_cause_that_a_rule_may_name(cause: str) -> None:
    row = row_of("reference/on-failure.md", "`cause`")
    assert f"`{cause}`" in row, f"docs/reference/on-failure.md, ## match: name `{cause}` in the row `cause`"


@pytest.mark.parametrize("kind", [kind for kind in SYSTEMS if kind is not JOB], ids=attrgetter("resource"))
def test_the_pages_of_systems_and_of_accounts_name_each_kind_with_an_account(kind: KindSpec) -> None:
    word = re.compile(rf"\b{kind.kind}\b")
    section = f"docs/reference/systems.md: add a section that says what {kind.kind} has an account of"
    assert word.search(said("reference/systems.md")), section
    row = f"docs/reference/account.md, ## Other kinds: add a row with the scope of {kind.kind}"
    table = said("reference/account.md").partition("## Other kinds")[2].partition("## ")[0]
    assert SYSTEMS[kind].has_jobs or word.search(table), row


def test_the_page_of_installation_names_every_kind_of_object() -> None:
    words = {
        "ClusterRole": "RBAC",
        "ClusterRoleBinding": "RBAC",
        "MutatingWebhookConfiguration": "both webhook configurations",
        "Role": "RBAC",
        "RoleBinding": "RBAC",
        "ValidatingAdmissionPolicy": "admission policies",
        "ValidatingAdmissionPolicyBinding": "admission policies",
        "ValidatingWebhookConfiguration": "both webhook configurations",
    }
    sentence = re.search(r"Both ways create .*?(?=The controller makes)", said("how-to/install.md"))
    assert sentence is not None
    kinds = {one["kind"] for one in shipped()} - {"Kustomization"}
    assert [name for name in sorted(kinds) if words.get(name, name) not in sentence[0]] == []


def test_the_page_of_permissions_names_every_resource_that_the_controller_may_write() -> None:
    by_hand, generated = (DOCS / "reference" / "permissions.md").read_text().split("## All that the roles grant")
    written = {name.partition(".")[0].partition("/")[0] for name in re.findall("^\\| `(.*?)`", generated, re.MULTILINE)}
    assert [name for name in sorted(written) if WORDS_OF.get(name, name) not in by_hand.lower()] == []


def test_the_threat_model_names_every_resource_that_the_programs_may_list() -> None:
    section = said("explanation/threat-model.md").split("Both may read")[1].split("##")[0].lower()
    roles = [one for one in shipped() if one["kind"] in {"ClusterRole", "Role"} and "rules" in one]
    rules = [rule for role in roles for rule in role["rules"] if "list" in rule["verbs"]]
    owners = {row.resource for row in SYSTEMS}
    listed = {
        name for rule in rules for name in rule["resources"] if rule["apiGroups"] == ["batch"] or name not in owners
    }
    assert [name for name in sorted(listed) if WORDS_OF.get(name, name) not in section] == []


def test_the_page_of_availability_has_the_seconds_of_the_programs() -> None:
    page = said("explanation/availability.md")
    assert f"serves for {WORDS[int(DRAIN)]} more seconds" in page
    assert f"accounts: the {DURATION:g} s of the Lease" in page
    grace = kind("Deployment")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert f"`terminationGracePeriodSeconds` is {grace}" in page


def test_the_pages_of_the_account_have_its_bounds() -> None:
    history = said("reference/history.md")
    assert f"at most {LARGEST // 1024} KiB" in history
    assert f"The last {WORDS[DETAILS]} are kept in detail, with the last words of {WORDS[MOST_MESSAGES]}" in history
    assert f"at most {LARGEST // 1024} KiB" in said("reference/account.md")


def test_the_page_of_stops_has_the_default_rate_limits() -> None:
    limits, page = RateLimit(), said("how-to/stop.md")
    assert f"rateLimit: {{cluster: {limits.cluster}, namespace: {limits.namespace}}} # the defaults" in page
    assert f"a minute for each further {limits.namespace}" in page


def test_predictions_of_the_week_are_within_what_the_pages_say() -> None:
    rows = msgspec.json.decode(PREDICTED.read_bytes(), type=list[Compared])
    judged = [row for row in rows if row.figure in FIGURES]
    assert judged
    assert max(abs(row.error) for row in judged) <= WITHIN
    for page in ("explanation/policies-compared.md", "how-to/simulate.md"):
        assert f"within {WITHIN:.0%}".replace("%", " %") in said(page)
