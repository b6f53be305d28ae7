"""The version is in webhook/__init__.py. It is repeated where other tools read it; all of these must agree."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

SOURCE: Final = "webhook/__init__.py"
VERSION: Final = re.compile(r'^__version__ = "(\d+\.\d+\.\d+)"$', re.MULTILINE)
RELEASED: Final = re.compile(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", re.MULTILINE)
IMAGE: Final = r"\bretry-policy-webhook:(\d[\w.+-]*\w)"


class Place(NamedTuple):
    """Where a file repeats the version: a pattern whose group is the version, found at least `least` times.

    A place in a folder that is absent is passed over: not each checkout has the chart.
    """

    file: str
    pattern: str
    least: int = 1


PLACES: Final = (
    Place("Dockerfile", r'org\.opencontainers\.image\.version="(.*?)"'),
    Place("manifests/base/kustomization.yaml", r"^ +(?:newTag|app\.kubernetes\.io/version): (.+)$", 2),
    Place("charts/retry-policy-webhook/Chart.yaml", r'^(?:version|appVersion): "?([^"\n]+)"?$', 2),
    Place("hack/release/krew.yaml", r"\bv(\d+\.\d+\.\d+)\b", 2),
    Place("README.md", IMAGE),
    Place("docs/how-to/install.md", r"(?:\bretry-policy-webhook:|\bnewTag: )(\d[\w.+-]*\w)", 2),
    Place("docs/how-to/troubleshooting.md", r": version (\d[\w.+-]*\w), "),
)


def version_of(root: Path) -> str:
    """Return the version of a checkout; raise ValueError if it has none."""
    found = VERSION.search((root / SOURCE).read_text())
    if found is None:
        raise ValueError(f'{SOURCE}: has no line __version__ = "MAJOR.MINOR.PATCH"; add it')
    return found[1]


def disagreements(root: Path, tag: str | None) -> Iterator[str]:
    """Yield what does not agree with the version, a line each; with a tag, also that tag and the CHANGELOG."""
    version = version_of(root)
    for place in PLACES:
        yield from of_place(root, place, version)
    if tag is None:
        return
    if tag != f"v{version}":
        yield f"the tag {tag}: is not v{version}; tag the commit whose {SOURCE} has the version"
    yield from of_changelog((root / "CHANGELOG.md").read_text(), version)


def of_place(root: Path, place: Place, version: str) -> Iterator[str]:
    """Yield what a place says other than the version."""
    file = root / place.file
    if not file.parent.exists():
        return
    if not file.exists():
        yield f"{place.file}: does not exist; must name the version {version}"
        return
    text = file.read_text()
    found = list(re.finditer(place.pattern, text, re.MULTILINE))
    if len(found) < place.least:
        yield f"{place.file}: names the version {len(found)} times; must name {version} {place.least} times or more"
    for match in found:
        if match[1] != version:
            line = text.count("\n", 0, match.start(1)) + 1
            yield f"{place.file}:{line}: is {match[1]}; must be {version}, run: python3 -m hack.release write"


def of_changelog(text: str, version: str) -> Iterator[str]:
    """Yield why the CHANGELOG is not that of a release of the version."""
    headings = list(RELEASED.finditer(text))
    newest = next((heading for heading in headings if heading[1] != "Unreleased"), None)
    if newest is None or newest[1] != version or newest[2] is None:
        yield f"CHANGELOG.md: the newest version is not {version}; must have the heading: ## [{version}] - YYYY-MM-DD"
    elif newest is not headings[0] and text[headings[0].end() : newest.start()].strip():
        yield "CHANGELOG.md: has entries under Unreleased; must have them under the new version"


def write(root: Path) -> Iterator[str]:
    """Write the version where it is repeated; yield the files that have changed."""
    version = version_of(root)
    for place in PLACES:
        file = root / place.file
        if not file.parent.exists():
            continue
        before = file.read_text()
        after = re.sub(place.pattern, lambda match: in_group(match, version), before, flags=re.MULTILINE)
        if after != before:
            file.write_text(after)
            yield place.file


def in_group(match: re.Match[str], text: str) -> str:
    """Return a match with another text in its group."""
    start, end = match.start(1) - match.start(), match.end(1) - match.start()
    return f"{match[0][:start]}{text}{match[0][end:]}"
