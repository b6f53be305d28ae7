"""Certificates are stored in a Secret and read back; all problems are reported, without the private key."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from certs.issue import KeyPair, issue, new_authority
from certs.store import Shared, UnusableError, from_data, to_data

NEW_YEAR = datetime(2030, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def authority() -> KeyPair:
    return new_authority("webhook", now=NEW_YEAR, lifetime=365 * DAY)


def leaf_of(signer: KeyPair) -> KeyPair:
    return issue(signer, "webhook", now=NEW_YEAR, lifetime=DAY, hosts=["webhook.svc"])


@pytest.fixture(scope="module")
def stable() -> Shared:
    signer = authority()
    return Shared(authority=signer, leaf=leaf_of(signer))


@pytest.fixture(scope="module")
def changing(stable: Shared) -> Shared:
    retired = authority().certificate + authority().certificate
    return replace(stable, next_authority=authority(), retired=retired, retired_until=NEW_YEAR + DAY)


def error_about(data: dict[str, str]) -> str:
    with pytest.raises(UnusableError) as raised:
        from_data(data)
    assert "PRIVATE" not in str(raised.value)
    return str(raised.value)


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_certificates_are_read_back_unchanged(stable: Shared, changing: Shared) -> None:
    assert from_data(to_data(stable)) == stable
    assert from_data(to_data(changing)) == changing


def test_outside_a_rotation_a_secret_has_two_key_pairs(stable: Shared) -> None:
    assert set(to_data(stable)) == {"tls.crt", "tls.key", "ca.crt", "ca.key"}


def test_the_current_next_and_retired_authorities_are_all_trusted(stable: Shared, changing: Shared) -> None:
    assert stable.trusted == stable.authority.certificate
    assert changing.next_authority is not None
    assert changing.trusted == changing.authority.certificate + changing.next_authority.certificate + changing.retired


def test_unknown_keys_are_ignored(stable: Shared) -> None:
    assert from_data({**to_data(stable), "note": "aGVsbG8="}) == stable


def test_the_error_about_an_empty_secret_names_all_missing_keys() -> None:
    assert error_about({}) == "; ".join(f"{key}: is missing" for key in ("tls.crt", "tls.key", "ca.crt", "ca.key"))


@pytest.mark.parametrize("key", ["tls.crt", "tls.key", "ca.crt", "ca.key", "ca-next.crt", "ca-next.key"])
@pytest.mark.parametrize("value", ["", "%%%", encoded(b"\xff\x00 nothing")], ids=["empty", "not base64", "not PEM"])
def test_the_error_names_each_malformed_key(changing: Shared, key: str, value: str) -> None:
    assert f"{key}: " in error_about({**to_data(changing), key: value})


@pytest.mark.parametrize("key", ["tls.key", "ca.key", "ca-next.key"])
def test_the_error_names_a_private_key_of_another_certificate(changing: Shared, key: str) -> None:
    assert f"{key}: is not the key of" in error_about({**to_data(changing), key: encoded(authority().key)})


def test_the_error_names_a_private_key_of_another_type(stable: Shared) -> None:
    pem = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    assert "ca.key: is not the key of ca.crt" in error_about({**to_data(stable), "ca.key": encoded(pem)})


def test_the_error_names_a_leaf_of_another_authority(stable: Shared) -> None:
    foreign = authority()
    assert error_about(to_data(replace(stable, authority=foreign))) == "tls.crt: is not signed by ca.crt"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ca-retired.crt", encoded(b"nothing")),
        ("ca-retired.until", encoded(b"tomorrow")),
        ("ca-retired.until", encoded(b"2030-01-02T00:00:00")),
        ("ca-retired.until", ""),
    ],
)
def test_the_error_names_malformed_retired_authorities_and_times(changing: Shared, key: str, value: str) -> None:
    assert f"{key}: " in error_about({**to_data(changing), key: value})


def test_all_problems_are_reported_at_once(changing: Shared) -> None:
    broken = error_about({**to_data(changing), "tls.crt": "", "ca-next.key": "%", "ca-retired.until": encoded(b"x")})
    assert [part.partition(":")[0] for part in broken.split("; ")] == ["tls.crt", "ca-next.key", "ca-retired.until"]
