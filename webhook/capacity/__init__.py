"""Spot and on-demand capacity of each provider: the labels of its nodes, and the node affinity that pods need."""

from webhook.capacity.contradictions import refuses_on_demand, refuses_spot
from webhook.capacity.pools import Census, Pool
from webhook.capacity.provider import Provider, custom, off_spot, on_demand_preferences, on_spot, spot_preferences
from webhook.capacity.recognition import NodeFacts, provider_named, recognise
from webhook.capacity.set_aside import set_aside
from webhook.capacity.tolerations import missing_tolerations

__all__ = [
    "Census",
    "NodeFacts",
    "Pool",
    "Provider",
    "custom",
    "missing_tolerations",
    "off_spot",
    "on_demand_preferences",
    "on_spot",
    "provider_named",
    "recognise",
    "refuses_on_demand",
    "refuses_spot",
    "set_aside",
    "spot_preferences",
]
