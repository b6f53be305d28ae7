"""python3 -m hack.release check | write | image | plugin | krew."""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Final

from hack.release import image, krew, plugin, versions

ROOT: Final = Path(__file__).parents[2]


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(prog="python3 -m hack.release", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="whether every place that repeats the version agrees")
    check.add_argument("tag", nargs="?", metavar="TAG", help="the tag of the release: CHANGELOG.md must have it too")
    commands.add_parser("write", help=f"write the version of {versions.SOURCE} wherever it is repeated")
    build = commands.add_parser("image", help="build and push the image; write manifests and chart that name it")
    build.add_argument("image", metavar="IMAGE", help="such as registry.example/retry-policy-webhook")
    one_file = commands.add_parser("plugin", help="build the kubectl plugin as one file, for this machine")
    manifest = commands.add_parser("krew", help="write krew's manifest for the archives in the folder")
    manifest.add_argument("repository", metavar="OWNER/NAME", help="the repository that has the release")
    for one in (build, one_file, manifest):
        one.add_argument("folder", type=Path, metavar="FOLDER")
    return parser.parse_args()


def run(given: argparse.Namespace) -> int:
    """Run a command; return the exit code."""
    if given.command == "check":
        found = list(versions.disagreements(ROOT, given.tag))
        print(*found or [f"everything names {versions.version_of(ROOT)}"], sep="\n")
        return int(bool(found))
    if given.command == "write":
        print(*versions.write(ROOT), sep="\n")
    elif given.command == "image":
        image.release(ROOT, given.image, given.folder)
    elif given.command == "plugin":
        print(plugin.build(ROOT, given.folder))
    else:
        (given.folder / "retry-policy.yaml").write_text(krew.manifest(given.repository, given.folder))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(run(arguments()))
    except (ValueError, subprocess.CalledProcessError) as error:
        sys.exit(f"{error}")
