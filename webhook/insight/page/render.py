"""A report as one HTML file that needs nothing from elsewhere, and the same page in parts for the dashboard.

The report is in the page as JSON, and the scripts set text only by textContent: no name in it becomes markup. The
Content-Security-Policy of the page allows just these scripts and this style by their hashes, no request to any host,
and no string as markup (Trusted Types).
"""

import base64
import hashlib
import json
from functools import cache
from importlib import resources
from string import Template
from typing import Final

import msgspec
from msgspec.structs import replace

from webhook.insight.report.model import Report
from webhook.policy.attempt_costs import ATTEMPT_COSTS
from webhook.policy.causes import CAUSES, LOSSES

# In the order in which they use each other; one script in the page.
SCRIPTS: Final = ("dom.js", "format.js", "data.js", "charts.js", "timeline.js", "table.js", "views.js", "main.js")
# What both forms of the page may not do; `img-src` is for the empty icon, which keeps browsers from asking for one.
STRICT: Final = (
    "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
MOST_WORKLOADS: Final = 20_000  # in the page, those that lost most
MOST_PLACES: Final = 20_000  # nodes, and zones
MOST_GROUPS: Final = 20_000  # namespaces, and profiles
MOST_BUCKETS: Final = 10_000
MOST_NOTES: Final = 100
MOST_LISTED: Final = 100_000  # attempts one by one, of all workloads


def render(report: Report) -> str:
    """Return the page of a report, as one HTML file in UTF-8.

    Of a report that is larger than the bounds above, the page shows the workloads that lost most, and says so.
    """
    style, code = page_style(), page_script()
    shown = as_json(report).decode().replace("<", r"\u003c")  # a script element ends at the first `</script`
    policy = f"{STRICT}; script-src '{digest(code)}'; style-src '{digest(style)}'"
    return page_template().substitute(
        policy=f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        style=f"<style>{style}</style>",
        report=f'<script type="application/json" id="report">{shown}</script>',
        script=f"<script>{code}</script>",
    )


def live_page() -> str:
    """Return the page of the dashboard, which takes page.css, page.js and the report from its server."""
    return page_template().substitute(
        policy="",
        style='<link rel="stylesheet" href="page.css">',
        report="",
        script='<script src="page.js"></script>',
    )


def bounded(report: Report) -> Report:
    """Return a report that a browser can show: at most so many rows, and so many attempts one by one."""
    notes = list(report.notes[:MOST_NOTES])
    workloads, left, shortened = [], MOST_LISTED, 0
    for row in report.workloads[:MOST_WORKLOADS]:
        kept = row.attempts[-left:] if left else []
        left -= len(kept)
        cut = len(row.attempts) - len(kept)
        shortened += bool(cut)
        workloads.append(replace(row, attempts=kept, attempts_not_listed=row.attempts_not_listed + cut) if cut else row)
    absent = len(report.workloads) - len(workloads)
    if absent:
        notes.append(f"This page leaves out the {absent:,} workloads that lost least; the totals count them.")
    if shortened:
        notes.append(f"This page leaves out attempts of the {shortened:,} workloads that lost least.")
    shown = {row.uid for row in workloads}
    return replace(
        report,
        notes=notes,
        workloads=workloads,
        near_limit=[uid for uid in report.near_limit if uid in shown],
        nodes=report.nodes[:MOST_PLACES],
        zones=report.zones[:MOST_PLACES],
        namespaces=report.namespaces[:MOST_GROUPS],
        profiles=report.profiles[:MOST_GROUPS],
        series=report.series[-MOST_BUCKETS:],
    )


def as_json(report: Report) -> bytes:
    """Return what the page's scripts read, within the bounds above."""
    return msgspec.json.encode(bounded(report))


@cache
def page_script() -> str:
    """Return all scripts as one, in a scope of its own, after the tables that they show."""
    tables = {
        "ENDS": {
            cause: {"label": row.label, "letter": row.letter, "isLost": row.loss is not None}
            for cause, row in CAUSES.items()
        },
        "LOSSES": {loss: {"label": row.label} for loss, row in LOSSES.items()},
        "COSTS": {cost: row.shown for cost, row in ATTEMPT_COSTS.items()},
    }
    known = "".join(f"const {name} = {json.dumps(table)};\n" for name, table in tables.items())
    return '"use strict";(() => {\n' + known + "".join(_asset(name) for name in SCRIPTS) + "})();\n"


@cache
def page_style() -> str:
    """Return the style sheet, with a class `c-KEY` for each cause and each loss."""
    colours = {key: row.colour for table in (CAUSES, LOSSES) for key, row in table.items()}
    classes = (
        f".c-{key} {{ background: {one.area}; fill: {one.area}; color: {one.text}; }}\n" for key, one in colours.items()
    )
    return _asset("page.css") + "".join(classes)


@cache
def page_template() -> Template:
    """Return the HTML, with a place for each part."""
    return Template(_asset("page.html"))


def _asset(name: str) -> str:
    return resources.files("webhook.insight.page").joinpath(name).read_text(encoding="utf-8")


def digest(text: str) -> str:
    """Return the hash by which a Content-Security-Policy allows a script or a style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
