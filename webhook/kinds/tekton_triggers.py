"""triggers.tekton.dev: TriggerTemplates, of which each event makes runs.

Source: pkg/template and pkg/sink of Tekton Triggers 0.34.0. An event's parameters take the place of $(tt.params.NAME)
in the text of a resource template, and what comes of it is created, and admitted like any other; what is refused then
is lost with its event. So the resource templates are judged, but for what an event will say.
"""

from typing import Final

from webhook.kinds.core import METADATA, OBJECT
from webhook.kinds.kind_spec import Field, KindSpec
from webhook.objects.patch import EVERY

PARAMETER: Final = "$(tt."  # how what an event says begins
TEMPLATES: Final = ("spec", "resourcetemplates", EVERY)

TRIGGER_TEMPLATE: Final = KindSpec(
    group="triggers.tekton.dev",
    versions=("v1beta1", "v1alpha1"),
    kind="TriggerTemplate",
    resource="triggertemplates",
    shape={"metadata": METADATA, "spec": {"resourcetemplates": [OBJECT]}},
    embedded=(TEMPLATES,),
    made_annotations=(Field(within=TEMPLATES, name=("metadata", "annotations")),),
)

ROWS: Final = (TRIGGER_TEMPLATE,)
