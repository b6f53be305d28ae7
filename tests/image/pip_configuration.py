"""Passes the machine's pip settings to a build, such as its own index or CA, as secrets, which no layer contains.

`python -m tests.image.pip_configuration FOLDER` prints the options for `docker build`, one a line.
"""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
from ast import literal_eval
from pathlib import Path

# The settings for the source of packages. The Dockerfile sets the others, or they name paths outside the build.
SETTINGS = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "default-timeout", "retries")
# The variables for a CA bundle of requests, OpenSSL and curl, in pip's order.
CA_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")


def secrets(folder: Path, mark: str = "pip's settings on the machine that builds") -> tuple[str, ...]:
    """Return the build options that pass pip's settings, from its files and the environment, to the build.

    They are written to a file in `folder` with the mark in a comment; a test searches the image for the mark.
    """
    settings = effective()
    file = configparser.RawConfigParser()
    file["global"] = {name: settings[name] for name in SETTINGS if name in settings}
    options = [f"--secret=id=pip.conf,src={folder / 'pip.conf'}"]
    ca = settings.get("cert") or next((os.environ[name] for name in CA_VARIABLES if os.environ.get(name)), None)
    if ca:
        file["global"]["cert"] = "/run/secrets/ca.crt"
        options.append(f"--secret=id=ca.crt,src={ca}")
    with (folder / "pip.conf").open("w") as output:
        output.write(f"# {mark}\n")
        file.write(output)
    return tuple(options)


def effective() -> dict[str, str]:
    """Return pip's settings by name; `install` overrides `global`, and the environment overrides both."""
    command = (sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list")
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in lines:
        key, _, value = line.partition("=")
        section, _, name = key.partition(".")
        if section in found:
            found[section][name] = literal_eval(value)
    return found["global"] | found["install"] | found[":env:"]


if __name__ == "__main__":
    sys.stdout.writelines(f"{option}\n" for option in secrets(Path(sys.argv[1])))
