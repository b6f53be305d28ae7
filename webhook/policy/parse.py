"""Parse a policy text: return a Policy, or all problems in the text at once."""

import difflib
import pathlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
import yaml
from msgspec import UNSET, inspect

from webhook.objects import bounds, strict_yaml
from webhook.objects.problem import Path, Problem, type_name
from webhook.policy import costs
from webhook.policy.model import (
    Duration,
    FailurePolicy,
    FailureRule,
    Match,
    Next,
    Placement,
    Policy,
    Profile,
    Retries,
    Toleration,
)

# The key of a ConfigMap's data that contains the policy.
KEY: Final = "policy.yaml"

# The API's bound on activeDeadlineSeconds (ValidatePodSpec).
LONGEST: Final = 2147483647
DURATION: Final = re.compile(r"(?:([0-9]{1,10})h)?(?:([0-9]{1,10})m)?(?:([0-9]{1,10})s)?")

PLAIN: Final[dict[type, str]] = {
    inspect.StructType: "an object",
    inspect.DictType: "an object",
    inspect.ListType: "a list",
    inspect.VarTupleType: "a list",
    inspect.StrType: "a string",
    inspect.BoolType: "true or false",
    inspect.CustomType: f"whole seconds from 1 to {LONGEST}, or such as 90s, 1h30m, 24h",
}
SHOWN: Final = 60  # characters of a wrong value in a message
MOST_FREE_CODES: Final = 100  # exit codes of a profile that cost nothing; a Job that ignores 128 of 255 is denied


class Wrong(NamedTuple):
    """What is wrong with the relation of fields, and what would be right."""

    what: str
    remedy: str


def parse(text: str) -> Policy | list[Problem]:
    """Return the policy in a text, or its problems, at most bounds.LISTED_PROBLEMS.

    The text is YAML: a policy, or the manifest of a ConfigMap with a policy. The paths of problems are relative to the
    policy.
    """
    value, problems = read(text)
    if isinstance(value, dict) and value.get("kind") == "ConfigMap":
        inner = value["data"].get(KEY) if isinstance(value.get("data"), dict) else None
        if not isinstance(inner, str):
            what = f"is {shown(inner)}" if inner is not None else "is missing"
            return [Problem(("data", KEY), what, f"must be the policy as a text: {KEY}: |")]
        value, problems = read(inner)
    if value is not UNSET:
        reader = Reader(problems)
        with suppress(TooManyProblemsError):
            policy = reader.value(value, inspect.type_info(Policy), ())
            if isinstance(policy, Policy) and not problems:
                return policy
    return problems[: bounds.LISTED_PROBLEMS]


def load_default() -> Policy:
    """Return the packaged policy; raise TypeError if it has problems."""
    text = pathlib.Path(__file__).with_name("default.yaml").read_text(encoding="utf-8")
    policy = parse(text)
    if not isinstance(policy, Policy):
        raise TypeError(f"the packaged policy has problems: {'; '.join(map(str, policy))}")
    return policy


def read(text: str) -> tuple[Any, list[Problem]]:
    """Return the value of the one YAML document in a text, and its YAML problems; UNSET if there is no usable value."""
    if len(text) > bounds.MAX_POLICY:
        return UNSET, [Problem((), f"has {len(text)} characters", f"must have at most {bounds.MAX_POLICY}")]
    if has_too_many_events(text):
        what = f"has more than {bounds.MOST_POLICY_EVENTS} values"
        return UNSET, [Problem((), what, f"must have at most {bounds.MOST_PROFILES} profiles")]
    try:
        documents = [found for found in strict_yaml.read(text, strict=True) if found[0] is not None]
    except strict_yaml.YamlError as error:
        return UNSET, [Problem((), f"line {error.line}, column {error.column}: {error.what}", error.remedy)]
    if len(documents) != 1:
        return UNSET, [
            Problem((), f"has {len(documents)} documents", "must be one, with apiVersion, kind and profiles")
        ]
    return documents[0]


def has_too_many_events(text: str) -> bool:
    """Return True if a text has more YAML events than bounds.MOST_POLICY_EVENTS.

    False at a syntax error, which `strict_yaml.read` reports.
    """
    events = islice(yaml.parse(text, Loader=strict_yaml.Loader), bounds.MOST_POLICY_EVENTS + 1)
    try:
        return sum(1 for _ in events) > bounds.MOST_POLICY_EVENTS
    except yaml.YAMLError:
        return False


