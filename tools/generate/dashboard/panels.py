"""The panels of the dashboard, in the rows of the questions that they answer."""

from typing import Final

from tools.generate.dashboard.panel import RANGE, Panel, Query, Row, by, happened, rate, series
from webhook import metrics

NOT_ANSWERED: Final = "unavailable|overloaded|error"
CHOSEN: Final = {"namespace": "$namespace", "profile": "$profile"}  # variables of the dashboard
A_MINUTE: Final = "60 * "


def worst(selector: str, *labels: str) -> str:
    """Return the largest value of gauges, for each combination of some labels."""
    return f"max{by(*labels)} ({selector})"


def quantile(number: float, *labels: str) -> str:
    """Return a quantile of the time to answer."""
    return f"histogram_quantile({number}, {rate(series(metrics.DURATION), 'le', *labels)})"


def share(part: str, whole: str) -> str:
    """Return a part of a whole; 0 if there is none."""
    return f"({part} or vector(0)) / {whole}"


def rose(metric: str) -> str:
    """Return by how much counters that are reported from the start rose in the shown time."""
    return f"sum (increase({metric}[{RANGE}]))"


UP: Final = Row(
    "admission",
    "Is admission up, and fast?",
    (
        Panel(
            title="Ready replicas",
            kind="stat",
            width=4,
            queries=(Query(f"sum ({series(metrics.READY)})", "ready"),),
            levels=((0, "red"), (1, "orange"), (2, "green")),
            tells="How many replicas can answer.",
            act="0: Jobs are refused, so follow the page on outages. 1: look at the Events of the other pods.",
        ),
        Panel(
            title="Requests not answered",
            kind="stat",
            width=4,
            unit="percentunit",
            queries=(
                Query(
                    share(rate(series(metrics.REQUESTS, result=NOT_ANSWERED)), rate(series(metrics.REQUESTS))),
                    "not answered",
                ),
            ),
            levels=((0, "green"), (0.001, "orange"), (0.01, "red")),
            tells="The share of the requests that got HTTP 503, 429 or 500.",
            act="Above 0: the panel on the reasons says which.",
        ),
        Panel(
            title="Requests a second, by result",
            kind="stack",
            width=16,
            unit="reqps",
            queries=(Query(rate(series(metrics.REQUESTS), "result"), "{{result}}"),),
            tells="What API servers ask, and what they are told.",
            act="Nothing although Jobs are created: no namespace has the label, or the webhooks are not installed.",
        ),
        Panel(
            title="Time to answer",
            kind="lines",
            width=12,
            unit="s",
            queries=(
                Query(quantile(0.5, "path"), "{{path}} median"),
                Query(quantile(0.99, "path"), "{{path}} 99 %"),
            ),
            tells="How long one half, and 99 of 100, of the requests take at most.",
            act="99 % near 1 s: the API server answers look-ups slowly, or the replicas need more CPU.",
        ),
        Panel(
            title="Requests a second that are not answered, by reason",
            kind="stack",
            width=12,
            unit="reqps",
            queries=(Query(rate(series(metrics.REQUESTS, result=f"{NOT_ANSWERED}|bad"), "result"), "{{result}}"),),
            tells="unavailable: 503. overloaded: 429. error: 500. bad: the request was no review.",
            act="unavailable: read the log line `not answered`. overloaded: add CPU or replicas. error: report it. "
            "bad: let only API servers reach the port.",
        ),
    ),
)

