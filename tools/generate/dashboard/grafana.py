"""The dashboard as JSON that Grafana imports."""

from collections.abc import Callable
from typing import Any, Final

from grafana_foundation_sdk.builders import bargauge, common, prometheus, stat, statetimeline, timeseries
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    BigValueGraphMode,
    BigValueTextMode,
    DataSourceRef,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
    VisibilityMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from tools.generate.dashboard.panel import INSTANT, Panel, Query, name_of
from tools.generate.dashboard.panels import ROWS
from webhook import metrics

DASHBOARD: Final = "manifests/overlays/prometheus/dashboard.json"
SOURCE: Final = DataSourceRef(type_val="prometheus", uid="$datasource")
COLOURS: Final = {"grey": "#b4b9c0"}  # that Grafana has no name for
HEIGHT: Final = 8  # of a panel, in Grafana's units
EVERY: Final = VariableOption(selected=True, text="All", value="$__all")
OF_TEAMS: Final = f'{{__name__=~"{name_of(metrics.REQUESTS_DENIED)}|{name_of(metrics.NOT_ENFORCED)}", job=~"$job"}}'


def dashboard() -> str:
    """Return the dashboard as JSON."""
    board = (
        builders.Dashboard("Retry policy webhook")
        .uid("retry-policy-webhook")
        .description("Is admission up and fast, what does it do, what do attempts cost, is everything right?")
        .tags(["retry-policy"])
        .readonly()
        .refresh("1m")
        .time("now-6h", "now")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(builders.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(variable("job", f"label_values({name_of(metrics.BUILD)}, job)", at_least="+"))
        .with_variable(variable("namespace", f"label_values({OF_TEAMS}, namespace)"))
        .with_variable(variable("profile", f"label_values({OF_TEAMS}, profile)"))
    )
    number = 0
    for row in ROWS:
        number += 1
        board = board.with_row(builders.Row(row.question).id(number))
        for panel in row.panels:
            number += 1
            board = board.with_panel(built(panel).id(number))
    return JSONEncoder(sort_keys=True, indent=2).encode(board.build()) + "\n"


def variable(name: str, query: str, at_least: str = "*") -> builders.QueryVariable:
    """Return a variable whose values are those of a label; All also stands for series without the label."""
    return (
        builders.QueryVariable(name)
        .label(name.capitalize())
        .query(query)
        .datasource(SOURCE)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
        .current(EVERY)
        .multi(multi=True)
        .include_all(include_all=True)
        .all_value(f".{at_least}")
    )


def built(panel: Panel) -> Any:
    """Return the builder of a panel."""
    builder = (
        BUILDERS[panel.kind]()
        .title(panel.title)
        .description(panel.description)
        .datasource(SOURCE)
        .unit(panel.unit)
        .span(panel.width)
        .height(HEIGHT)
    )
    for number, query in enumerate(panel.queries):
        builder = builder.with_target(target(panel, query, "ABCDEF"[number]))
    if panel.kind in INSTANT and panel.unit == "short":
        builder = builder.decimals(0)
    if panel.levels:
        levels = [Threshold(value, COLOURS.get(colour, colour)) for value, colour in panel.levels]
        levels[0].value = None  # and everything below
        builder = builder.thresholds(builders.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(levels))
    if panel.words is not None:
        words = {str(number): ValueMappingResult(text=word, index=number) for number, word in enumerate(panel.words)}
        builder = builder.mappings([ValueMap(options=words)])
    return builder


def target(panel: Panel, query: Query, name: str) -> prometheus.Dataquery:
    """Return a query of a panel."""
    found = prometheus.Dataquery().expr(query.expression).legend_format(query.legend).ref_id(name).datasource(SOURCE)
    return found.instant() if panel.kind in INSTANT else found.range()


def numbers() -> stat.Panel:
    """Return a panel with a number for each series."""
    return (
        stat.Panel()
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .graph_mode(BigValueGraphMode.NONE)
        .text_mode(BigValueTextMode.AUTO)
    )


def bars() -> bargauge.Panel:
    """Return a panel with a bar for each series."""
    return (
        bargauge.Panel()
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .orientation(VizOrientation.HORIZONTAL)
        .min(0)
    )


def lines() -> timeseries.Panel:
    """Return a panel with a line for each series."""
    legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    return (
        timeseries.Panel()
        .min(0)
        .show_points(VisibilityMode.NEVER)
        .legend(legend.show_legend(show_legend=True))
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
    )


def stack() -> timeseries.Panel:
    """Return a panel with an area for each series, one above the other."""
    return lines().fill_opacity(40).stacking(common.StackingConfig().mode(StackingMode.NORMAL))


def states() -> statetimeline.Panel:
    """Return a panel with the states of each series."""
    return statetimeline.Panel().show_value(VisibilityMode.NEVER).merge_values(merge_values=True).row_height(0.8)


BUILDERS: Final[dict[str, Callable[[], Any]]] = {
    "stat": numbers,
    "bars": bars,
    "lines": lines,
    "stack": stack,
    "states": states,
}
