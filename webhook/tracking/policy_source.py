"""The policy in force: the packaged one, a file or a ConfigMap, followed as it changes.

If a new version has problems, the last good one stays in force, also in the pod's next container.
"""

import asyncio
import contextlib
import hashlib
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from webhook import metrics
from webhook.admission.engine import read_policy
from webhook.kube.client import Api
from webhook.kube.informer import Informer
from webhook.kube.paths import path_of
from webhook.objects.problem import Json
from webhook.policy.model import Emergency, Policy, Profile
from webhook.policy.parse import KEY

LAST_GOOD: Final = "retry-policy-last-good.yaml"
LARGEST: Final = 1024 * 1024  # bytes; a ConfigMap cannot be larger
# Seconds between two reads of a file. Contents are compared and not modification times, because a mounted ConfigMap is
# replaced by changing a symlink.
INTERVAL: Final = 1.0
REMINDED: Final = 300.0  # seconds between two reports of a refused policy; the API server keeps an Event for an hour

log = structlog.get_logger()


class LastGood:
    """Keeps the last good policy of a pod in a file of a folder, for the next container of the pod.

    The folder is an emptyDir, which a container's end leaves as it is and the pod's end removes. A new pod therefore
    never begins with an old policy, and nobody but this pod can write the file. What goes wrong with the file is
    logged, and else of no consequence.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / LAST_GOOD

    def write(self, text: str) -> None:
        """Replace the content of the file."""
        new = self.file.with_suffix(".new")
        try:
            new.unlink(missing_ok=True)
            with open(new, "x", encoding="utf-8", opener=_private) as opened:
                opened.write(text)
            new.replace(self.file)
        except OSError as error:
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)  # else it would take the room of the next certificate's key
            log.warning("last good policy not kept", file=str(self.file), error=error.strerror)

    def read(self) -> str | None:
        """Return the content of the file; None if there is none, or it is not this user's."""
        try:
            with open(self.file, encoding="utf-8", opener=_private) as opened:
                own = os.fstat(opened.fileno()).st_uid == os.getuid()
                return opened.read(LARGEST) if own else None
        except (OSError, UnicodeDecodeError):
            return None


def _private(file: str, flags: int) -> int:
    return os.open(file, flags | os.O_NOFOLLOW, 0o600)