DOES: Final = Row(
    "work",
    "What does it do?",
    (
        Panel(
            title="Objects changed a second, by kind",
            kind="stack",
            queries=(Query(rate(series(metrics.REQUESTS, result="patched"), "kind"), "{{kind}}"),),
            tells="Which kinds the policy changes.",
            act="A kind of yours is missing: compare with the page on kinds.",
        ),
        Panel(
            title="Edits a second, by rule",
            kind="stack",
            queries=(Query(rate(series(metrics.EDITS, mode="Enforce"), "rule"), "{{rule}}"),),
            tells="Which rules change objects, without dry runs.",
            act="placement is missing: no provider is recognised, or no spot node is asked for.",
        ),
        Panel(
            title="Problems a second, by rule",
            kind="stack",
            queries=(Query(rate(series(metrics.PROBLEMS, mode="Enforce"), "rule"), "{{rule}}"),),
            tells="Which rules deny objects, without dry runs.",
            act="Rises after an edit of the policy: users do not know the new limit. Tell them, or set Warn first.",
        ),
        Panel(
            title="Requests denied, by kind",
            kind="bars",
            width=6,
            queries=(Query(happened(series(metrics.REQUESTS, result="denied"), "kind"), "{{kind}}"),),
            tells="Of which kinds the denied objects are, with dry runs.",
            act="Many of Pod: a controller creates them again and again; its workload has to be corrected.",
        ),
        Panel(
            title="Requests denied, by namespace",
            kind="bars",
            width=6,
            queries=(
                Query(
                    f"topk(10, {happened(series(metrics.REQUESTS_DENIED, **CHOSEN), 'namespace', 'profile')})",
                    "{{namespace}} ({{profile}})",
                ),
            ),
            tells="Whose objects are denied.",
            act="Show these teams `retry-policy check`, or give their namespace another profile.",
        ),
        Panel(
            title="Not enforced, by namespace",
            kind="bars",
            width=6,
            queries=(
                Query(
                    f"topk(10, {happened(series(metrics.NOT_ENFORCED, **CHOSEN), 'namespace', 'would_be')})",
                    "{{namespace}}: {{would_be}}",
                ),
            ),
            tells="What Enforce would deny or change in namespaces of mode Warn or Audit.",
            act="No bar `denied` of a namespace for a week: set it to Enforce.",
        ),
        Panel(
            title="Pods placed a second",
            kind="stack",
            width=6,
            queries=(Query(rate(series(metrics.PLACEMENTS), "placement"), "{{placement}}"),),
            tells="How many pods are sent to spot and to on-demand nodes.",
            act="Many `None`: the page on troubleshooting lists the reasons.",
        ),
    ),
)

COSTS: Final = Row(
    "attempts",
    "What do attempts cost?",
    (
        Panel(
            title="Failed attempts a minute, by cause",
            kind="stack",
            queries=(Query(rate(series(metrics.LEDGER_ATTEMPTS), "cause", factor=A_MINUTE), "{{cause}}"),),
            tells="Why pods end without success.",
            act="Disruption: compare node pools. OOMKilled: ask for more memory. ExitCode: bugs of the Jobs.",
        ),
        Panel(
            title="Failed attempts a minute, by cost",
            kind="stack",
            queries=(Query(rate(series(metrics.LEDGER_ATTEMPTS), "cost", factor=A_MINUTE), "{{cost}}"),),
            tells="What these attempts cost their workloads: a retry, a disruption, all (fatal), or nothing.",
            act="Many `retry`: exit codes that should end the Job are in `retriableExitCodes`.",
        ),
        Panel(
            title="Disruptions a minute, by reason",
            kind="stack",
            queries=(Query(rate(series(metrics.LEDGER_DISRUPTIONS), "reason", factor=A_MINUTE), "{{reason}}"),),
            tells="What takes pods away: preemption, eviction, taints, lost nodes.",
            act="One reason prevails: look for what causes it, such as a node upgrade or a descheduler.",
        ),
        Panel(
            title="Workloads stopped by the ledger",
            kind="bars",
            width=6,
            queries=(Query(happened(series(metrics.LEDGER_STOPPED), "action", "reason"), "{{action}}: {{reason}}"),),
            tells="Jobs and JobSets that were failed or suspended at a limit, or because of a bug.",
            act="`DisruptionLimitExceeded`: raise `disruptions.limit`, or choose `onExceed: OnDemand`.",
        ),
        Panel(
            title="Requested retries",
            kind="bars",
            width=6,
            queries=(Query(f"sum by (result) (increase({series(metrics.REQUESTED_RETRIES)}[{RANGE}]))", "{{result}}"),),
            tells="What became of retries that an annotation requested. No data without `--requested-retries`.",
            act="`stuck`: the Event `RetryStuck` on the object has the remedy.",
        ),
        Panel(
            title="Retries saved",
            kind="stat",
            width=3,
            queries=(Query(rose(series(metrics.LEDGER_SAVED)), "saved"),),
            tells="Retries that were left to workloads which failed at once.",
            act="Nothing; it is what the policy saves.",
        ),
        Panel(
            title="Spot attempts lost",
            kind="stat",
            width=3,
            queries=(Query(rose(series(metrics.LEDGER_SPOT_LOST)), "lost"),),
            tells="Pods on spot nodes that ended without success, from any cause.",
            act="Compare it with what spot saves.",
        ),
        Panel(
            title="Placed on demand",
            kind="stat",
            width=3,
            unit="percentunit",
            queries=(
                Query(
                    share(
                        rose(series(metrics.PLACEMENTS, placement="OnDemand")),
                        rose(series(metrics.PLACEMENTS, placement="Spot|OnDemand")),
                    ),
                    "on demand",
                ),
            ),
            tells="The share of the placed pods that are sent to on-demand nodes, most of them last attempts.",
            act='High: spot is taken away often, or authors set `interruptible: "false"`.',
        ),
        Panel(
            title="At the last attempt",
            kind="stat",
            width=3,
            queries=(Query(worst(series(metrics.LEDGER_AT_LAST_ATTEMPT)), "workloads"),),
            tells="Running workloads that have no retry left.",
            act="Many: something fails for many Jobs at the same time.",
        ),
        Panel(
            title="Decisions of onFailure",
            kind="bars",
            queries=(
                Query(happened(series(metrics.LEDGER_DECISIONS), "profile", "rule"), "{{profile}}: rule {{rule}}"),
            ),
            tells="Ended attempts by the rule of `onFailure` that decided after them. No data without such rules.",
            act="`rule None` prevails: no rule matches what happens; `explain` shows how these attempts ended.",
        ),
        Panel(
            title="Waiting pods, by reason",
            kind="lines",
            queries=(Query(worst(series(metrics.WAITING_PODS), "reason"), "{{reason}}"),),
            tells="Pods that have not started: held back by a delay, on no node, or with a container that waits.",
            act="Unschedulable or NotStarted stays high: set `placement.spotWait` or `startTimeout`.",
        ),
        Panel(
            title="Waiting pods ended, by reason",
            kind="bars",
            queries=(Query(happened(series(metrics.WAITING_PODS_ENDED), "reason"), "{{reason}}"),),
            tells="Pods that the leader ended because they waited in vain.",
            act="SpotUnavailable: on-demand nodes are paid for. NeverStarted: correct the image or the mount.",
        ),
    ),
)

