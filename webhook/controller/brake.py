"""Decides whether the leader may act on an object now: whatever it does to objects asks here first.

Three things hold it back: the policy's `emergency.actions: Stop`, a profile's `actions: Report`, and the policy's
`rateLimit`. Each is read anew at each action, so that a change of the policy is in force at once. Marks on counted pods
and accounts are no actions: the leader counts on.
"""

import time
from collections import Counter, deque
from collections.abc import Callable
from itertools import product
from typing import Final, Literal, NamedTuple, get_args

import structlog

from webhook import metrics
from webhook.accounts.tracker import Key
from webhook.admission import modes
from webhook.kube.events import Events, Notice
from webhook.objects.problem import Json
from webhook.policy.model import Profile, RateLimit
from webhook.policy.settings import Settings
from webhook.systems.kind_spec import KindSpec
from webhook.tracking.cluster import Cluster, settings_of
from webhook.tracking.policy_source import PolicySource

Action = Literal["evict", "fail", "suspend", "settle", "raise", "lift", "retry"]
Allows = Callable[[Action, KindSpec, Json, str], bool]
Result = Literal["taken", "stopped", "reported", "delayed"]

# Seconds.
WINDOW: Final = 60.0  # in which rateLimit counts
HELD_FOR: Final = 5.0  # after which to ask again about an action that was not allowed
LOGGED_EVERY: Final = 60.0  # between two log lines about the rate limit

MOST_TOLD: Final = 10_000  # actions about which an Event was written and is remembered
REASON: Final = "ActionNotTaken"
STOPPED: Final = "the admin of this cluster has stopped all actions (emergency.actions is Stop)"
REPORTED: Final = "actions of this profile are only reported (actions is Report)"

log = structlog.get_logger()


class BrakeSubject(NamedTuple):
    """The object on which the leader is about to act."""

    kind: str
    namespace: str
    name: str
    uid: str
    api_version: str = "v1"


def subject_of(kind: KindSpec, root: Json) -> BrakeSubject:
    """Return an object of a kind as the brake names it."""
    metadata = root["metadata"]
    return BrakeSubject(kind.kind, metadata["namespace"], metadata["name"], metadata["uid"], kind.api_version)


class Brake:
    """Allows or refuses the actions of this replica. `clock`: monotonic, in seconds.

    - `recent`: time and namespace of the actions of the last WINDOW seconds, oldest first; `by_namespace`: how many.
    - `told`: the actions about which an Event was written, by action and uid, oldest first.
    - `logged`: when the rate limit was last logged.
    """

    def __init__(self, policy: PolicySource, events: Events, clock: Callable[[], float] = time.monotonic) -> None:
        self.policy = policy
        self.events = events
        self.clock = clock
        self.recent: deque[tuple[float, str]] = deque()
        self.by_namespace: Counter[str] = Counter()
        self.told: dict[tuple[Action, str], None] = {}
        self.logged = float("-inf")
        for action, result in product(get_args(Action), get_args(Result)):
            metrics.LEADER_ACTIONS.labels(action, result)  # reported as 0: an alert must see the first one

    def allows(self, action: Action, profile: Profile, about: BrakeSubject, step: str) -> bool:
        """Return True if the leader may act on an object now, which then counts for the rate limit.

        If not, ask again after HELD_FOR seconds, once the reason for the action still holds. `profile`: that of the
        object's namespace. `step`: what the leader would do, for an Event, such as "suspend the Job: …".
        """
        result = self.judge(profile, about)
        metrics.LEADER_ACTIONS.labels(action, result).inc()
        if result in {"stopped", "reported"}:
            self.tell(action, about, f"would {step}; {STOPPED if result == 'stopped' else REPORTED}")
        return result == "taken"

    @property
    def is_stopped(self) -> bool:
        """Whether the policy stops all actions."""
        policy = self.policy.current
        return policy is not None and policy.emergency.actions == "Stop"

    def judge(self, profile: Profile, about: BrakeSubject) -> Result:
        """Return what becomes of an action; count it if it may be taken."""
        policy = self.policy.current
        if policy is None:
            return "delayed"  # it is not known whether actions are stopped
        if self.is_stopped:
            return "stopped"
        if profile.actions == "Report":
            return "reported"
        return "taken" if self._is_within(policy.rate_limit, about.namespace) else "delayed"

    def _is_within(self, limit: RateLimit, namespace: str) -> bool:
        now = self.clock()
        self.forget(now - WINDOW)
        is_full = len(self.recent) >= limit.cluster
        if is_full or self.by_namespace[namespace] >= limit.namespace:
            self.log(now, "the cluster" if is_full else f"namespace {namespace}")
            return False
        self.recent.append((now, namespace))
        self.by_namespace[namespace] += 1
        return True

    def forget(self, until: float) -> None:
        """Forget the actions up to a time."""
        while self.recent and self.recent[0][0] <= until:
            _, namespace = self.recent.popleft()
            self.by_namespace[namespace] -= 1
            if not self.by_namespace[namespace]:
                del self.by_namespace[namespace]

    def log(self, now: float, where: str) -> None:
        """Log that actions wait for the rate limit, not more often than every LOGGED_EVERY seconds."""
        if now - self.logged >= LOGGED_EVERY:
            self.logged = now
            what = "actions wait for rateLimit of the policy; find out why there are so many"
            log.warning(what, limit_of=where, in_last_minute=len(self.recent))

    def tell(self, action: Action, about: BrakeSubject, message: str) -> None:
        """Write an Event on the object that an action was not taken, once for each object and action."""
        if (action, about.uid) in self.told:
            return
        self.told[action, about.uid] = None
        if len(self.told) > MOST_TOLD:
            del self.told[next(iter(self.told))]
        self.events.tell(Notice(**about._asdict(), reason=REASON, message=message))


class Authority:
    """What the leader may do to the workloads of a namespace, by its profile, its mode, and the brake."""

    def __init__(self, cluster: Cluster, policy: PolicySource, brake: Brake) -> None:
        self.cluster = cluster
        self.policy = policy
        self.brake = brake

    def allows(self, action: Action, kind: KindSpec, root: Json, step: str) -> bool:
        """Return True if the leader may act on an object now; see `Brake.allows`."""
        return self.brake.allows(action, self.settings_of(root).profile, subject_of(kind, root), step)

    def is_held(self, root: Json) -> bool:
        """Return True if the leader must not even carry on an action on a workload that was allowed before."""
        return self.brake.is_stopped or self.settings_of(root).profile.actions == "Report"

    def settings_of(self, root: Json) -> Settings:
        """Return the settings of a workload under its Namespace's profile; the defaults if the policy lacks it."""
        return settings_of(self.cluster, self.policy, root)

    def may_act(self, key: Key) -> bool:
        """Return True if the namespace of a workload is in mode Enforce, and the policy has its profile."""
        profile, mode = self.cluster.known_opt_in(key.namespace)
        policy = self.policy.current
        return policy is not None and profile in policy.profiles and mode in modes.ENFORCED
