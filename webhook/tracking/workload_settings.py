"""The settings of a workload: what its Namespace's profile and its own annotations say."""

from webhook.objects.problem import Json
from webhook.policy.settings import NamedProfile, Settings
from webhook.rules import annotations
from webhook.tracking.cluster import Cluster
from webhook.tracking.policy_source import PolicySource


def settings_of(cluster: Cluster, policy: PolicySource, root: Json) -> Settings:
    """Return the settings of a workload under its Namespace's profile; the defaults if the policy lacks it."""
    name, _ = cluster.known_opt_in(root["metadata"]["namespace"])
    return NamedProfile(name or "", policy.profile(name or "")).settings(annotations.of(root))