class PolicySource:
    """Holds the policy in force: `current`, None until a policy without problems has been read.

    `trouble`: why the last version was refused, else empty. `config_map`: namespace and name of the ConfigMap with the
    policy, None if it comes from elsewhere. `uid`: the uid of the stored ConfigMap, empty if there is none. `refused`
    is called with each refusal: what is in force, and the reason. `last_good`: where the last good policy is kept.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        config_map: tuple[str, str] | None = None,
        refused: Callable[[str], None] = lambda _: None,
        last_good: LastGood | None = None,
    ) -> None:
        self.current = policy
        self.config_map = config_map
        self.uid = ""
        self.trouble = "" if policy is not None else "no policy has been read yet"
        self.refused = refused
        self.refusal = ""
        self.callbacks: list[Callable[[], None]] = []
        self.last_good = last_good
        if policy is not None:
            _measure(policy)
        metrics.POLICY_GENERATION.set(policy is not None)
        metrics.POLICY_LAST_RELOAD_GOOD.set(policy is not None)

    def take(self, text: str, origin: str) -> None:
        """Put the policy in a text in force, or refuse it if it has problems; `origin` is its source, for messages."""
        policy, problems = read_policy(text)
        if policy is None:
            self.refuse(origin, [str(problem) for problem in problems])
            return
        self.trouble = self.refusal = ""
        metrics.POLICY_RELOADS.labels("good").inc()
        metrics.POLICY_LAST_RELOAD_GOOD.set(1)
        self.put_in_force(policy, origin)
        if self.last_good is not None:
            self.last_good.write(text)

    def put_in_force(self, policy: Policy, origin: str) -> None:
        """Use a policy from now on."""
        self.current = policy
        _measure(policy)
        metrics.POLICY_GENERATION.inc()
        log.info("policy in force", origin=origin, profiles=sorted(policy.profiles))
        if policy.emergency != Emergency():
            what = "the policy's emergency is in force; set it to Run once its reason is gone"
            log.warning(what, actions=policy.emergency.actions, retries=policy.emergency.retries)
        for callback in self.callbacks:
            callback()

    def on_change(self, callback: Callable[[], None]) -> None:
        """Add a function that is called after each policy that was put in force."""
        self.callbacks.append(callback)

    def profile(self, name: str) -> Profile:
        """Return the profile in force with this name; the defaults if there is none."""
        found = None if self.current is None else self.current.profiles.get(name)
        return Profile() if found is None else found

    def refuse(self, origin: str, problems: list[str]) -> None:
        """Keep the last good policy in force, and report the problems: in the log, metrics, `trouble` and `refused`."""
        if self.current is None:
            self.restore()
        self.trouble = f"{origin}: " + " | ".join(problems)
        metrics.POLICY_RELOADS.labels("bad").inc()
        metrics.POLICY_LAST_RELOAD_GOOD.set(0)
        log.error("policy refused", origin=origin, problems=problems, in_force="last good" if self.current else "none")
        in_force = "the last good policy stays in force" if self.current else "no policy is in force"
        self.refusal = f"{in_force}; {self.trouble}"
        self.refused(self.refusal)

    def restore(self) -> None:
        """Put the policy in force that was the last good one of this pod's last container, if there was any."""
        text = None if self.last_good is None else self.last_good.read()
        policy = None if text is None else read_policy(text)[0]
        if policy is not None:
            self.put_in_force(policy, "the last container of this pod")

    async def remind(self) -> None:
        """Report a refused policy again and again for as long as it lasts, until cancelled."""
        while True:
            await asyncio.sleep(REMINDED)
            if self.refusal:
                self.refused(self.refusal)

    async def follow_config_map(self, api: Api) -> None:
        """Watch the ConfigMap until cancelled; if it is deleted, the last good policy stays in force."""
        namespace, name = self.config_map or ("", "")
        path = path_of("v1", "configmaps", namespace)
        origin = f"ConfigMap {namespace}/{name}"
        watched = Informer(api, path, _uid_and_text, query={"fieldSelector": f"metadata.name={name}"})
        absent: Final = object()
        seen: object = absent

        def changed() -> None:
            nonlocal seen
            self.uid, text = watched.get(namespace, name) or ("", None)
            if text is not None and text != seen:
                self.take(text, origin)
            elif text is None and seen is not None:
                self.refuse(origin, [f"has no key {KEY}, or does not exist; create it with this key"])
            seen = text

        watched.on_change(changed)
        await watched.run()

    async def follow(self, file: Path, seen: bytes) -> None:
        """Read a file every INTERVAL seconds until cancelled; `seen` is the digest of the content read last."""
        while True:
            await asyncio.sleep(INTERVAL)
            seen = self.read(file, seen)

    def read(self, file: Path, seen: bytes = b"") -> bytes:
        """Put a file's policy in force if its digest is not `seen`; return the digest of its content, or an error."""
        try:
            with file.open("rb") as opened:
                content = opened.read(LARGEST + 1)
        except OSError as error:
            digest = str(error).encode()
            if digest != seen:
                self.refuse(str(file), [f"cannot be read: {error.strerror}; make it readable"])
            return digest
        digest = hashlib.sha256(content).digest()
        if digest != seen:
            self._take_bytes(content, str(file))
        return digest

    def _take_bytes(self, content: bytes, origin: str) -> None:
        if len(content) > LARGEST:
            self.refuse(origin, [f"is larger than {LARGEST} bytes, which no ConfigMap can hold; make it smaller"])
            return
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            self.refuse(origin, [f"is not UTF-8 (byte {error.start}); save it as UTF-8"])
        else:
            self.take(text, origin)


def _measure(policy: Policy) -> None:
    metrics.EMERGENCY.labels("actions").set(policy.emergency.actions == "Stop")
    metrics.EMERGENCY.labels("retries").set(policy.emergency.retries == "Stop")
    metrics.POLICY_PROFILES.clear()
    for provider, profiles in Counter(one.placement.provider for one in policy.profiles.values()).items():
        metrics.POLICY_PROFILES.labels(provider).set(profiles)


def _uid_and_text(config_map: Json) -> tuple[str, str | None]:
    return config_map["metadata"]["uid"], (config_map.get("data") or {}).get(KEY)
