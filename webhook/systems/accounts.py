"""The systems whose workloads have an account."""

from typing import Final

from webhook.systems import parts
from webhook.systems.kind_spec import KindSpec
from webhook.systems.system import System

# By the kind of the object that has the account.
SYSTEMS: Final[dict[KindSpec, System]] = {
    system.kind: system for module in parts("account") for system in module.SYSTEMS
}
# The kinds whose pods are not those of Jobs.
WITHOUT_JOBS: Final = tuple(kind for kind, system in SYSTEMS.items() if not system.has_jobs)