class TooManyProblemsError(Exception):
    """The text has as many problems as are listed: parsing stops."""


class Reader:
    """Converts plain values to those of the model, by the types of the model, and appends problems to `problems`.

    A value with a problem becomes UNSET, so that no relation between fields reports it a second time. Each method
    raises TooManyProblemsError at the last problem that is listed. `relations`: the checks on several fields of one
    object, by the type of the object.
    """

    def __init__(self, problems: list[Problem], relations: "Relations | None" = None) -> None:
        self.problems = problems
        self.relations = RELATIONS if relations is None else relations

    def value(self, raw: Any, kind: inspect.Type, path: Path, description: str = "") -> Any:
        """Return the value of a type of the model, or UNSET; `description` is the model's own text after "must be"."""
        match kind:
            case inspect.Metadata(extra={"shape": shape}):  # stays raw
                self.value(raw, inspect.type_info(shape), path)
                return raw
            case inspect.Metadata():
                return self.value(raw, kind.type, path, right(kind))
            case inspect.AnyType():
                return raw
            case inspect.UnionType():
                other = next(one for one in kind.types if not isinstance(one, inspect.NoneType))
                return None if raw is None else self.value(raw, other, path)
            case inspect.StructType():
                return self.struct(raw, kind, path)
            case inspect.DictType():
                return self.mapping(raw, kind, path)
            case inspect.ListType() | inspect.VarTupleType():
                return self.sequence(raw, kind, path)
            case inspect.CustomType():
                found = duration(raw)
                return self.wrong(raw, kind, path) if found is None else found
        return raw if fits(raw, kind) else self.wrong(raw, kind, path, description)

    def struct(self, raw: Any, kind: inspect.StructType, path: Path) -> Any:
        """Return an object with fields. Null counts as an object without any: `retries:` in YAML has the value null."""
        if not isinstance(raw, dict | None):
            return self.wrong(raw, kind, path)
        fields = {field.encode_name: field for field in kind.fields}
        given: dict[str, Any] = {}
        for key, entry in (raw or {}).items():
            if key in fields:
                given[fields[key].name] = self.value(entry, fields[key].type, (*path, key))
            else:
                self.problem((*path, key), "is not a field", f"must be {one_of(fields, key)}")
        for key, field in fields.items():
            if field.required and field.name not in given:
                self.problem((*path, key), "is missing", f"must be {right(field.type)}")
                given[field.name] = UNSET
        if kind.cls is Retries and isinstance(given.get("limit"), int):
            given.setdefault("default", min(Retries().default, given["limit"]))
        built = kind.cls(**given)
        for names, holds in self.relations.get(kind.cls, ()):
            if UNSET not in [getattr(built, name) for name in names] and (found := holds(built)):
                first = next(field for field in kind.fields if field.name == names[0])
                self.problem((*path, first.encode_name), *found)
        return built

    def mapping(self, raw: Any, kind: inspect.DictType, path: Path) -> Any:
        """Return an object whose keys are not fixed, or UNSET."""
        if not isinstance(raw, dict):
            return self.wrong(raw, kind, path)
        if not self.size(raw, kind, path):
            return UNSET
        return {
            self.value(key, kind.key_type, (*path, key)): self.value(entry, kind.value_type, (*path, key))
            for key, entry in raw.items()
        }

    def sequence(self, raw: Any, kind: inspect.ListType | inspect.VarTupleType, path: Path) -> Any:
        """Return a list, as a tuple where the model has one, or UNSET."""
        if not isinstance(raw, list):
            return self.wrong(raw, kind, path)
        if not self.size(raw, kind, path):
            return UNSET
        entries = [self.value(entry, kind.item_type, (*path, index)) for index, entry in enumerate(raw)]
        return tuple(entries) if isinstance(kind, inspect.VarTupleType) else entries

    def size(self, raw: Any, kind: inspect.DictType | inspect.ListType | inspect.VarTupleType, path: Path) -> bool:
        """Append a problem if there are too few or too many entries; return False if there are too many to read."""
        if kind.min_length is not None and len(raw) < kind.min_length:
            self.problem(path, "is empty", f"must have {kind.min_length} or more entries")
        if kind.max_length is not None and len(raw) > kind.max_length:
            self.problem(path, f"has {len(raw)} entries", f"must have {kind.max_length} or fewer")
            return False
        return True

    def wrong(self, raw: Any, kind: inspect.Type, path: Path, description: str = "") -> Any:
        """Append the problem that a value does not have its type, and return UNSET."""
        remedy = f"must be {description or right(kind)}"
        if isinstance(kind, inspect.LiteralType) and isinstance(raw, str):
            remedy = f"must be {one_of(kind.values, raw)}"
        elif isinstance(kind, inspect.StrType) and isinstance(raw, bool | int | float):
            remedy = f'must be a string: "{shown(raw)}"'
        self.problem(path, f"is {shown(raw)}", remedy)
        return UNSET

    def problem(self, path: Path, what: str, remedy: str) -> None:
        """Append a problem; raise TooManyProblemsError if it is the last that is listed."""
        self.problems.append(Problem(path, what, remedy))
        if len(self.problems) >= bounds.LISTED_PROBLEMS:
            raise TooManyProblemsError


