"""workload.codeflare.dev/v1beta2: AppWrappers, which create the objects that stand in them.

Source: internal/controller/appwrapper and internal/webhook of AppWrapper 1.2.0. One that fails is reset: its objects
are deleted and created anew, up to the limit of an annotation, 3 where it is left out or is no number. Its objects may
not be changed, and pass admission as any other when they are created: here they are judged, and not edited. One that
is refused then fails the AppWrapper for good.
"""

from typing import Final

from webhook.kinds.core import METADATA, OBJECT
from webhook.kinds.kind_spec import KindSpec, RetryField
from webhook.objects.patch import EVERY

RETRY_LIMIT: Final = "workload.codeflare.dev.appwrapper/retryLimit"
DEFAULT_RETRIES: Final = 3

APP_WRAPPER: Final = KindSpec(
    group="workload.codeflare.dev",
    versions=("v1beta2",),
    kind="AppWrapper",
    resource="appwrappers",
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

ROWS: Final = (APP_WRAPPER,)
