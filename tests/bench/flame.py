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
            spy_on = ("py-spy", "record", *how, "--pid", str(pid))  # the title of the picture
            program = Path(sys.executable).with_name("py-spy")
            with subprocess.Popen(spy_on, executable=program, cwd=DOCS, stdout=subprocess.DEVNULL) as spy:
                ours.run("-duration", f"{SECONDS + 2}s")
                assert spy.wait() == 0
            picture = DOCS / "flame.svg"
            # A frame that has changed while it was read may have a name of zeros, which no XML may contain.
            picture.write_bytes(picture.read_bytes().replace(b"\0", b"?"))
        finally:
            processes.stop()


if __name__ == "__main__":
    main()
