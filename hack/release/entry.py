"""The one file that `plugin.py` builds: the program that it is depends on the name by which it is called."""

import sys
from pathlib import Path

from webhook.cli import kubectl
from webhook.cli.main import main

if __name__ == "__main__":
    name = Path(sys.argv[0]).name
    if name.startswith("kubectl_complete-"):
        kubectl.complete()
    elif name.startswith("kubectl-"):
        kubectl.main()
    else:
        main(prog_name="retry-policy")
