"""Cases of merging an author's retryStrategy with the default profile, for unit tests and cluster tests.

Each case: its name, the WorkflowSpec that the author writes, and by their paths the strategies that are stored.
"""

from typing import Any, Final

from webhook.objects.problem import Json
from webhook.systems.argo.spec import bounded, sparing_disruptions

# As the policy says it: of the exit codes only 143 is retriable.
NO_BUG: Final = (
    "(lastRetry.status == 'Error' || !(lastRetry.message matches '^([^ ]+: )?[A-Za-z]+ [(]exit code ')"
    " || lastRetry.message matches '^([^ ]+: )?[A-Za-z]+ [(]exit code (143)[)]')"
)
FAILED: Final = "lastRetry.status == 'Failed'"
NO_CHILD: Final = '!(lastRetry.message matches "^(child \'|$)")'
CONTAINER: Final[Json] = {"image": "example.test/train", "command": ["train"]}
CODES: Final = "asInt(lastRetry.exitCode) in [1, 2]"


def template(strategy: Json | None, **kind: Any) -> Json:
    """Return a template with a retryStrategy; `kind`: what it has instead of a container."""
    said = {} if strategy is None else {"retryStrategy": strategy}
    return {"name": "main", **(kind or {"container": CONTAINER}), **said}


def workflow_spec(*templates: Json, **spec: Any) -> Json:
    return {"entrypoint": "main", "templates": list(templates), **spec}


def stored(limit: Any, retries: int | None, *parts: str, **author: Any) -> Json:
    """Return a strategy as admission stores it; `author`: what it keeps."""
    expression = sparing_disruptions(" && ".join(parts), retries)
    return {**author, "retryPolicy": "Always", "expression": expression, "limit": limit}


def stored_bounded(limit: str, *parts: str, **author: Any) -> Json:
    """Return a strategy whose limit is a template expression as admission stores it."""
    strategy = stored(limit, None, *parts, **author)
    return {**strategy, "expression": bounded(strategy["expression"], 10)}


def without_limit(strategy: Json) -> Json:
    return {key: value for key, value in strategy.items() if key != "limit"}


OF_TEMPLATE: Final = "spec.templates[0].retryStrategy"
OF_WORKFLOW: Final = "spec.retryStrategy"
OF_DEFAULTS: Final = "spec.templateDefaults.retryStrategy"
BACKOFF: Final[Json] = {"duration": "10s", "factor": 2}
TRIES: Final = "{{inputs.parameters.tries}}"
TRANSIENT: Final[Json] = {"limit": 2, "retryPolicy": "OnTransientError"}
TAGGED: Final[Json] = {"limit": 2, "expression": "asInt(lastRetry.exitCode) in {{inputs.parameters.codes}}"}

