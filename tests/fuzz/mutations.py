"""Objects as users may write them to stop or deceive what reads them: `drawn(seed)` always returns the same object.

A draw is a sample of a kind, and one to four mutations of it, each with a name. What JSON libraries do not write
(1e400, lists in 2,000 lists, half a surrogate pair) stands in the object as a word of WRITTEN; `body` writes it out.
To look into a failure: `python -m tests.fuzz.mutations SEED` prints the object, and `drawn(SEED, most=1)` is the
same draw with its first mutation alone.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tests.fuzz import samples
from tests.fuzz.samples import Sample
from webhook.kube import names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webhook.objects.problem import Json

MOST: Final = 4  # mutations of one object
WORD: Final = "@raw "
WRITTEN: Final = {
    "1e400": "1e400",
    "-1e400": "-1e400",
    "2^63": str(2**63),
    "10^400": "1" + "0" * 400,
    "lists 60 deep": "[" * 60 + "]" * 60,
    "lists 2,000 deep": "[" * 2_000 + "]" * 2_000,
    "maps 2,000 deep": '{"a":' * 2_000 + "1" + "}" * 2_000,
    "half a pair": '"\\ud800"',
    "the other half": '"a\\udfffb"',
    "the same key twice": '{"name":"a","name":[]}',
}
RAW: Final = tuple(WORD + name for name in WRITTEN)
NUMBERS: Final = (0, -1, 1, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, -(2**63), 0.5, 1e308, 10**9, WORD + "1e400")
TIMES: Final = (
    *("0001-01-01T00:00:01Z", "9999-12-31T23:59:59Z", "1969-12-31T23:59:59Z", "2026-11-24T00:00:00+23:59"),
    *("2026-11-24T00:00:00Z", "2026-11-24T00:00:00.999999999Z", "2286-11-20T17:46:40Z"),
)
NO_TIMES: Final = (
    *("2026-11-24T00:00:00", "0001-01-01", "9999-12-31T23:59:59-23:59", "10000-01-01T00:00:00Z", "now", ""),
    *(
        "2026-W48-2",
        "\u0662\u0660\u0662\u0666-11-24T00:00:00Z",
        "2026-11-24T25:00:00Z",
        "-62135596800",
        "2026-11-24T00:00:00+99:99",
    ),
)
TEXTS: Final = (
    *(
        "",
        " ",
        "a" * 253,
        "=cmd|' /C calc'!A0",
        "-1+1",
        ";=1+1",
        "@SUM(A1)",
        "\x1b[2J\x1b]0;owned\x07",
        "\x00",
        "a\nb\r\nc",
    ),
    *(
        "\u202eevil",
        "\ufeff",
        "\U0001f4a5" * 60,
        "::stop-commands::x",
        "<script>alert(1)</script>",
        "{{workflow.parameters.n}}",
    ),
    *(
        "%s%n%x",
        "a" * 300_000,
        "\u2028",
        "e\u0301" * 40,
        "[" * 1_020,
        "1" * 5_000,
        "(a+)+$",
        "../../etc/passwd",
        "null",
    ),
)
OTHER_TYPES: Final[tuple[Any, ...]] = (None, True, [], {}, [[]], [{}], [None], {"a": None}, {"": {}}, "text", 3, 0.5)
NESTED: Final = (
    "[" * 1_020,
    '{"x":' + "[" * 1_015,
    '{"x":' + "[" * 500 + "]" * 500 + "}",
    "[" * 125_000 + "]" * 125_000,
    '{"a":' * 50_000,
    '{"units":' + "[" * 1_000 + "]" * 1_000 + "}",
)
# Values of after-failure, then those of other annotations: JSON of the shapes that the readers know, with numbers and
# texts that they do not expect.
STATES: Final = (
    *('{"kills":{"main":1000000000}}', '{"kills":{"main":-1}}', '{"kills":{"main":9223372036854775807}}'),
    *('{"kills":{"main":1e400}}', '{"kills":[]}', '{"rule":-1}', '{"rule":2147483647,"delays":2147483647}'),
    *(
        '{"notBefore":"2026-11-24T00:00:00"}',
        '{"notBefore":"9999-12-31T23:59:59Z"}',
        '{"notBefore":"0001-01-01T00:00:00"}',
    ),
    *('{"notBefore":"\\ud800"}', '{"avoidNodes":["\\u0000"],"avoidZones":["zone","zone","zone","zone","zone","zone"]}'),
    *('{"delays":100000,"rule":0,"cause":"OOMKilled","nodes":[]}', '{"rule":0,"kills":{"":1},"cause":"\\u001b[2J"}'),
)
CONTENTS: Final = (
    *STATES,
    *(
        '{"ended":9223372036854775807,"cost":{"disruption":-1}}',
        '{"units":{"1":"0-99999999999"}}',
        '{"units":{"x":[]}}',
    ),
    *('{"causes":{"ExitCode":{"=1+1":1e308}}}', '{"recent":[["","","","",""]]}', '{"last":[[]],"ended":"many"}'),
    *('{"last":[["2026-11-24T00:00:00","ExitCode","1","a"]]}', '{"cost":{"\\u001b":1},"restarted":{"a":[1,2,3,4]}}'),
    *('{"profile":"default","injected":[{"op":"add","path":"/spec/backoffLimit","now":1e400}]}', '{"injected":{}}'),
    *('{"profile":[],"injected":[{"path":"' + "/a" * 1_000 + '"}]}', '{"user":1,"time":"2026-11-24T00:00:00"}'),
    *('[{"user":"a","time":"9999-12-31T23:59:59Z","attempts":-1}]', "restarts 2147483647", "restarts -1", "restarts "),
    *(
        "restarts " + "9" * 5_000,
        "2147483647",
        "2147483648",
        "-1",
        "1e9",
        "٣",
        "9" * 5_000,
        "0x10",
        "true",
        "True",
        "null",
    ),
    *(
        "Off",
        "32Gi",
        "1e400",
        "9" * 400 + "Ei",
        "-1Ki",
        "1e-400",
        "OnDemand",
        "Spot",
        "Annotation",
        "JobStatus",
        "Ledger",
    ),
)
SPECIAL_LABELS: Final = (
    *("batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index", "jobset.sigs.k8s.io/jobset-name"),
    *(
        "jobset.sigs.k8s.io/replicatedjob-name",
        "jobset.sigs.k8s.io/restart-attempt",
        "jobset.sigs.k8s.io/job-restart-attempt",
    ),
    *("topology.kubernetes.io/zone", "kueue.x-k8s.io/queue-name", "tekton.dev/pipelineRun", "tekton.dev/pipelineTask"),
    *(
        "training.kubeflow.org/replica-type",
        "training.kubeflow.org/replica-index",
        "volcano.sh/task-index",
        "ray.io/group",
    ),
    *("spark-role", "sparkoperator.k8s.io/app-name", "node-id", "dag_id", "run_id", "task_id", "map_index"),
)
LABEL_VALUES: Final = (
    "default",
    "unknown",
    "",
    "a" * 63,
    "0",
    "2147483647",
    "99999999999999999999",
    "memory",
    "driver",
    "worker",
)
SPECIAL_ANNOTATIONS: Final = (
    *("batch.kubernetes.io/job-completion-index", "batch.kubernetes.io/job-index-failure-count"),
    *("batch.kubernetes.io/job-index-ignored-failure-count", "workflows.argoproj.io/node-name", "try_number"),
    *(
        "kubectl.kubernetes.io/last-applied-configuration",
        "kubectl.kubernetes.io/default-container",
        "dag_id",
        "run_id",
    ),
)


# Types of conditions of pods: the API server takes qualified names alone.
CONDITIONS: Final = (
    "DisruptionTarget",
    "PodScheduled",
    "Ready",
    "a" * 63,
    f"{'a' * 63}.example.test/{'A' * 63}",
    "0_.-0",
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """One draw: the sample, mutated, and the names of the mutations.

    `root`: the object, which may contain words of WRITTEN; `status`: what is written to its status subresource, if
    that is not part of the object.
    """

    seed: int
    sample: Sample
    mutations: tuple[str, ...]
    root: Json
    status: Json | None

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.sample.name} with {', '.join(self.mutations)}"


def drawn(seed: int, *, most: int = MOST, storable: bool = False) -> Drawn:
    """Return the draw of a seed with at most `most` mutations.

    `storable`: mostly with mutations that the API server does not refuse, as it knows the types of most fields.
    """
    rng = random.Random(seed)  # noqa: S311 - the same draw for the same seed
    sample = rng.choices(samples.ALL, [one.weight for one in samples.ALL])[0]
    root, status = deepcopy(sample.root), deepcopy(sample.status)
    chosen = rng.choices(*(STORABLE if storable and rng.random() < 0.8 else EVERY), k=rng.randint(1, MOST))[:most]
    done = tuple(f"{mutation.__name__} ({mutation(rng, root, status)})" for mutation in chosen)
    return Drawn(seed, sample, done, root, status)


def body(value: Any) -> bytes:
    """Return JSON of an object, with the words of WRITTEN written out; half a surrogate pair is an escape."""
    text = json.dumps(value)
    for name, raw in WRITTEN.items():
        text = text.replace(f'"{WORD}{name}"', raw)
    return text.encode()


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every value in an object, except of its name and kind, without which it is no object."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        pairs = [*value.items()]
    elif isinstance(value, list):
        pairs = [*enumerate(value[:20])]
    for key, inner in pairs:
        here = (*path, key)
        if here not in KEPT:
            yield here
            yield from places(inner, here)


KEPT: Final = {("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace")}


def somewhere(rng: random.Random, *roots: Json | None) -> tuple[Any, Any, str]:
    """Return a container in one of the objects, a key of it, and the path in words."""
    found = [(root, path) for root in roots if root for path in places(root)]
    if not found:
        return {}, "none", "nowhere"
    root, path = rng.choice(found)
    holder: Any = root
    for key in path[:-1]:
        holder = holder[key]
    return holder, path[-1], ".".join(map(str, path))


def shown(value: Any) -> str:
    return repr(value)[:60]


def another_type(rng: random.Random, root: Json, status: Json | None) -> str:
    holder, key, path = somewhere(rng, root, status)
    holder[key] = deepcopy(rng.choice(OTHER_TYPES))
    return f"{path} = {shown(holder[key])}"


def raw_value(rng: random.Random, root: Json, status: Json | None) -> str:
    holder, key, path = somewhere(rng, root, status)
    holder[key] = rng.choice(RAW)
    return f"{path} = {holder[key]}"


def number(rng: random.Random, root: Json, status: Json | None) -> str:
    return replaced(rng, NUMBERS, (int, float), root, status)


def text(rng: random.Random, root: Json, status: Json | None) -> str:
    return replaced(rng, TEXTS, str, root, status)


def time(rng: random.Random, root: Json, status: Json | None) -> str:
    """Replace a field that is named like a time, such as startedAt, or any text."""
    chosen = TIMES if rng.random() < 0.7 else NO_TIMES
    return replaced(rng, chosen, str, root, status, like=("Time", "At", "timestamp", "notBefore"))


def replaced(
    rng: random.Random, values: tuple[Any, ...], kind: Any, *roots: Json | None, like: tuple[str, ...] = ()
) -> str:
    """Replace a value of a type, if there is one; with `like` one whose key ends so, if there is one."""
    found = [(root, path) for root in roots if root for path in places(root)]
    typed = []
    for root, path in found:
        holder: Any = root
        for key in path[:-1]:
            holder = holder[key]
        if isinstance(holder[path[-1]], kind) and not isinstance(holder[path[-1]], bool):
            typed.append((holder, path))
    typed = [one for one in typed if str(one[1][-1]).endswith(like)] or typed if like else typed
    if not typed:
        return "nothing"
    holder, path = rng.choice(typed)
    holder[path[-1]] = rng.choice(values)
    return f"{'.'.join(map(str, path))} = {shown(holder[path[-1]])}"


def many(rng: random.Random, root: Json, status: Json | None) -> str:
    """Repeat the entry of a list or map."""
    holder, key, path = somewhere(rng, root, status)
    count, value = rng.choice((21, 150, 2_000)), holder.get(key) if isinstance(holder, dict) else holder[key]
    if isinstance(value, list) and value:
        holder[key] = value * count
    elif isinstance(value, dict) and value:
        holder[key] = value | {f"key-{one}": next(iter(value.values())) for one in range(count)}
    else:
        holder[key] = [value] * 3
    return f"{path}, {count} times"


def left_out(rng: random.Random, root: Json, status: Json | None) -> str:
    holder, key, path = somewhere(rng, root, status)
    if isinstance(holder, dict):
        holder.pop(key, None)
    else:
        holder[key] = None
    return path


def map_of(root: Json, name: str) -> Json:
    """Return the labels or annotations of an object, created if they are no map."""
    metadata = root.get("metadata")
    if not isinstance(metadata, dict):
        metadata = root["metadata"] = {}
    if not isinstance(metadata.get(name), dict):
        metadata[name] = {}
    found: Json = metadata[name]
    return found


def templates_of(root: Json) -> list[Json]:
    """Return the object, and the templates in it that have metadata: both may have our keys."""
    found = [root]
    for path in places(root):
        if path[-1] in {"template", "jobTemplate", "podTemplate"}:
            holder: Any = root
            for key in path:
                holder = holder[key]
            if isinstance(holder, dict):
                found.append(holder)
    return found


def our_annotation(rng: random.Random, root: Json, _: Json | None) -> str:
    key = rng.choice(sorted(names.ANNOTATIONS))
    value = rng.choice(rng.choice((CONTENTS, CONTENTS, NESTED, TIMES, NO_TIMES, TEXTS)))
    map_of(rng.choice(templates_of(root)[:3]), "annotations")[key] = value
    return f"{key} = {shown(value)}"


def after_failure(rng: random.Random, root: Json, _: Json | None) -> str:
    value = rng.choice(rng.choice((STATES[:4], STATES, STATES, NESTED[:3])))
    map_of(root, "annotations")[names.AFTER_FAILURE] = value
    return shown(value)


def foreign_annotation(rng: random.Random, root: Json, _: Json | None) -> str:
    key, value = rng.choice(SPECIAL_ANNOTATIONS), rng.choice(rng.choice((CONTENTS, NESTED[:3], TEXTS)))
    map_of(root, "annotations")[key] = value
    return f"{key} = {shown(value)}"


def label(rng: random.Random, root: Json, _: Json | None) -> str:
    key = rng.choice((*sorted(names.LABELS), *SPECIAL_LABELS))
    map_of(rng.choice(templates_of(root)[:2]), "labels")[key] = value = rng.choice(LABEL_VALUES)
    return f"{key} = {shown(value)}"


def owners(rng: random.Random, root: Json, _: Json | None) -> str:
    """Forge an owner: of a kind that the webhook knows, with a uid that no object has, or of a wrong type."""
    sample = rng.choice(samples.ALL)
    api_version, kind = sample.root.get("apiVersion"), sample.root.get("kind")
    forged = {"apiVersion": api_version, "kind": kind, "name": rng.choice(("train", "a" * 253, "x")), "uid": "forged"}
    references = [forged | {"controller": True}] + [
        forged | {"uid": f"u{one}"} for one in range(rng.choice((0, 1, 300)))
    ]
    map_of(root, "labels")
    root["metadata"]["ownerReferences"] = references
    return f"{len(references)} of {kind}"


def status_of_pod(rng: random.Random, root: Json, status: Json | None) -> str:
    """Forge what a kubelet says: ends, restarts in place, disruptions, with times and numbers at their bounds."""
    if status is None or root.get("kind") != "Pod":
        return after_failure(rng, root, status)

    def state() -> Json:
        ended = {
            "exitCode": rng.choice((0, 1, 137, 143, -(2**31), 2**31 - 1)),
            "reason": rng.choice(("Error", "OOMKilled", "Completed", *TEXTS[:8])),
            "startedAt": rng.choice(TIMES),
            "finishedAt": rng.choice(TIMES),
            "message": rng.choice((*TEXTS, "m" * 12_000)),
        }
        waits = {"reason": rng.choice(("ImagePullBackOff", *TEXTS[:4])), "message": "w" * rng.choice((1, 9_000))}
        return rng.choice(
            ({"terminated": ended}, {"waiting": waits}, {"running": {"startedAt": rng.choice(TIMES)}}, {})
        )

    def container(name: str) -> Json:
        restarts = rng.choice((0, 0, 1, 20, 2**31 - 1))
        found = {"name": name, "image": "i", "imageID": "", "ready": False, "restartCount": restarts}
        return found | {"state": state(), "lastState": state()}

    names_of = ["main", *(f"c{one}" for one in range(rng.choice((0, 0, 1, 25))))]
    types = rng.sample(CONDITIONS, 3)
    status.clear()
    status |= {
        "phase": rng.choice(("Failed", "Failed", "Succeeded", "Running", "Pending", "Unknown")),
        "reason": rng.choice(("Evicted", "DeadlineExceeded", *TEXTS[:5])),
        "startTime": rng.choice(TIMES),
        "conditions": [
            {
                "type": one,
                "status": rng.choice(("True", "False")),
                "reason": rng.choice(("EvictionByEvictionAPI", "PreemptionByScheduler", "Unschedulable", *TEXTS[:8])),
                "lastTransitionTime": rng.choice(TIMES),
            }
            for one in types
        ],
        "containerStatuses": [container(one) for one in names_of],
    }
    return f"{status['phase']}, {len(names_of)} containers"


Mutation: TypeAlias = Callable[[random.Random, "Json", "Json | None"], str]
Weighted: TypeAlias = tuple[list[Mutation], list[int]]


def weighted(weights: dict[Mutation, int]) -> Weighted:
    return [*weights], [*weights.values()]


ALMOST_ALL_ARE_STORED: Final = {our_annotation: 5, after_failure: 3, foreign_annotation: 2, label: 3, status_of_pod: 6}
ALMOST_ALL_ARE_REFUSED: Final = {another_type: 3, raw_value: 3, number: 3, text: 3, time: 2, many: 2, left_out: 2}
EVERY: Final = weighted({**ALMOST_ALL_ARE_STORED, **ALMOST_ALL_ARE_REFUSED, owners: 2})
STORABLE: Final = weighted({**ALMOST_ALL_ARE_STORED, number: 1})


if __name__ == "__main__":
    one = drawn(int(sys.argv[1]), storable="storable" in sys.argv[2:])
    sys.stdout.write(f"{one}\n{body(one.root).decode()[:100_000]}\n{body(one.status).decode()[:100_000]}\n")
