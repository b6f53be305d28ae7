"""The tables of what `retry-policy export` holds."""

from webhook.export.claims import CLAIMS


def held() -> str:
    """Return a table of what the exported policies hold."""
    return table(held=True)


def not_held() -> str:
    """Return a table of what only the webhook does."""
    return table(held=False)


def table(*, held: bool) -> str:
    """Return a table of the claims that are held, or of the others."""
    rows = [f"| {claim.of} | {claim.what} |" for claim in CLAIMS if claim.held is held]
    return "\n".join(["| Of the policy, or annotation | What |", "|---|---|", *rows]) + "\n"
