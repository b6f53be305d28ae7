"""All objects that a policy is exported to."""

from collections.abc import Iterator

from webhook.export import limits
from webhook.export.objects import Envelope, validating
from webhook.objects.problem import Json
from webhook.policy.model import Policy
from webhook.systems import core
from webhook.systems.kinds import KINDS


def objects(policy: Policy) -> Iterator[Json]:
    """Yield the admission policies of a policy, and their bindings."""
    for row in (core.POD, *(row for row in KINDS.values() if row.admitted)):
        yield from validating(Envelope(row, policy), limits.spec(row, policy))
