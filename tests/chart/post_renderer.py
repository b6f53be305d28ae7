"""Lets the API server call the webhook at a URL: no Service works without kube-proxy.

Helm pipes all manifests through this program before it sends them: `python -m tests.chart.post_renderer URL`.
"""

import json
import sys

import yaml

from tests.faults.installed import called_at


def main(url: str) -> None:
    for root in yaml.safe_load_all(sys.stdin):
        if root is not None:
            pointed = called_at(url, root) if "webhooks" in root else root
            sys.stdout.write(f"---\n{json.dumps(pointed)}\n")  # JSON is YAML too


if __name__ == "__main__":
    main(sys.argv[1])