def fits(raw: Any, kind: inspect.Type) -> bool:
    """Return True if a string, integer or boolean has a type of the model, with its bounds.

    Raise TypeError for a type of the model that the parser does not know.
    """
    match kind:
        case inspect.LiteralType():
            return isinstance(raw, str) and raw in kind.values
        case inspect.IntType():
            return type(raw) is int and not (
                (kind.ge is not None and raw < kind.ge) or (kind.le is not None and raw > kind.le)
            )
        case inspect.FloatType():
            return type(raw) in {int, float} and (kind.ge or raw) <= raw <= (kind.le or raw)
        case inspect.BoolType():
            return isinstance(raw, bool)
        case inspect.StrType():
            return isinstance(raw, str) and (kind.pattern is None or re.search(kind.pattern, raw) is not None)
    raise TypeError(f"the model has a type that the parser does not know: {kind}")


def right(kind: inspect.Type) -> str:
    """Return what a value of a type must be, for the text after "must be"."""
    match kind:
        case inspect.Metadata():
            return str((kind.extra_json_schema or {}).get("description") or right(kind.type))
        case inspect.UnionType():
            return right(next(one for one in kind.types if not isinstance(one, inspect.NoneType)))
        case inspect.LiteralType():
            return one_of(kind.values)
        case inspect.IntType(ge=None, le=None):
            return "an integer"
        case inspect.IntType(le=None):
            return f"an integer of at least {kind.ge}"
        case inspect.IntType():
            return f"an integer from {kind.ge} to {kind.le}"
    return PLAIN[type(kind)]


def one_of(names: Iterable[Any], given: str = "") -> str:
    """Return the allowed names as text, with "did you mean" for the one that is most similar to `given`."""
    *most, last = names
    text = f"{', '.join(most)} or {last}" if most else str(last)
    by_lower = {name.lower(): name for name in (*most, last)}
    near = difflib.get_close_matches(given[: bounds.MAX_KEY].lower(), by_lower, n=1)
    return f"{text} (did you mean {by_lower[near[0]]}?)" if near and most else text


def shown(raw: Any) -> str:
    """Return a value for a message: as JSON, cut if it is long; of an object or list only the type."""
    if isinstance(raw, dict | list) or raw is None:
        return type_name(raw)
    text = msgspec.json.encode(raw).decode()
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def duration(raw: Any) -> Duration | None:
    """Return a duration; None if `raw` is not one.

    `raw` is an integer (seconds), or text with hours, minutes and seconds in this order, each at most once.
    """
    seconds = raw
    if isinstance(raw, str) and (found := DURATION.fullmatch(raw)):
        hours, minutes, rest = (int(part or 0) for part in found.groups())
        seconds = hours * 3600 + minutes * 60 + rest
    return Duration(seconds) if type(seconds) is int and 1 <= seconds <= LONGEST else None


def default_within_limit(retries: Retries) -> Wrong | None:
    """Require that the default number of retries does not exceed the limit."""
    if retries.default <= retries.limit:
        return None
    return Wrong(f"is {retries.default}, above the limit", f"must be at most {retries.limit}")


