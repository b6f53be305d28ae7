"""The program kubectl_complete-retry_policy, which kubectl runs for completion of the plugin's commands.

Its arguments are those after `kubectl retry-policy`, the last one as far as it is typed. It prints a suggestion a line,
with its description after a tab, and in the last line how the shell is to treat them, as cobra's __complete does.
"""

import sys
from collections.abc import Iterator
from typing import Final

from click.shell_completion import CompletionItem, ShellComplete

from webhook.cli.console import PLUGIN
from webhook.cli.kubectl.plugin import plugin

# The directives of cobra, github.com/spf13/cobra/completions.go.
FILES: Final = 0
NO_SPACE: Final = 2
NO_FILES: Final = 4


def lines(arguments: list[str]) -> Iterator[str]:
    """Yield what the program prints for its arguments."""
    *before, incomplete = arguments or [""]
    found = ShellComplete(plugin, {}, PLUGIN, "").get_completions(before, incomplete)
    names = [one for one in found if one.type == "plain"]
    yield from (f"{one.value}\t{one.help}" if one.help else str(one.value) for one in names)
    yield f":{directive(found)}"


def directive(found: list[CompletionItem[str]]) -> int:
    """Return how the shell is to treat suggestions: whether it offers files too, and adds a space to the only one."""
    if any(one.type != "plain" for one in found):
        return FILES
    return NO_FILES | NO_SPACE if any(one.value.endswith("/") for one in found) else NO_FILES


def main() -> None:
    """Print the suggestions for the arguments of this process."""
    sys.stdout.writelines(f"{line}\n" for line in lines(sys.argv[1:]))
