"""`python -m tests.upstream [SUITE…]`: builds the suites, and runs them (run.py) on a cluster with real nodes.

`KUBERNETES_VERSION` selects the version of the cluster and of Kubernetes' own tests.
"""

import os
import sys

from tests.cluster import binaries
from tests.cluster.processes import HarnessError
from tests.upstream import examples

try:
    # Here, because the cluster has a network of its own, in which nothing can be fetched.
    binaries.build([*binaries.own_cluster(), *binaries.upstream_suites()])
    examples.folders()
except HarnessError as error:
    sys.exit(str(error))
cluster = ("-m", "tests.cluster", "--real-nodes", "--with-kueue")
run = ("-m", "tests.upstream.run", *sys.argv[1:])
os.execv(sys.executable, [sys.executable, *cluster, "--", sys.executable, *run])  # noqa: S606
