"""Of how many nodes a part may be avoided: of those that exist."""

import asyncio

from tests.unit.test_cost import pod_of_a_job, warm
from webhook.admission.subject import read, subject_of
from webhook.tracking.nodes import NOWHERE, NodePlace


def test_nodes_that_are_gone_and_nodes_that_never_existed_do_not_count() -> None:
    server = warm()
    assert server.cluster is not None
    known = server.cluster.known_nodes
    known.created = {"a": 0.0, "b": 0.0}
    known.put("gone", NodePlace())
    known.put("invented", NOWHERE)
    body = pod_of_a_job()
    subject = subject_of(read(body), body=body)
    assert subject is not None
    assert asyncio.run(server.facts(subject)).nodes == 2
