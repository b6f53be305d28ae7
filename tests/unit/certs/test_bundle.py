"""The caBundle of a webhook configuration is written only if it differs, and no other field."""

from __future__ import annotations

import base64
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import jsonpatch
import pytest

from certs import bundle
from certs.issue import KeyPair, issue, new_authority

NOW = datetime(2030, 1, 1, tzinfo=UTC)
YEAR = timedelta(days=365)
GARBAGE = ["", "%%%", "bm90IFBFTQ=="]


def authority() -> KeyPair:
    return new_authority("webhook", now=NOW, lifetime=YEAR)


ONE, TWO = authority(), authority()
LEAF = issue(ONE, "webhook", now=NOW, lifetime=YEAR, hosts=["webhook.svc"])


def configuration(*bundles: bytes | str | None) -> dict[str, Any]:
    """Return a configuration with one webhook for each caBundle: PEM, base64, or None."""
    webhooks: list[dict[str, Any]] = []
    for index, trusted in enumerate(bundles):
        client: dict[str, Any] = {"service": {"name": "webhook", "namespace": "system", "path": "/mutate"}}
        if trusted is not None:
            client["caBundle"] = base64.b64encode(trusted).decode() if isinstance(trusted, bytes) else trusted
        webhooks.append({"name": f"{index}.retry-policy.dev", "clientConfig": client, "timeoutSeconds": 5})
    return {"metadata": {"name": "webhook", "resourceVersion": "7"}, "webhooks": webhooks}


def test_every_entry_gets_the_authorities_and_no_other_field_changes() -> None:
    before = configuration(None, TWO.certificate, "")
    after = jsonpatch.apply_patch(before, bundle.edits(before, ONE.certificate))
    assert after == configuration(ONE.certificate, ONE.certificate, ONE.certificate)


def test_entries_with_the_authorities_in_any_order_and_form_are_not_edited() -> None:
    spaced = b"# a comment\n" + TWO.certificate + b"\n\n" + ONE.certificate
    assert (
        bundle.edits(configuration(spaced, ONE.certificate + TWO.certificate), ONE.certificate + TWO.certificate) == []
    )
    operations = bundle.edits(configuration(ONE.certificate, None), ONE.certificate)
    assert [one["path"] for one in operations if "caBundle" in one["path"]] == ["/webhooks/1/clientConfig/caBundle"]


def test_an_additional_authority_is_removed() -> None:
    before = configuration(ONE.certificate + TWO.certificate)
    after = jsonpatch.apply_patch(before, bundle.edits(before, ONE.certificate))
    assert after == configuration(ONE.certificate)


def test_an_edit_has_the_resource_version_that_was_read() -> None:
    version = {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}
    assert bundle.edits(configuration(None), ONE.certificate)[0] == version


def test_a_configuration_without_entries_needs_no_edit_and_trusts_every_authority() -> None:
    for empty in (configuration(), {"metadata": {"name": "webhook"}}):
        assert bundle.edits(empty, ONE.certificate) == []
        assert bundle.trust([empty], LEAF.certificate)


def test_a_leaf_is_trusted_if_every_entry_of_every_configuration_contains_its_issuer() -> None:
    both = configuration(ONE.certificate, TWO.certificate + ONE.certificate)
    assert bundle.trust([both, both], LEAF.certificate)
    assert not bundle.trust([both, configuration(ONE.certificate, TWO.certificate)], LEAF.certificate)
    assert bundle.trust([], LEAF.certificate)


def test_a_chain_is_trusted_if_one_of_its_certificates_is() -> None:
    other = issue(TWO, "other", now=NOW, lifetime=YEAR, hosts=["other.svc"])
    assert bundle.trust([configuration(ONE.certificate)], other.certificate + LEAF.certificate)


@pytest.mark.parametrize("garbage", [None, *GARBAGE])
def test_an_empty_or_malformed_bundle_trusts_no_authority_and_is_replaced(garbage: str | None) -> None:
    broken = configuration(ONE.certificate, garbage)
    assert not bundle.trust([broken], LEAF.certificate)
    assert bundle.edits(broken, ONE.certificate)


def test_each_authority_that_an_entry_trusts_is_returned_once() -> None:
    found = bundle.trusted_by_any(
        [configuration(ONE.certificate, TWO.certificate), configuration(ONE.certificate, None)]
    )
    assert sorted(found.split(b"-----END CERTIFICATE-----\n")) == sorted(
        (ONE.certificate + TWO.certificate).split(b"-----END CERTIFICATE-----\n")
    )
    assert bundle.trusted_by_any([configuration(*GARBAGE)]) == b""


def test_the_configurations_are_not_edited() -> None:
    root = configuration(None, "%%%")
    before = deepcopy(root)
    bundle.edits(root, ONE.certificate)
    bundle.trust([root], LEAF.certificate)
    assert root == before
