"""Creates namespaces that are opted in and in which pods can be created."""

from webhook.kube import names
from webhook.kube.client import Api


async def new_namespace(api: Api, name: str, profile: str = "default") -> None:
    """Create a namespace, and wait for its ServiceAccount, without which no pod can be created."""
    await api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": {names.PROFILE: profile}}})
    accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
    query = {"watch": "1", "fieldSelector": "metadata.name=default", "timeoutSeconds": "60"}
    async with api.stream(accounts, query, "application/json") as lines:
        await anext(lines)
