"""For each alert, series with which it fires and series with which it does not, as `promtool test rules` reads them.

A series is written as its first value and its step, once a minute: `1x5 0x10` is 1 six times, then 0 eleven times.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

REQUESTS: Final = "admission_requests_total"
DURATION: Final = 'admission_duration_seconds_bucket{path="mutate", '

Values = dict[str, str]  # by series, without the prefix of all metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An alert fires after some minutes with the series `fires`, and does not with the series `quiet`.

    `labels`, `summary`: of the alert that fires.
    """

    minutes: int
    fires: Values
    quiet: Values
    summary: str
    labels: Mapping[str, str] = field(default_factory=dict)


CASES: Final[dict[str, tuple[Case, ...]]] = {
    "RetryPolicyWebhookDown": (
        Case(
            minutes=15,
            fires={'ready{pod="a"}': "1x5 0x20", 'ready{pod="b"}': "1x5 0x20"},
            quiet={'ready{pod="a"}': "0x25", 'ready{pod="b"}': "1x25"},
            summary="No replica of the retry policy webhook is ready, or none is scraped.",
        ),
        Case(
            minutes=15,
            fires={'ready{pod="a"}': "1x2"},
            quiet={'ready{pod="a"}': "1x12"},  # not for long enough
            summary="No replica of the retry policy webhook is ready, or none is scraped.",
        ),
    ),
    "RetryPolicyReloadFailed": (
        Case(
            minutes=10,
            fires={'policy_last_reload_good{pod="a"}': "1x5 0x10", 'policy_last_reload_good{pod="b"}': "1x20"},
            quiet={'policy_last_reload_good{pod="a"}': "1x7 0x0 1x10"},
            labels={"pod": "a"},
            summary="a refused the newest policy.",
        ),
    ),
    "RetryPolicyCertificateExpires": (
        Case(
            minutes=30,
            fires={'certificate_not_after_timestamp_seconds{certificate="leaf", pod="a"}': "400000x40"},
            quiet={'certificate_not_after_timestamp_seconds{certificate="leaf", pod="a"}': "900000x40"},
            labels={"certificate": "leaf"},
            summary="The leaf certificate expires in 4d 14h 36m 40s.",
        ),
    ),
    "RetryPolicyCertificateNotRenewed": (
        Case(
            minutes=60,
            fires={'certificate_renewals_total{result="bad", pod="a"}': "0+1x60"},
            quiet={'certificate_renewals_total{result="bad", pod="a"}': "0+1x2 2x60"},
            labels={"result": "bad", "pod": "a"},
            summary="a fails to renew a certificate or to write a caBundle, again and again.",
        ),
    ),
    "RetryPolicyCertificateNotTrusted": (
        Case(
            minutes=10,
            fires={'certificate_trusted{pod="a"}': "1x5 0x10", 'certificate_trusted{pod="b"}': "1x20"},
            quiet={'certificate_trusted{pod="a"}': "1x20"},
            summary="The API server does not trust the webhook's certificate.",
        ),
    ),
    "RetryPolicyLedgerNotWritten": (
        Case(
            minutes=10,
            fires={"ledger_leading": "0x20", "ledger_forbidden": "0x20"},
            quiet={'ledger_leading{pod="a"}': "0x20", 'ledger_leading{pod="b"}': "1x20", "ledger_forbidden": "0x20"},
            summary="No replica writes the ledger.",
        ),
    ),
    "RetryPolicyLedgerForbidden": (
        Case(
            minutes=10,
            fires={"ledger_forbidden": "1x20"},
            quiet={"ledger_forbidden": "0x20"},
            summary="The Role of the ledger is missing, so disruptions have no limit.",
        ),
    ),
    "RetryPolicyRetryStuck": (
        Case(
            minutes=10,
            fires={'requested_retries_total{kind="Job", result="stuck"}': "0x5 1x10"},
            quiet={
                'requested_retries_total{kind="Job", result="stuck"}': "0x20",
                'requested_retries_total{kind="Job", result="refused"}': "0+1x20",
            },
            labels={"kind": "Job"},
            summary="A requested retry of a Job does not continue.",
        ),
    ),
    "RetryPolicyEmergency": (
        Case(
            minutes=25,
            fires={'emergency{stops="actions", pod="a"}': "0x5 1x30", 'emergency{stops="retries", pod="a"}': "0x35"},
            quiet={'emergency{stops="actions", pod="a"}': "0x15 1x20", 'emergency{stops="retries", pod="a"}': "0x35"},
            labels={"stops": "actions"},
            summary="The policy has stopped actions for more than 15 minutes.",
        ),
    ),
    "RetryPolicyActionsDelayed": (
        Case(
            minutes=10,
            fires={'leader_actions_total{action="fail", result="delayed"}': "0x7 3x10"},
            quiet={
                'leader_actions_total{action="fail", result="delayed"}': "3x20",
                'leader_actions_total{action="fail", result="taken"}': "0+300x20",
            },
            labels={"action": "fail"},
            summary="The leader does more than the rate limit allows; the action fail waits.",
        ),
    ),
    "RetryPolicyProviderNotRecognised": (
        Case(
            minutes=20,
            fires={"capacity_provider_recognised": "0x30", 'policy_profiles{provider="auto"}': "1x30"},
            quiet={"capacity_provider_recognised": "0x30", 'policy_profiles{provider="gke"}': "1x30"},
            summary="The provider of the nodes is not recognised, so pods are placed neither on spot nor on demand.",
        ),
    ),
    "RetryPolicyErrors": (
        Case(
            minutes=8,
            fires={f'{REQUESTS}{{path="mutate", kind="Job", operation="CREATE", result="error"}}': "_x5 1x10"},
            quiet={f'{REQUESTS}{{path="mutate", kind="Job", operation="CREATE", result="patched"}}': "0+9x10"},
            labels={"path": "mutate", "kind": "Job"},
            summary="The webhook answers HTTP 500 to mutate of Job.",
        ),
        Case(
            minutes=35,
            fires={f'{REQUESTS}{{path="validate", kind="Pod", operation="CREATE", result="error"}}': "1x28 2x10"},
            quiet={f'{REQUESTS}{{path="validate", kind="Pod", operation="CREATE", result="error"}}': "1x40"},
            labels={"path": "validate", "kind": "Pod"},
            summary="The webhook answers HTTP 500 to validate of Pod.",
        ),
    ),
    "RetryPolicyUnavailable": (
        Case(
            minutes=15,
            fires={f'{REQUESTS}{{result="unavailable"}}': "0+10x20", f'{REQUESTS}{{result="patched"}}': "0+90x20"},
            quiet={f'{REQUESTS}{{result="unavailable"}}': "0+1x20", f'{REQUESTS}{{result="patched"}}': "0+999x20"},
            summary="10% of the requests are answered 503.",
        ),
    ),
    "RetryPolicyOverloaded": (
        Case(
            minutes=15,
            fires={f'{REQUESTS}{{result="overloaded", pod="a"}}': "0+120x20"},
            quiet={f'{REQUESTS}{{result="overloaded", pod="a"}}': "0+30x20"},
            labels={"pod": "a"},
            summary="a answers 429 to 2 requests a second.",
        ),
    ),
    "RetryPolicySlow": (
        Case(
            minutes=20,
            fires={
                f'{DURATION}le="1.0"}}': "0+90x30",
                f'{DURATION}le="2.5"}}': "0+100x30",
                f'{DURATION}le="+Inf"}}': "0+100x30",
            },
            quiet={
                f'{DURATION}le="1.0"}}': "0+1000x30",
                f'{DURATION}le="2.5"}}': "0+1001x30",
                f'{DURATION}le="+Inf"}}': "0+1001x30",
            },
            labels={"path": "mutate"},
            summary="One in a hundred answers to mutate takes 2.35s or more.",
        ),
    ),
    "RetryPolicyUnknownProfile": (
        Case(
            minutes=10,
            fires={"unknown_profile_requests_total": "0x5 1x10"},
            quiet={"unknown_profile_requests_total": "3x20"},
            summary="A namespace names a profile that the policy does not have; its objects are left alone.",
        ),
    ),
    "RetryPolicyHistoryDropped": (
        Case(
            minutes=10,
            fires={'history_records_total{result="dropped"}': "0x5 1x10"},
            quiet={
                'history_records_total{result="dropped"}': "3x20",
                'history_records_total{result="written"}': "0+9x20",
            },
            summary="Records of ended attempts are lost.",
        ),
    ),
    "RetryPolicyCacheStale": (
        Case(
            minutes=15,
            fires={'cache_age_seconds{list="jobs", pod="a"}': "0x5 90+60x10"},
            quiet={'cache_age_seconds{list="jobs", pod="a"}': "0x10 90x0 0x10"},
            labels={"list": "jobs", "pod": "a"},
            summary="a has not watched jobs for 10m 30s.",
        ),
    ),
}


def promtool_tests(alert: str, rule: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tests of an alert, two for each of its cases: where it fires, and where it does not."""
    found = []
    for case in CASES[alert]:
        expected = {
            "exp_labels": {**rule["labels"], **case.labels},
            "exp_annotations": {**rule["annotations"], "summary": case.summary},
        }
        found += [
            promtool_test(alert, case.fires, case.minutes, [expected]),
            promtool_test(alert, case.quiet, case.minutes, []),
        ]
    return found


def promtool_test(alert: str, values: Values, minutes: int, expected: list[Any]) -> dict[str, Any]:
    """Return a test with these series, and the alerts that are expected after some minutes."""
    return {
        "interval": "1m",
        "input_series": [{"series": f"retry_policy_{name}", "values": text} for name, text in values.items()],
        "alert_rule_test": [{"eval_time": f"{minutes}m", "alertname": alert, "exp_alerts": expected}],
    }
