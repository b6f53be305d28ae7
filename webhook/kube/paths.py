"""Paths of the Kubernetes API. Every path with a name in it is built here, so that no name can change the request."""

import re
from typing import Final

# A DNS subdomain: the names of most objects and of all namespaces.
SUBDOMAIN: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
VERSION: Final = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")


def is_name(text: str) -> bool:
    """Return True if an object of any kind that the webhook reads may have this name."""
    return SUBDOMAIN.fullmatch(text) is not None


def path_of(api_version: str, resource: str, namespace: str | None = None, name: str | None = None) -> str:
    """Return the path of an object, or of a list if `name` is None.

    Raise ValueError if `api_version`, `namespace` or `name` is not valid: it may come from a client.
    """
    group, slash, version = api_version.rpartition("/")
    if not VERSION.fullmatch(version) or (slash and not is_name(group)):
        raise ValueError(f"{api_version!r} is not an apiVersion")
    for one in (namespace, name):
        if one is not None and not is_name(one):
            raise ValueError(f"{one!r} is not the name of an object")
    path = f"/apis/{api_version}" if slash else f"/api/{api_version}"
    if namespace is not None:
        path += f"/namespaces/{namespace}"
    path += f"/{resource}"
    return path if name is None else f"{path}/{name}"
