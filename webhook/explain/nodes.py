"""Takes from nodes where attempts ran, as a report does, and why the webhook places nothing. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from webhook.capacity.recognition import NodeFacts, capacities
from webhook.explain.build import PLACEMENTS, UNPLACED, Explanation

NOT_RECOGNISED = "nothing is placed: no provider is recognised from the nodes; see `retry-policy doctor`"


def on_nodes(made: Explanation, nodes: Mapping[str, NodeFacts]) -> Explanation:
    """Return an explanation with what nodes say, by name: of a node that is gone the policy's decision is shown."""
    found = capacities(nodes)
    rows = [replace(row, placement=PLACEMENTS.get(found.get(row.node, ""), row.placement)) for row in made.rows]
    is_unknown = bool(nodes) and not any(found.values())
    placement = NOT_RECOGNISED if made.placement == UNPLACED and is_unknown else made.placement
    return replace(made, rows=rows, placement=placement)
