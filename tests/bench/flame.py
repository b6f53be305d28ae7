"""Shows where a request spends its time: draws docs/explanation/flame.svg with py-spy under full load.

`python -m tests.bench.flame` records the Python frames of the server 250 times a second, without stopping it.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.beside import Stage
from tests.cluster import installation
from tests.cluster.processes import Processes

DOCS = Path(__file__).parents[2] / "docs" / "explanation"
SECONDS = 20


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="retry-policy-flame-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        processes = Processes(folder / "logs")
        processes.logs.mkdir()
        try:
            ours, _ = Stage(folder, processes).against_echo("6 KB pod")
            pid = processes.running[installation.SERVER].pid
            how = ("--nonblocking", "--rate", "250", "--duration", str(SECONDS), "--output", "flame.svg")
            command = (Path(sys.executable).with_name("py-spy"), "record", *how, "--pid", str(pid))
            with subprocess.Popen(command, cwd=DOCS, stdout=subprocess.DEVNULL) as spy:
                ours.run("-duration", f"{SECONDS + 2}s")
                assert spy.wait() == 0
        finally:
            processes.stop()


if __name__ == "__main__":
    main()
