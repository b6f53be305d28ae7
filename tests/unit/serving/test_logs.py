"""Log lines, in a process of their own: the configuration is the process's."""

import json
import subprocess
import sys

PROGRAM = """
import structlog
from webhook.serving import logs

def read(password):
    raise ValueError("cannot be read")

logs.to_stderr()
log = structlog.get_logger()
log.debug("too much")
try:
    read("hunter2")
except ValueError:
    log.exception("failed", namespace="ml\\nx")
"""


def test_a_line_is_one_json_object_and_an_exception_shows_no_values_of_its_frames() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True, timeout=60, text=True)
    (line,) = done.stderr.splitlines()
    said = json.loads(line)
    assert (said["event"], said["level"], said["namespace"]) == ("failed", "error", "ml\nx")
    assert said["exception"][0]["exc_value"] == "cannot be read"
    assert "hunter2" not in line.replace('read(\\"hunter2\\")', "")
    assert done.stdout == ""
