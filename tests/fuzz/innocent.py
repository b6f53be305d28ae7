"""A client in another namespace: twenty admissions a second, and how many of them were lost or late.

Late is an admission that took `LATE` seconds in which the webhook's event loop itself used as much CPU time: so long
it has computed without answering, whatever else the machine does. On the client's clock alone a busy machine would
make any answer late, and a test would fail without a reason; the CPU time of the loop's thread counts nothing but
what the webhook does. What hangs without computing is lost: the API server waits for a webhook for seconds only.

`python -m tests.fuzz.innocent KUBECONFIG NAMESPACE PID`, until its stdin is closed, or KEPT were lost or late;
then it prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

from tests.cluster.manifests import job
from tests.faults.direct import Address
from tests.fuzz.storing import Store
from webhook.kube.names import POLICY

LATE = 0.5  # seconds
PAUSE = 0.05
TICK = os.sysconf("SC_CLK_TCK")
KEPT = 5  # lost or late admissions, after which there is nothing more to see


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process's main thread, on which its event loop runs."""
    fields = Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def main(kubeconfig: str, namespace: str, pid: int) -> None:
    store, over = Store(Address.of(Path(kubeconfig))), threading.Event()

    def until_closed() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=until_closed, daemon=True).start()
    path = f"apis/batch/v1/namespaces/{namespace}/jobs?dryRun=All"
    manifest = json.dumps(job("innocent")).encode()
    sent, lost, late, longest = 0, list[str](), list[str](), 0.0
    while len(lost) + len(late) < KEPT and not over.wait(PAUSE):
        begun, before = time.monotonic(), cpu_seconds(pid)
        status, answer = store.send("POST", path, manifest)
        took, used = time.monotonic() - begun, cpu_seconds(pid) - before
        sent, longest = sent + 1, max(longest, took)
        if POLICY not in answer.get("metadata", {}).get("annotations", {}):
            lost.append(f"{status} {answer.get('message', 'not mutated')}")
        if took >= LATE and used >= LATE:
            late.append(f"{took:.2f} s, of which the webhook computed {used:.2f} s")
    store.close()
    found = {"sent": sent, "lost": len(lost), "late": len(late), "longest": longest, "why": [*lost, *late]}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
