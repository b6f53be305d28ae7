"""The systems whose workloads have an account beside Job and JobSet: one module for each."""

from typing import Final

from webhook.ledger.model.systems.system import System

# By group and kind of the object that has the account.
SYSTEMS: Final[dict[tuple[str, str], System]] = {}
