#!/usr/bin/env python3
"""Makes the cert-manager overlay work without cert-manager: reads it rendered, writes it with a certificate in it."""

import base64
import sys
from datetime import UTC, datetime, timedelta

import yaml

from certs import issue

LIFETIME = timedelta(days=365)


def main() -> None:
    """Put in place of cert-manager's objects the Secret that they ask for, and its authority into each webhook."""
    rendered = list(yaml.safe_load_all(sys.stdin))
    documents = [document for document in rendered if not document["apiVersion"].startswith("cert-manager.io/")]
    [wanted] = (document for document in rendered if "dnsNames" in document.get("spec", {}))
    hosts = wanted["spec"]["dnsNames"]
    now = datetime.now(UTC)
    authority = issue.new_authority("retry-policy-webhook-ca", now=now, lifetime=LIFETIME)
    leaf = issue.issue(authority, hosts[0], now=now, lifetime=LIFETIME, hosts=hosts)
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": wanted["spec"]["secretName"], "namespace": wanted["metadata"]["namespace"]},
        "stringData": {"tls.crt": leaf.certificate.decode(), "tls.key": leaf.key.decode()},
    }
    for document in documents:
        for webhook in document.get("webhooks", ()):
            webhook["clientConfig"]["caBundle"] = base64.b64encode(authority.certificate).decode()
    position = 1 + next(index for index, document in enumerate(documents) if document["kind"] == "Namespace")
    documents.insert(position, secret)
    yaml.safe_dump_all(documents, sys.stdout, sort_keys=False)


if __name__ == "__main__":
    main()
