"""The manifest of the kubectl plugin for krew: the template beside this file, with the checksums of the archives."""

import hashlib
import re
from pathlib import Path
from typing import Final

TEMPLATE: Final = Path(__file__).with_suffix(".yaml")
ARCHIVE: Final = re.compile(r"(?P<uri>uri: \S+/(?P<name>[^/\s]+))\n(?P<indent> +)sha256: SHA256$", re.MULTILINE)
REPOSITORY: Final = re.compile(r"[\w.-]+/[\w.-]+")


def manifest(repository: str, folder: Path) -> str:
    """Return the manifest for the archives in a folder; raise ValueError if one is missing."""
    if not REPOSITORY.fullmatch(repository):
        raise ValueError(f"{repository!r} is no repository; must be OWNER/NAME")
    text = TEMPLATE.read_text()
    missing = [name for name in archives(text) if not (folder / name).is_file()]
    if missing:
        raise ValueError(f"{folder} has no {', '.join(missing)}; build them with python3 -m hack.release plugin")
    return ARCHIVE.sub(
        lambda found: f"{found['uri']}\n{found['indent']}sha256: {checksum(folder / found['name'])}", text
    ).replace("REPOSITORY", repository)


def archives(text: str) -> list[str]:
    """Return the names of the archives that a manifest names."""
    return [found["name"] for found in ARCHIVE.finditer(text)]


def checksum(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
