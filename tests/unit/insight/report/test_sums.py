"""Sums of usage."""

import pytest

from webhook.insight.report.model import Usage
from webhook.insight.report.sums import Sum, importance_by, loss_of, resource_seconds
from webhook.policy.causes import Cause, Loss


@pytest.mark.parametrize(
    ("cause", "reason", "loss"),
    [
        ("ExitCode", "main 1", "Bugs"),
        ("OOMKilled", "main", "Bugs"),
        ("DeadlineExceeded", "", "Bugs"),
        ("Disruption", "PreemptionByScheduler", "Disruptions"),
        ("Disruption", "SpotUnavailable", "Capacity"),
        ("NeverStarted", "ErrImagePull", "NeverStarted"),
        ("Other", "Stopped", "Other"),
        ("WorkloadEvicted", "Preempted", "Other"),
    ],
)
def test_an_attempt_is_lost_to_what_ended_it(cause: Cause, reason: str, loss: Loss) -> None:
    assert loss_of(cause, reason) == loss


def test_memory_is_summed_in_gib_seconds() -> None:
    assert resource_seconds({"cpu": 2.0, "memory": 3.0 * 2**30}, 10.0) == {"cpu": 20.0, "memory": 30.0}


def test_a_sum_has_a_price_until_a_part_has_none() -> None:
    whole, part = Sum(), Sum()
    part.add(1, 10.0, {"cpu": 1.0}, 0.5)
    whole.merge(part)
    whole.merge(part)
    assert whole.usage(priced=True) == Usage(attempts=2, seconds=20.0, resources={"cpu": 2.0}, price=1.0)
    assert whole.usage(priced=False).price is None
    part.add(1, 10.0, {}, None)
    whole.merge(part)
    assert whole.usage(priced=True) == Usage(attempts=4, seconds=40.0, resources={"cpu": 3.0}, price=None)


def test_losses_are_compared_by_price_by_share_or_by_time() -> None:
    loss = Usage(attempts=1, seconds=5.0, resources={"cpu": 1.0, "nvidia.com/gpu": 1.0}, price=3.0)
    used = Usage(attempts=2, seconds=10.0, resources={"cpu": 10.0, "nvidia.com/gpu": 2.0})
    assert importance_by(Usage(price=9.0))(loss) == 3.0
    assert importance_by(used)(loss) == 0.3  # the mean of a tenth and a half
    assert importance_by(Usage())(Usage()) == 0.0


def test_a_resource_that_the_sum_of_all_attempts_lacks_decides_nothing() -> None:
    used = Usage(attempts=1, seconds=10.0, resources={"cpu": 10.0, "memory": 0.0})
    loss = Usage(attempts=1, seconds=5.0, resources={"cpu": 1.0, "memory": 2.0, "nvidia.com/gpu": 3.0})
    assert importance_by(used)(loss) == 0.1
    assert importance_by(Usage(seconds=10.0))(loss) == 0.5
