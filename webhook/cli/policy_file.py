"""Read the policy: the file of the option `--policy`, or the ConfigMap of a cluster."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from webhook.admission.engine import read_policy
from webhook.cli.console import fail
from webhook.kube.paths import path_of
from webhook.objects.problem import Problem
from webhook.policy.model import Policy, Profile
from webhook.policy.parse import KEY, load_default

if TYPE_CHECKING:
    from webhook.kube.client import Api

POLICY_CONFIGMAP: Final = ("retry-policy-system", "retry-policy")  # as manifests/ installs it
DEFAULT: Final = "default"  # the profile of what names none
LARGEST_POLICY: Final = 1024 * 1024  # bytes, of a ConfigMap


def profile_of(policy: Policy, name: str) -> Profile:
    """Return a profile of the policy; raise click.UsageError if there is none of that name."""
    profile = policy.profiles.get(name)
    if profile is None:
        raise click.UsageError(f"the policy has no profile {name!r}; it has: {', '.join(sorted(policy.profiles))}")
    return profile


def default_profile(policy: Policy) -> str:
    """Return the name of the profile under which an object is judged that names none: `default`, or the only one."""
    return next(iter(policy.profiles)) if len(policy.profiles) == 1 else DEFAULT


def usable_policy(file: Path | None) -> Policy:
    """Return the policy in a file, or the packaged policy without one; if it has problems, print them and exit 2."""
    if file is None:
        return load_default()
    policy = policy_or_problems(file)
    if isinstance(policy, list):
        fail(*(f"{file}: {problem}" for problem in policy))
    return policy


def policy_or_problems(file: Path) -> Policy | list[Problem]:
    """Return the policy in a file, or its problems; exit 2 if the file cannot be read."""
    try:
        text = policy_text(file)
    except ValueError as error:
        fail(f"{file}: {error}")
    policy, problems = read_policy(text)
    return problems if policy is None else policy


def policy_text(file: Path) -> str:
    """Return the text of a policy file; raise ValueError if it cannot be read, is too large or is not UTF-8."""
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST_POLICY + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}; name a policy file") from None
    if len(data) > LARGEST_POLICY:
        raise ValueError("is larger than 1 MiB, which no ConfigMap holds; make it smaller")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8; save it as UTF-8") from None


async def stored_policy(api: "Api") -> str | None:
    """Return the text of the policy in the cluster; None if there is none; raise as `Api.get` does."""
    namespace, name = POLICY_CONFIGMAP
    query = {"fieldSelector": f"metadata.name={name}"}
    async for one in api.objects(path_of("v1", "configmaps", namespace), query):
        text: str | None = (one.get("data") or {}).get(KEY)
        return text
    return None
