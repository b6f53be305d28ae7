"""Reports the requests that Enforce would deny or change, in namespaces of mode Warn or Audit: a log line, a metric.

A line has the names of the object, the profile and the rules, and nothing else of the object.
"""

from typing import Final

import structlog

from webhook import metrics
from webhook.admission.object_name import ObjectName
from webhook.admission.review import Response
from webhook.program.logs import LogLines

# Pairs of a namespace and a profile that the metrics tell apart. Users may create namespaces, and change their labels.
PAIRS: Final = 200
OTHER: Final = "(other)"  # no namespace can have this name

log = structlog.get_logger()


class NotEnforced:
    """Reports what is not enforced; `lines` bounds the log."""

    def __init__(self, lines: LogLines) -> None:
        self.lines = lines
        self.pairs: set[tuple[str, str]] = set()

    def report(self, name: ObjectName, response: Response, profile_name: str, mode: str) -> None:
        """Log and count what Enforce would do to an object."""
        for would_be, found in (("denied", response.would_deny), ("changed", response.would_change)):
            if not found:
                continue
            metrics.not_enforced(self.label(name.namespace, profile_name), profile_name, would_be).inc()
            rules = sorted({rule for rule, _ in found})
            if self.lines.has_room(name.namespace, (would_be, name.kind, name.controller or name.name, *rules)):
                what = {"would_be": would_be, "profile": profile_name, "mode": mode, "rules": rules}
                log.info("not enforced", **name.fields, **what)

    def label(self, namespace: str, profile_name: str) -> str:
        """Return the value of the label `namespace` of a metric: the name, if it is among the first ones."""
        pair = namespace, profile_name
        if pair not in self.pairs:
            if len(self.pairs) >= PAIRS:
                return OTHER
            self.pairs.add(pair)
        return namespace