STATE: Final = Row(
    "state",
    "Who leads? Are policy and certificates right?",
    (
        Panel(
            title="Leader",
            kind="states",
            words=("follows", "leads"),
            levels=((0, "grey"), (1, "green")),
            queries=(Query(worst(series(metrics.LEDGER_LEADING), "pod"), "{{pod}}"),),
            tells="Which replica writes the ledger.",
            act="None: read the log line `lease not held`. Changes often: the API server answers slowly.",
        ),
        Panel(
            title="Newest policy",
            kind="states",
            words=("refused", "in force"),
            levels=((0, "red"), (1, "green")),
            queries=(Query(worst(series(metrics.POLICY_LAST_RELOAD_GOOD), "pod"), "{{pod}}"),),
            tells="Whether each replica uses the newest policy.",
            act="refused: the Event `PolicyRefused` says what is wrong; the policy before stays in force.",
        ),
        Panel(
            title="Certificate",
            kind="states",
            words=("not trusted", "trusted"),
            levels=((0, "red"), (1, "green")),
            queries=(Query(worst(series(metrics.CERTIFICATE_TRUSTED), "pod"), "{{pod}}"),),
            tells="Whether API servers trust the certificate of each replica.",
            act="not trusted: another tool writes `caBundle`, or the server may not write it.",
        ),
        Panel(
            title="Actions of the leader a minute, by result",
            kind="stack",
            width=16,
            queries=(
                Query(
                    rate(series(metrics.LEADER_ACTIONS), "action", "result", factor=A_MINUTE), "{{action}}: {{result}}"
                ),
            ),
            tells="What the leader does to objects, and what it does not do now.",
            act="delayed: `rateLimit` holds it back, so find out why there is so much to do. "
            "stopped: the policy's `emergency`.",
        ),
        Panel(
            title="Emergency",
            kind="states",
            words=("run", "stopped"),
            levels=((0, "green"), (1, "red")),
            queries=(Query(worst(series(metrics.EMERGENCY), "stops"), "{{stops}}"),),
            tells="Whether the policy stops the actions of the leader, or new retries.",
            act="stopped: set `emergency` back to Run once the reason is gone.",
        ),
        Panel(
            title="Writes of the ledger a second",
            kind="stack",
            width=6,
            queries=(Query(rate(series(metrics.LEDGER_WRITES), "result"), "{{result}}"),),
            tells="Accounts that the leader writes.",
            act="`bad`: the log line `account not written` says why.",
        ),
        Panel(
            title="Caches without a watch",
            kind="lines",
            width=5,
            unit="s",
            queries=(Query(worst(series(metrics.CACHE_AGE), "pod"), "{{pod}}"),),
            tells="For how long the oldest cache of a replica has not been watched.",
            act="Rises: the replica cannot reach the API server; the log line `watch broken` says why.",
        ),
        Panel(
            title="Certificates expire in",
            kind="stat",
            width=4,
            unit="d",
            queries=(
                Query(
                    f"(min by (certificate) ({series(metrics.CERTIFICATE_NOT_AFTER)}) - time()) / 86400",
                    "{{certificate}}",
                ),
            ),
            levels=((0, "red"), (5, "orange"), (10, "green")),
            tells="The days until the served certificate (leaf) and its CA (authority) expire.",
            act="Below 10: the Event `CertificateNotRenewed` says why it was not renewed.",
        ),
        Panel(
            title="Unknown profile",
            kind="stat",
            width=3,
            queries=(Query(rose(series(metrics.UNKNOWN_PROFILES)), "requests"),),
            levels=((0, "green"), (1, "red")),
            tells="Requests in namespaces whose profile the policy does not have; they are left alone.",
            act="Add the profile, or correct the label of the namespace.",
        ),
        Panel(
            title="Provider of the nodes",
            kind="stat",
            width=3,
            words=("unknown", "known"),
            queries=(Query(worst(series(metrics.PROVIDER_RECOGNISED)), "provider"),),
            levels=((0, "red"), (1, "green")),
            tells="Whether the provider of the nodes is recognised.",
            act="unknown: profiles with `provider: auto` place no pod; name the provider in the policy.",
        ),
        Panel(
            title="Versions",
            kind="stat",
            width=3,
            queries=(Query(f"count by (version) ({series(metrics.BUILD)})", "{{version}}"),),
            tells="How many replicas run each version.",
            act="Two versions for long: a roll-out is stuck.",
        ),
    ),
)

