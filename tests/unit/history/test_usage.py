"""What attempts used, added up by cause and capacity."""

from webhook.history.usage import MOST_RESOURCES, Rows, Used, UsedRow, add, every, forget_prices

GPUS = Used(100.0, (("cpu", 0.1), ("memory", 2.0**29), ("nvidia.com/gpu", 2.0)), "Spot", 0.5, "USD")


def rows_of(*attempts: tuple[str, Used]) -> tuple[Rows, list[str]]:
    rows: Rows = {}
    names: list[str] = []
    for cause, used in attempts:
        add(rows, cause, used, names)
    return rows, names


def test_attempts_are_added_up_by_cause_and_capacity() -> None:
    on_demand = GPUS._replace(capacity="OnDemand", price=None)
    rows, names = rows_of(("Disruption", GPUS), ("Disruption", GPUS), ("Disruption", on_demand), ("ExitCode", GPUS))
    assert names == ["cpu", "memory", "nvidia.com/gpu"]
    assert rows["Disruption"] == {
        "Spot": UsedRow(2, 200.0, 2, 1.0, [20.0, 100.0, 400.0]),
        "OnDemand": UsedRow(1, 100.0, 0, 0.0, [10.0, 50.0, 200.0]),
    }
    assert rows["ExitCode"]["Spot"].attempts == 1


def test_a_thousand_tenths_are_a_hundred() -> None:
    rows, _ = rows_of(*[("Other", Used(1.0, (("cpu", 0.1),)))] * 1000)
    assert rows["Other"][""].resources == [100.0]


def test_a_resource_that_comes_later_stands_after_the_others() -> None:
    rows, names = rows_of(("Other", Used(10.0, (("cpu", 1.0),))), ("Other", Used(10.0, (("a.b/c", 3.0),))))
    assert (names, rows["Other"][""].resources) == (["cpu", "a.b/c"], [10.0, 30.0])


def test_at_most_five_resources_are_listed_and_no_long_names() -> None:
    many = tuple((f"a.b/{number}", 1.0) for number in range(9))
    rows, names = rows_of(("Other", Used(1.0, (("a.b/" + "x" * 60, 1.0), *many))))
    assert names == [f"a.b/{number}" for number in range(MOST_RESOURCES)]
    assert rows["Other"][""].resources == [1.0] * MOST_RESOURCES


def test_prices_are_forgotten_and_nothing_else() -> None:
    rows, _ = rows_of(("A", GPUS))
    forget_prices(rows)
    assert every(rows) == [UsedRow(1, 100.0, 0, 0.0, [10.0, 50.0, 200.0])]


def test_no_sum_is_larger_than_a_record_allows() -> None:
    rows, _ = rows_of(*[("A", Used(1e12, (("cpu", 1e18),), "", 1e300, "USD"))] * 3)
    assert every(rows) == [UsedRow(3, 3e12, 3, 1e18, [1e18])]
