"""The adapter of each kind that can run again."""

from typing import Final

from webhook.systems import parts
from webhook.systems.adapter import Adapter
from webhook.systems.kind_spec import KindSpec

ADAPTERS: Final[dict[KindSpec, Adapter]] = {
    adapter.kind: adapter for module in parts("rerun") for adapter in module.ADAPTERS
}