USES: Final = Row(
    "resources",
    "What does it use?",
    (
        Panel(
            title="Memory",
            kind="lines",
            unit="bytes",
            queries=(Query(worst(series(metrics.RESIDENT_MEMORY), "pod"), "{{pod}}"),),
            tells="The memory of each replica.",
            act="Near the limit of the container: add memory.",
        ),
        Panel(
            title="Open connections",
            kind="lines",
            queries=(Query(worst(series(metrics.CONNECTIONS), "pod"), "{{pod}}"),),
            tells="Connections to the admission port of each replica.",
            act="More than a few hundred: find out what besides API servers connects.",
        ),
        Panel(
            title="Connections closed a minute, by reason",
            kind="stack",
            queries=(Query(rate(series(metrics.CONNECTIONS_DROPPED), "reason", factor=A_MINUTE), "{{reason}}"),),
            tells="Connections whose client did not finish something, or that made room for others.",
            act="Above 0: let only API servers reach the port.",
        ),
        Panel(
            title="Requests that wait",
            kind="lines",
            width=12,
            queries=(Query(worst(series(metrics.WAITING), "pod"), "{{pod}}"),),
            tells="Requests that wait for an answer of the API server, at most 128 in each replica.",
            act="Stays high: the API server answers slowly.",
        ),
        Panel(
            title="Bytes of requests",
            kind="lines",
            width=12,
            unit="bytes",
            queries=(Query(worst(series(metrics.HELD_BYTES), "pod"), "{{pod}}"),),
            tells="Bodies of requests that are not answered yet.",
            act="Stays high: add a replica.",
        ),
    ),
)

ROWS: Final = (UP, DOES, COSTS, STATE, USES)
