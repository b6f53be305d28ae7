"""The parts of docs/ that show the policy and its modes."""

import importlib.resources
import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

from tests.admission import mutate, validate
from tests.merge_cases import distinct
from tests.objects import container_of, cron_job, exit_codes, job, job_spec
from tests.unit.insight.simulate.world import Rules, World
from webhook.history.record import encode
from webhook.insight.simulate.result import NOT_SIMULATED
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.model import Policy, Profile
from webhook.rules.facts import Facts

PLAIN: dict[type, str] = {
    inspect.BoolType: "`true`, `false`",
    inspect.StrType: "a string",
    inspect.NoneType: "`null`",
    inspect.CustomType: "a duration",
}
PROFILE = "profiles.*."  # the path of a profile in the policy
FIELD = re.compile(r"^(?P<indent> *)(?P<name>\w+):(?P<value>.*)$")

OBJECTS: dict[str, Json] = {
    "a Job": job(job_spec(backoffLimit=3)),
    "backoffLimit 25": job(job_spec(backoffLimit=25)),
    "backoffLimit said by nobody": job(job_spec(backoffLimit=6)),
    "restartPolicy OnFailure": job(job_spec(restart_policy="OnFailure", backoffLimit=3)),
    "20 rules of its own": job(job_spec(rules=distinct(20), backoffLimit=3)),
    "a rule that the API refuses": job(job_spec(rules=[exit_codes("FailJob", "In", 0)], backoffLimit=3)),
    "max-retries 2": job(job_spec(backoffLimit=3), annotations={names.MAX_RETRIES: "2"}),
    "max-retries many": job(job_spec(backoffLimit=3), annotations={names.MAX_RETRIES: "many"}),
    "a container that restarts in place": job(
        job_spec(containers=({**container_of("main"), "restartPolicy": "OnFailure"},), backoffLimit=3)
    ),
    "a CronJob": cron_job(job_spec(backoffLimit=3)),
}


def not_simulated() -> str:
    """Return which fields of a profile a simulation leaves out."""
    fields = ", ".join(f"`{what}`" for what in NOT_SIMULATED)
    return f"Not simulated, and named in a line of the output if the other policy uses it: {fields}.\n"


def week() -> str:
    """Return the records of a drawn week, for the simulation in docs/tutorial/a-day.md."""
    records, _ = World(1, jobs=60).live(Rules(), run=0)
    return "".join(f"{encode(record).decode()}\n" for record in records)


def modes_table() -> str:
    """Return a table of what each mode does with ten objects."""
    lines = ["| Object | Enforce | Warn | Audit |", "|---|---|---|---|"]
    for name, root in OBJECTS.items():
        cells = [cell(root, mode) for mode in ("Enforce", "Warn", "Audit")]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def cell(root: Json, mode: str) -> str:
    """Return what a mode does with one object."""
    facts = Facts(profile_name="default", mode=mode)
    mutated = mutate(root, facts)
    validated = validate(mutated.object, facts)
    said = [*mutated.warnings, *validated.warnings]
    edited = [line for line in paths_of(mutated.patch) if line.startswith("spec")]
    parts = []
    if edited:
        parts.append("changed: " + ", ".join(edited))
    if not validated.allowed:
        parts.append("**denied**: " + "; ".join(line.partition(":")[0] for line in validated.message.splitlines()))
    parts += [f"warning: {warning}" for warning in said]
    if mode == "Audit":
        audit = audited(root)
        parts += [f"audit annotation: {key}" for key in audit]
    return "<br>".join(parts).replace("|", "\\|") or "as it was"


def audited(root: Json) -> list[str]:
    """Return the names of the audit annotations that an object would get."""
    warned = Facts(profile_name="default", mode="Warn")
    changed = any("would be" in line or "would become" in line for line in mutate(root, warned).warnings)
    denied = any("would deny" in line for line in validate(root, warned).warnings)
    return ["would-change"] * changed + ["would-deny"] * denied


def paths_of(patch: list[Json]) -> list[str]:
    """Return the paths of a patch, written as fields."""
    return [operation["path"][1:].replace("/", ".") for operation in patch]


def profile_table() -> str:
    """Return a table of all fields of a profile."""
    return table_of(Profile, PROFILE)


def policy_table() -> str:
    """Return a table of the fields of the policy that belong to no profile."""
    return table_of(Policy, "")


def table_of(model: type, prefix: str) -> str:
    """Return a table of fields with a default: types from the model, meanings from the packaged policy or the model.

    `prefix`: the path of the model in the policy.
    """
    meanings = dict(comments())
    lines = ["| Field | Values | Default | |", "|---|---|---|---|"]
    for path, field in fields(inspect.type_info(model), ""):
        if not field.required:
            default = msgspec.json.encode(field.default, enc_hook=int).decode()
            meaning = meanings.get(f"{prefix}{path}")
            if not meaning and getattr(field.type, "extra", None) is None:
                raise SystemExit(f"webhook/policy/default.yaml lacks {prefix}{path}, with a comment: what is it for?")
            meaning = meaning or stated(field.type)
            lines.append(f"| `{path}` | {values(field.type)} | `{default}` | {meaning} |")
    return "\n".join(lines) + "\n"


def stated(kind: Any) -> str:
    """Return the meaning that the model states for a field which the packaged policy leaves out."""
    return str(kind.extra["meaning"])


def fields(struct: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield the leaf fields of a struct with their paths."""
    for field in struct.fields:
        path = f"{prefix}{field.encode_name}"
        if isinstance(field.type, inspect.StructType):
            yield from fields(field.type, f"{path}.")
        else:
            yield path, field


def values(kind: Any) -> str:
    """Return the values that a field may have."""
    match kind:
        case inspect.LiteralType():
            return ", ".join(f"`{value}`" for value in kind.values)
        case inspect.IntType() if kind.ge is not None:
            return f"{kind.ge} to {kind.le}" if kind.le is not None else f"{kind.ge} or more"
        case inspect.FloatType():
            return f"{kind.ge:g} to {kind.le:g}"
        case inspect.IntType():
            return "a whole number"
        case inspect.VarTupleType():
            return f"a list of {values(kind.item_type)}"
        case inspect.UnionType():
            return " or ".join(values(one) for one in kind.types)
        case inspect.Metadata():
            return values(kind.type)
        case inspect.StructType():
            return "`{" + ", ".join(field.encode_name for field in kind.fields) + "}`"
    return PLAIN[type(kind)]


def comments() -> Iterator[tuple[str, str]]:
    """Yield the path of each field of the packaged policy with the comment above it; `*` stands for the profile."""
    text = importlib.resources.files("webhook.policy").joinpath("default.yaml").read_text(encoding="utf-8")
    stack: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            comment.append(line.strip("# "))
            continue
        if found := FIELD.match(line):
            indent = len(found["indent"])
            while stack and stack[-1][0] >= indent:
                stack.pop()
            stack.append((indent, found["name"]))
            path = ".".join(name for _, name in stack).replace("profiles.default.", PROFILE)
            yield path, " ".join(comment).replace("|", "\\|")
        comment = []
