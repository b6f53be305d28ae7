"""Generates parts of docs/, manifests/ and charts/ from the code: `make generated`. A test compares them.

A part is between two comments: `generated: NAME` and `end`. The JSON schemas are generated as whole files. Tables of
attempts are laid out anew.
"""

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import Final

from tests.bench.curve import figures as curve
from tests.bench.curve import model
from tests.bench.hour import figures as hour
from tests.bench.market import figures as market
from tests.bench.week import compare
from tests.bench.week import figures as week
from tools.generate import (
    accounts,
    attempts,
    chart,
    commands,
    docs,
    features,
    figures,
    gallery,
    kinds,
    manifests,
    messages,
    metrics,
    on_failure,
    rights,
    rule_groups,
    rules,
    schemas,
    shipped,
    systems,
    upstream,
    values_schema,
    written,
)
from tools.generate.dashboard import grafana, page
from tools.generate.dashboard.panels import ROWS

ROOT: Final = Path(__file__).parents[2]
PART: Final = re.compile(
    r"(?P<begin>^(?P<indent> *)(?:<!--|#) generated: (?P<name>[\w ]+?)(?: -->)?\n)"
    r"(?:.*?)"
    r"(?P<end>^ *(?:<!--|#) end(?: -->)?\n)",
    re.DOTALL | re.MULTILINE,
)
COMPARED: Final = "docs/explanation/policies-compared.md"
PARTS: Final[dict[str, dict[str, Callable[[], str]]]] = {
    COMPARED: {
        "headline": partial(week.headline, "this week"),
        "week": week.table,
        "predicted": compare.summary,
        "hour": hour.table,
        "market": market.table,
    },
    "README.md": {
        "week": partial(week.headline, f"[a simulated week]({COMPARED}#a-week-of-a-spot-market)"),
        "hour": partial(hour.headline, f"[a simulated hour]({COMPARED}#an-hour-with-rules-of-onfailure)"),
    },
    **gallery.parts(),
    "docs/how-to/check-in-ci.md": {"fields": schemas.cases_table},
    "docs/how-to/watch.md": {row.name: partial(page.part, row) for row in ROWS},
    "docs/tutorial/a-day.md": {},  # with tables of attempts alone
    "docs/tutorial/preempted-twice.md": {},
    "docs/reference/command-line.md": {"commands": commands.reference},
    "docs/reference/metrics.md": {
        "metrics": metrics.table,
        "labels": metrics.labels_table,
        "alerts": rule_groups.alerts_table,
        "recorded": rule_groups.recorded_table,
    },
    "docs/how-to/roll-out.md": {"modes": docs.modes_table},
    "docs/how-to/explain.md": {"parts": features.parts},
    "docs/how-to/simulate.md": {"not simulated": docs.not_simulated},
    "docs/reference/on-failure.md": {"pairs": on_failure.table},
    "docs/how-to/sizing.md": {
        "growth": curve.summary,
        "replicas": figures.replicas,
        "model": model.table,
        "verdict": model.verdict,
    },
    "docs/reference/measured.md": {
        "example": figures.headline,
        "figures": figures.table,
        "curve": curve.table,
        "through": curve.through_table,
        "direct": curve.direct_table,
        "looks": curve.looks_table,
        "at once in words": figures.at_once_in_words,
        "at once": figures.at_once,
        "big job": figures.big_job,
    },
    "docs/reference/permissions.md": {"rights": rights.table},
    "docs/reference/policy.md": {"profile": docs.profile_table, "policy": docs.policy_table},
    "docs/reference/upstream-suites.md": {"suites": upstream.table},
    "docs/reference/workloads.md": {
        "kinds": kinds.table,
        "features": features.table,
        "made kinds": features.made,
        "rules": rules.table,
    },
    messages.PAGE: {"messages": messages.table},
    "docs/reference/account.md": {"fields": accounts.table},
    "manifests/base/accounts.yaml": {"status": accounts.text},
    "manifests/base/admission-policies.yaml": {
        **{
            f"metadata of {resource}": partial(written.validations, resource)
            for resource in ("pods", "jobs", "jobsets", "systems")
        },
        "systems": systems.resource_rules,
        "fields of systems": systems.fields,
    },
    "manifests/base/ledger-rbac.yaml": {"systems": systems.rights},
    "manifests/base/protected-keys.yaml": {
        "labels of pods": systems.pod_labels,
        "annotations of pods": systems.pod_annotations,
        "annotations of pods of Jobs": systems.job_pod_annotations,
    },
    "manifests/base/rbac.yaml": {"controllers": manifests.controllers},
    "manifests/base/webhooks.yaml": {
        "kinds": manifests.namespaced_kinds,
        "kinds of the cluster": manifests.cluster_kinds,
        "batch systems": manifests.batch_systems,
    },
    "manifests/overlays/requested-retries/admission-policies.yaml": {
        f"metadata of {resource}": partial(written.validations, resource) for resource in ("cronjobs", "pipelineruns")
    },
    **chart.PARTS,
}
# Files that are generated as a whole.
FILES: Final[dict[str, Callable[[], str]]] = {
    **schemas.FILES,
    values_schema.FILE: values_schema.schema,
    shipped.FILE: shipped.text,
    grafana.DASHBOARD: grafana.dashboard,
    rule_groups.RULES: rule_groups.rules,
    "docs/tutorial/a-day/week.ndjson": docs.week,
    **chart.copies(),  # the last ones, because they are made from manifests/
}


def generated(text: str, makers: dict[str, Callable[[], str]]) -> str:
    """Return a file's text with each of its generated parts replaced, and its tables of attempts laid out anew."""
    text = PART.sub(lambda part: part["begin"] + indent(makers[part["name"]](), part["indent"]) + part["end"], text)
    return attempts.relaid(text)


def write() -> None:
    """Write every generated part, and every generated file; if one cannot be made, leave all as they were.

    The parts of manifests come first, because files are made from them, and docs and the chart from both.
    """
    if lacks := [*features.lacking()]:
        sys.exit("\n".join(lacks))
    of_manifests = [name for name in PARTS if name.startswith("manifests/")]
    names = dict.fromkeys((*of_manifests, *FILES, *PARTS))
    before = {file: file.read_bytes() if file.exists() else None for file in (ROOT / name for name in names)}
    try:
        for name in names:
            target = ROOT / name
            text = FILES[name]() if name in FILES else generated(target.read_text(), PARTS[name])
            target.write_text(text, encoding="utf-8")
    except BaseException:
        for file, content in before.items():
            file.unlink(missing_ok=True) if content is None else file.write_bytes(content)
        raise
