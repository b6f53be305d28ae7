"""A run of an Airflow DAG: a workload that no object of the API stands for. Its pods name it in their labels."""

from typing import Final

from webhook.kinds.core import METADATA
from webhook.kinds.kind_spec import KindSpec

# The API server serves no such kind: it is never read or written.
DAG_RUN: Final = KindSpec(
    group="airflow.apache.org",
    versions=("v1",),
    kind="DAGRun",
    resource="dagruns",
    admitted=False,
    shape={"metadata": METADATA},
)
