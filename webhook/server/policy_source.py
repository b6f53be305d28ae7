"""The policy in force: packaged, from a file or from a ConfigMap, followed as it changes. The last good one stays."""

import asyncio
import hashlib
from pathlib import Path
from typing import Final

import structlog

from webhook.decide import validate_policy
from webhook.policy.model import Policy
from webhook.policy.parse import parse
from webhook.problem import Json, Problem
from webhook.server import metrics
from webhook.server.api import Api
from webhook.server.watch import WatchedList

KEY: Final = "policy.yaml"
# Content is compared, not modification times: mounted ConfigMaps are swapped by a symlink.
INTERVAL: Final = 1.0
LARGEST: Final = 1024 * 1024  # bytes: what a ConfigMap can hold at most

log = structlog.get_logger()


class PolicySource:
    """Holds the policy in force; `current` is None until a good one has been seen, and `trouble` says why."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.current = policy
        self.trouble = "" if policy is not None else "no policy has been read yet"

    def take(self, text: str, origin: str) -> None:
        """Put a policy text in force, unless it has problems."""
        parsed = parse(text)
        problems: list[Problem] = validate_policy(parsed) if isinstance(parsed, Policy) else parsed
        if isinstance(parsed, Policy) and not problems:
            self.current = parsed
            self.trouble = ""
            metrics.POLICY_RELOADS.labels("good").inc()
            log.info("policy in force", origin=origin, profiles=sorted(parsed.profiles))
        else:
            self.refuse(origin, [str(problem) for problem in problems])

    def refuse(self, origin: str, problems: list[str]) -> None:
        """Keep the last good policy, and say why."""
        self.trouble = f"{origin}: " + " | ".join(problems)
        metrics.POLICY_RELOADS.labels("bad").inc()
        log.error("policy refused", origin=origin, problems=problems, in_force="last good" if self.current else "none")

    async def follow_config_map(self, api: Api, namespace: str, name: str) -> None:
        """Watch a ConfigMap until cancelled; one that is deleted leaves the last good policy in force."""
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        origin = f"ConfigMap {namespace}/{name}"
        watched = WatchedList(api, path, text_of, query={"fieldSelector": f"metadata.name={name}"})
        seen: str | None = None

        def changed() -> None:
            nonlocal seen
            text = watched.items.get((namespace, name))
            if text is None:
                self.refuse(origin, [f"has no key {KEY}, or does not exist"])
            elif text != seen:
                self.take(text, origin)
            seen = text

        watched.changed = changed
        await watched.run()

    async def follow(self, file: Path, seen: bytes) -> None:
        """Read a file again whenever its content is no more the one whose digest was `seen`, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            seen = self.read(file, seen)

    def read(self, file: Path, seen: bytes = b"") -> bytes:
        """Take a file's policy if its content is not the one whose digest was `seen`; return the digest of what was."""
        try:
            with file.open("rb") as opened:
                content = opened.read(LARGEST + 1)
        except OSError as error:
            digest = str(error).encode()
            if digest != seen:
                self.refuse(str(file), [f"cannot be read: {error.strerror}"])
            return digest
        digest = hashlib.sha256(content).digest()
        if digest != seen:
            if len(content) > LARGEST:
                self.refuse(str(file), [f"is larger than {LARGEST} bytes, which no ConfigMap can hold"])
            else:
                self.take(content.decode(errors="replace"), str(file))
        return digest


def text_of(config_map: Json) -> str | None:
    """Return a ConfigMap's policy text."""
    text: str | None = (config_map.get("data") or {}).get(KEY)
    return text