def exit_codes_once(failure_policy: FailurePolicy) -> Wrong | None:
    """Require that no exit code is listed twice: the API rejects a podFailurePolicy rule with duplicates."""
    codes = Counter(code for code in failure_policy.retriable_exit_codes if isinstance(code, int))
    twice = [str(code) for code, times in codes.items() if times > 1]
    return Wrong(f"has {', '.join(twice)} more than once", "must have each code once") if twice else None


def custom_with_provider(placement: Placement) -> Wrong | None:
    """Require `custom` with the provider custom, and no `custom` with any other provider."""
    if placement.provider == "custom" and placement.custom is None:
        return Wrong("is missing", "must describe the spot nodes for provider custom: spotLabels, tolerations")
    if placement.provider != "custom" and placement.custom is not None:
        return Wrong(f"has no effect with provider {placement.provider}", "remove it, or set provider to custom")
    return None


def any_cannot_require(placement: Placement) -> Wrong | None:
    """Reject spot Require with the provider any: no label is common to the spot nodes of all providers."""
    if placement.provider == "any" and placement.spot == "Require":
        return Wrong("is Require with provider any", "must be Prefer or Allow, or name the provider")
    return None


def toleration_has_key(toleration: Toleration) -> Wrong | None:
    """Require a key, unless the operator is Exists, which without a key tolerates all keys (ValidateTolerations)."""
    if toleration.key is None and toleration.operator != "Exists":
        return Wrong("is missing", "must be a label key, or the operator Exists")
    return None


def toleration_has_no_value(toleration: Toleration) -> Wrong | None:
    """Reject a value with the operator Exists, which tolerates all values (ValidateTolerations)."""
    if toleration.value and toleration.operator == "Exists":
        return Wrong("is set with operator Exists", "remove it")
    return None


def toleration_seconds_evict(toleration: Toleration) -> Wrong | None:
    """Reject tolerationSeconds unless the effect is NoExecute, the only one that evicts pods (ValidateTolerations)."""
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        return Wrong("is set without effect NoExecute", "remove it, or set effect to NoExecute")
    return None


def matches_something(match: Match) -> Wrong | None:
    """Require a criterion: a rule without any would hide all rules after it."""
    return None if match != Match() else Wrong("has no criterion", "must name a cause, reasons, exitCodes, …")


def codes_of_exits(match: Match) -> Wrong | None:
    """Reject exit codes with a cause that has none."""
    if not match.exit_codes or match.cause in {None, "ExitCode"}:
        return None
    return Wrong(f"has no effect with cause {match.cause}", "remove it, or the cause")


def says_what_follows(following: Next) -> Wrong | None:
    """Require that a rule changes something."""
    return None if following != Next() else Wrong("is empty", "must say what follows: cost, memory, delay, avoid, …")


def fatal_is_the_last(following: Next) -> Wrong | None:
    """Reject what the next attempt should have if there is none."""
    if following.cost != "Fatal" or following == Next(cost="Fatal"):
        return None
    return Wrong("is Fatal, after which there is no next attempt", "remove the other fields")


def memory_of_the_killed(rule: FailureRule) -> Wrong | None:
    """Require the cause OOMKilled with memory: only a container that was killed for its memory gets more."""
    if rule.next.memory is None or rule.match.cause == "OOMKilled":
        return None
    return Wrong("has memory, which only cause OOMKilled may ask for", "add cause: OOMKilled, or remove memory")


def free_is_visible(rule: FailureRule) -> Wrong | None:
    """Require, with cost Free, what a podFailurePolicy sees: it alone can keep a failure from costing a retry."""
    match: Any = rule.match
    known = isinstance(getattr(match, "exit_codes", UNSET), tuple)
    if not known or rule.next.cost != "Free" or match == costs.OF_DISRUPTIONS:
        return None
    if match.exit_codes and not costs.is_unsure(match):
        return None
    return Wrong(
        "is Free, which the API cannot tell by this match", "name exitCodes and containers, or cause: Disruption"
    )


