"""workload.codeflare.dev/v1beta2: AppWrappers, which create the objects that are embedded in them.

Source: internal/controller/appwrapper and internal/webhook of AppWrapper 1.2.0. An AppWrapper that fails is reset: its
objects are deleted and created again, as often as an annotation says, by default 3 times. The embedded objects are
immutable, and each is admitted when it is created. So in the AppWrapper they are validated and not edited. An object
that is denied when it is created fails the AppWrapper permanently.

The attempt of a pod that the AppWrapper created, or whose workload it created, is the number of resets in its status.
It is written before the objects of the next attempt are created.
"""

from typing import Final

from webhook.objects.patch import EVERY
from webhook.systems.core import METADATA, OBJECT
from webhook.systems.kind_spec import KindSpec, RetryField
from webhook.systems.pod_source import ANY, Evidence, Level, PodSource, number_at

PARTS: Final = ("spec", "pods")
RETRY_LIMIT: Final = "workload.codeflare.dev.appwrapper/retryLimit"
DEFAULT_RETRIES: Final = 3

APP_WRAPPER: Final = KindSpec(
    group="workload.codeflare.dev",
    versions=("v1beta2",),
    kind="AppWrapper",
    shape={"metadata": METADATA, "spec": {"components": [{"template": OBJECT}]}},
    owns_pods=True,
    counts=True,
    embedded=(("spec", "components", EVERY, "template"),),
    retry_fields=(
        RetryField(
            within=("metadata",),
            name=("annotations", RETRY_LIMIT),
            text=True,
            absent=DEFAULT_RETRIES,
            parent_absent=DEFAULT_RETRIES,
        ),
    ),
)


def levels(evidence: Evidence) -> list[Level]:
    """Return the level of the AppWrapper's resets."""
    for wrapper in (evidence.owner, evidence.above):
        if wrapper is not None and wrapper.get("kind") == APP_WRAPPER.kind:
            limit = number_at(wrapper, ("metadata", "annotations", RETRY_LIMIT))
            resets = number_at(wrapper, ("status", "resettingCount")) or 0
            return [Level(APP_WRAPPER.kind, resets, DEFAULT_RETRIES if limit is None else limit)]
    return []


PODS: Final = (PodSource(ANY, APP_WRAPPER.kind, levels),)
KINDS: Final = (APP_WRAPPER,)
