"""What the draw alone says of Jobs of one pod, over many markets: `python -m tests.bench.market.ideal`.

No control plane: pods start at once, and the Job controller's back-off is the only wait.
"""

from __future__ import annotations

from statistics import mean

from tests.bench.market.draw import DrawnJob, Market
from tests.bench.market.figures import SPOT_PRICE, TIME_WANTED

MARKETS = 400
JOBS = 24  # in each
LIVES = (1, 2, 4)
LIMITS = (1, 2, 3, 20)
FIRST_WAIT, LONGEST_WAIT = 10 / 60, 10  # minutes


def run(market: Market, job: DrawnJob, limit: int) -> tuple[float, float]:
    """Return a Job's time, and its cost in minutes of an on-demand machine."""
    (minutes,) = job.minutes
    time = cost = 0.0
    for number in range(limit):
        life = market.life_of_pod(job.name, number)
        if life >= minutes:
            return time + minutes, cost + SPOT_PRICE * minutes
        time += life + min(LONGEST_WAIT, FIRST_WAIT * 2**number)
        cost += SPOT_PRICE * life
    return time + minutes, cost + minutes


def outcome(market: Market, limit: int) -> tuple[float, float]:
    """Return the slowest Job's time, and the cost of all, over what they are on-demand."""
    jobs = market.jobs(JOBS, 0)
    ends = [run(market, job, limit) for job in jobs]
    minutes = [job.minutes[0] for job in jobs]
    return max(time for time, _ in ends) / max(minutes), sum(cost for _, cost in ends) / sum(minutes)


def main() -> None:
    print("| Spot life | Limit | markets with every Job in time | cost, mean |\n|---|---|---|---|")
    for life in LIVES:
        for limit in LIMITS:
            ends = [outcome(Market(seed, life), limit) for seed in range(MARKETS)]
            in_time = mean(slowest <= TIME_WANTED for slowest, _ in ends)
            print(f"| {life} | {limit} | {in_time:.0%} | {mean(cost for _, cost in ends):.2f} |")


if __name__ == "__main__":
    main()