CASES: Final[dict[str, tuple[Json, dict[str, Json]]]] = {
    "no strategy": (workflow_spec(template(None)), {}),
    "a limit": (
        workflow_spec(template({"limit": 2})),
        {OF_TEMPLATE: stored(3, 2, FAILED, NO_BUG)},
    ),
    "a limit that is text": (
        workflow_spec(template({"limit": "2", "backoff": BACKOFF})),
        {OF_TEMPLATE: stored("3", 2, FAILED, NO_BUG, backoff=BACKOFF)},
    ),
    "no limit": (
        workflow_spec(template({"retryPolicy": "Always"})),
        {OF_TEMPLATE: stored(4, 3, NO_BUG)},
    ),
    "a limit that is a parameter": (
        workflow_spec(template({"limit": TRIES})),
        {OF_TEMPLATE: stored_bounded(TRIES, FAILED, NO_BUG)},
    ),
    "a limit that is a parameter, and a retryPolicy of which nothing is made": (
        workflow_spec(template({**TRANSIENT, "limit": TRIES})),
        {OF_TEMPLATE: {"limit": TRIES, "retryPolicy": "OnTransientError", "expression": bounded("", 10)}},
    ),
    "a limit that is a parameter, for all templates": (
        workflow_spec(template(None), retryStrategy={"limit": TRIES}),
        {OF_WORKFLOW: stored_bounded(TRIES, FAILED, NO_BUG, NO_CHILD)},
    ),
    "a limit that is a parameter, in the defaults": (
        workflow_spec(template({"expression": CODES}), templateDefaults={"retryStrategy": {"limit": TRIES}}),
        {
            OF_DEFAULTS: stored_bounded(TRIES, FAILED, NO_BUG, NO_CHILD),
            OF_TEMPLATE: without_limit(stored_bounded(TRIES, f"({CODES})")),
        },
    ),
    "a limit that is a parameter, for steps": (
        workflow_spec(template({"limit": TRIES}, steps=[[{"name": "a", "template": "main"}]])),
        {OF_TEMPLATE: {"limit": TRIES, "retryPolicy": "OnFailure", "expression": bounded("", 10)}},
    ),
    "no retries": (workflow_spec(template({"limit": 0})), {OF_TEMPLATE: {"limit": 0}}),
    "Always": (
        workflow_spec(template({"limit": 2, "retryPolicy": "Always"})),
        {OF_TEMPLATE: stored(3, 2, NO_BUG)},
    ),
    "OnError": (
        workflow_spec(template({"limit": 2, "retryPolicy": "OnError"})),
        {OF_TEMPLATE: stored(3, 2, "lastRetry.status == 'Error'", NO_BUG)},
    ),
    "OnTransientError": (workflow_spec(template(TRANSIENT)), {OF_TEMPLATE: TRANSIENT}),
    "own expression about something else": (
        workflow_spec(template({"limit": 2, "expression": "asFloat(lastRetry.duration) < 60 || true"})),
        {OF_TEMPLATE: stored(3, 2, "(asFloat(lastRetry.duration) < 60 || true)", NO_BUG)},
    ),
    "own expression that contradicts the policy's exit codes": (
        workflow_spec(template({"limit": 2, "expression": CODES})),
        {OF_TEMPLATE: stored(3, 2, f"({CODES})")},
    ),
    "own expression and policy": (
        workflow_spec(template({"limit": 2, "expression": CODES, "retryPolicy": "OnFailure"})),
        {OF_TEMPLATE: stored(3, 2, f"({CODES})", FAILED)},
    ),
    "own expression with a tag": (workflow_spec(template(TAGGED)), {OF_TEMPLATE: TAGGED}),
    "own expression that is not closed": (
        workflow_spec(template({"limit": 2, "expression": "true) || (true"})),
        {OF_TEMPLATE: {"limit": 2, "expression": "true) || (true"}},
    ),
    "a strategy of all templates": (
        workflow_spec(template(None), retryStrategy={"limit": 2}),
        {OF_WORKFLOW: stored(3, 2, FAILED, NO_BUG, NO_CHILD)},
    ),
    "the template's own limit, and the policy of the defaults": (
        workflow_spec(
            template({"limit": 1}), templateDefaults={"retryStrategy": {"limit": 4, "retryPolicy": "Always"}}
        ),
        {OF_DEFAULTS: stored(5, 4, NO_BUG, NO_CHILD), OF_TEMPLATE: stored(2, 1, NO_BUG)},
    ),
    "a template that keeps its expression keeps the limit of the defaults": (
        workflow_spec(template({"expression": TAGGED["expression"]}), templateDefaults={"retryStrategy": {"limit": 4}}),
        {
            OF_DEFAULTS: stored(5, 4, FAILED, NO_BUG, NO_CHILD),
            OF_TEMPLATE: {"expression": TAGGED["expression"], "limit": 4},
        },
    ),
    "steps that are retried together": (
        workflow_spec(template({"limit": 2}, steps=[[{"name": "a", "template": "main"}]])),
        {OF_TEMPLATE: {"limit": 2}},
    ),
    "a container set": (
        workflow_spec(template({"limit": 2}, containerSet={"containers": [{"name": "a", **CONTAINER}]})),
        {OF_TEMPLATE: stored(3, 2, FAILED, NO_BUG)},
    ),
}
