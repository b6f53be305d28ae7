"""Back-off: the pauses between attempts that fail."""

from webhook.kube.backoff import Backoff


def test_pauses_double_up_to_the_longest_and_start_again_after_a_success() -> None:
    backoff = Backoff(1, 5)
    assert [backoff.take() for _ in range(4)] == [1, 2, 4, 5]
    backoff.reset()
    assert [backoff.take() for _ in range(2)] == [1, 2]


def test_a_pause_that_is_shortened_doubles_from_there() -> None:
    backoff = Backoff(1, 60)
    pauses = [backoff.take() for _ in range(5)]
    backoff.shorten(3)
    assert [*pauses, backoff.take(), backoff.take()] == [1, 2, 4, 8, 16, 3, 6]
    backoff.reset()
    backoff.shorten(3)
    assert backoff.take() == 1
