"""The systems whose workloads have an account beside Job and JobSet."""

from typing import Final

from webhook.systems import parts
from webhook.systems.kind_spec import KindSpec
from webhook.systems.system import System

# By the kind of the object that has the account.
SYSTEMS: Final[dict[KindSpec, System]] = {
    system.kind: system for module in parts("account") for system in module.SYSTEMS
}


def system_of(kind: KindSpec) -> System | None:
    """Return the system of a kind that has an account; None for Job and JobSet."""
    return SYSTEMS.get(kind)
