"""The rules of findings: stable names, by which programs tell findings apart, and what each says."""

from typing import Final

# Where the documentation is published. Findings link to it.
SITE: Final = "https://retry-policy.dev"
PAGE: Final = f"{SITE}/reference/check/"

# By its name, what a rule finds. The names of webhook/rules/registry.py are among them; docs/reference/check.md has a
# heading for each.
RULES: Final[dict[str, str]] = {
    "retries": "More retries than the profile allows, or retries without a bound.",
    "schema": "A podFailurePolicy or another field of a Job that the API server rejects.",
    "shape": "A field of a wrong type.",
    "size": "An object that is larger than a request to the API server may be.",
    "annotations": "A label or annotation of retry-policy.dev with a value that is not allowed.",
    "owner": "An owner reference or a label by which a Job would pass as a part of another workload.",
    "failure_policy": "No podFailurePolicy is injected, or one does not do what its author may expect.",
    "back_off": "A back-off for each completion index is not possible.",
    "timeouts": "The time limit of an attempt is not set.",
    "placement": "A pod is not placed on spot or on-demand nodes.",
    "environment": "The variables that tell a program its attempt are not set.",
    "last_words": "The end of the log of a container that fails is not kept.",
    "memory": "A container that was killed for its memory does not get more.",
    "reapply": "What an earlier admission injected is not taken out.",
    "own_keys": "An annotation that only the server writes is removed.",
    "unknown_keys": "A misspelt label or annotation of retry-policy.dev, which has no effect.",
    "lint": "A field that the API server accepts, but that does not do what its author probably wants.",
    "opt_in": "A label of a Namespace, or of a template of the whole cluster, that opts it in.",
    "duplicate_key": "A key that is written twice in one object.",
    "incomplete_object": "A document that has only one of apiVersion and kind, so that nothing was judged.",
    "unreadable": "A file or document that cannot be read, so that nothing in it was judged.",
    "policy": "A field of the policy itself.",
}


def help_of(rule: str) -> str:
    """Return the address of the documentation of a rule."""
    return f"{PAGE}#{rule}"
