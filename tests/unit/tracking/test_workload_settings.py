"""The settings of a workload by its namespace, as both programs know it."""

from typing import Any

from tests.admission import policy
from webhook.kube import names
from webhook.policy.model import Profile, Retries
from webhook.tracking.cluster import Cluster, settings_of
from webhook.tracking.policy_source import PolicySource


def test_they_are_those_of_the_namespaces_profile_with_the_workloads_annotations() -> None:
    no_api: Any = None
    cluster = Cluster(no_api)
    source = PolicySource(policy(default=Profile(), strict=Profile(retries=Retries(limit=3))))
    cluster.namespaces.items["", "ml"] = ("strict", None)
    root = {"metadata": {"namespace": "ml", "name": "train", "annotations": {names.MAX_RETRIES: "2"}}}
    found = settings_of(cluster, source, root)
    assert (found.profile.retries.limit, found.max_retries) == (3, 2)
    assert settings_of(cluster, source, {"metadata": {"namespace": "other"}}).profile == Profile()
