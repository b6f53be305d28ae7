"""The clock: its time has a time zone, so that it can be compared with the API's times."""

from datetime import timedelta

from webhook.kube.clock import utc_now


def test_the_time_is_in_utc() -> None:
    assert utc_now().utcoffset() == timedelta(0)
