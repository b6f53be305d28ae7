"""The commands of docs/how-to/stop.md that edit the ConfigMap of the policy, as text."""

import re
import subprocess

from tools.generate import ROOT

STOP, GO_ON = re.findall(
    r" get configmap retry-policy -o yaml \| (.+) \| kubectl replace -f -$",
    (ROOT / "docs" / "how-to" / "stop.md").read_text(),
    re.MULTILINE,
)


def edited(text: str, command: str) -> str:
    """Return what a command makes of a ConfigMap."""
    return subprocess.run(["sh", "-c", command], input=text, capture_output=True, text=True, check=True).stdout