def disruptions_cost_the_same(rule: FailureRule) -> Wrong | None:
    """Reject cost Retry for some disruptions: the API sees no difference between them."""
    match: Any = rule.match
    if rule.next.cost != "Retry" or getattr(match, "cause", UNSET) != "Disruption" or match == costs.OF_DISRUPTIONS:
        return None
    return Wrong("is Retry for some disruptions, which the API cannot tell", "match cause: Disruption alone, or Fatal")


def free_before_unsure(profile: Profile) -> Wrong | None:
    """Require that a rule with cost Free stands before rules that may match the same exit codes."""
    before: list[FailureRule] = []
    for index, rule in enumerate(profile.on_failure):
        if not is_read(rule):
            continue
        about = rule.match.containers or (None,)
        if rule.next.cost == "Free" and any(costs.left_to_ledger(before, rule, one) for one in about):
            what = (
                f"has rule {index} with cost Free after a rule that may match its exit codes, as only the ledger sees"
            )
            return Wrong(what, f"move rule {index} up")
        before.append(rule)
    return None


def free_codes_are_few(profile: Profile) -> Wrong | None:
    """Reject more free exit codes than a Job may ignore: an author's own policy with as many would be denied."""
    codes = {
        code
        for rule in profile.on_failure
        if is_read(rule) and rule.next.cost == "Free"
        for code in rule.match.exit_codes
    }
    if len(codes) <= MOST_FREE_CODES:
        return None
    return Wrong(f"has {len(codes)} exit codes that cost nothing", f"must have at most {MOST_FREE_CODES}")


def costs_are_injected(profile: Profile) -> Wrong | None:
    """Reject a cost without failure policies, which carry it out."""
    costly = any(
        getattr(getattr(rule, "next", UNSET), "cost", None) in {"Free", "Fatal"} for rule in profile.on_failure
    )
    if getattr(profile.failure_policy, "inject", UNSET) != "Never" or not costly:
        return None
    return Wrong(
        "has costs, which have no effect with failurePolicy.inject Never", "remove them, or set inject to Merge"
    )


def is_read(rule: Any) -> bool:
    """Return True if a rule has no problem in the fields that decide what it costs."""
    match, following = getattr(rule, "match", UNSET), getattr(rule, "next", UNSET)
    read = [
        getattr(match, name, UNSET) for name in ("cause", "reasons", "exit_codes", "containers", "same_node", "message")
    ]
    listed = [entry for value in read if isinstance(value, tuple) for entry in value]
    return UNSET not in [*read, *listed, getattr(following, "cost", UNSET)]


def messages_are_kept(profile: Profile) -> Wrong | None:
    """Require diagnostics.lastWords with a rule that reads messages."""
    matches: list[Any] = [getattr(rule, "match", UNSET) for rule in profile.on_failure]  # UNSET: it has a problem
    if getattr(profile.diagnostics, "last_words", True) or not any(getattr(one, "message", None) for one in matches):
        return None
    return Wrong("matches messages, which are not kept", "set diagnostics.lastWords to true")


# Checks on several fields of one object, by the object's type: the fields that a check reads, and the check. The
# problem has the path of the first field.
Relations = Mapping[type, tuple[tuple[tuple[str, ...], Callable[[Any], Wrong | None]], ...]]
RELATIONS: Final[Relations] = {
    Retries: ((("default", "limit"), default_within_limit),),
    FailurePolicy: ((("retriable_exit_codes",), exit_codes_once),),
    Match: ((("cause",), matches_something), (("exit_codes", "cause"), codes_of_exits)),
    Next: ((("cost", "memory", "delay", "avoid", "placement"), says_what_follows), (("cost",), fatal_is_the_last)),
    FailureRule: (
        (("next", "match"), memory_of_the_killed),
        (("next", "match"), free_is_visible),
        (("next", "match"), disruptions_cost_the_same),
    ),
    Profile: (
        (("on_failure", "diagnostics"), messages_are_kept),
        (("on_failure",), free_before_unsure),
        (("on_failure",), free_codes_are_few),
        (("on_failure", "failure_policy"), costs_are_injected),
    ),
    Placement: ((("custom", "provider"), custom_with_provider), (("spot", "provider"), any_cannot_require)),
    Toleration: (
        (("key", "operator"), toleration_has_key),
        (("value", "operator"), toleration_has_no_value),
        (("toleration_seconds", "effect"), toleration_seconds_evict),
    ),
}
