"""Twenty roll-outs and twenty killed replicas under load, with two replicas and with three.

Starts its own control plane: `python -m tests.bench.rollouts`.
"""

import statistics

from tests.faults.stage import Replica, Stage, new_stage
from tests.faults.watched import Watched

TIMES = 20
RATE = 200  # admissions a second


def main() -> None:
    with new_stage() as stage:
        for number in (2, 3):
            watched = rolled_out(stage, number)
            print(f"{TIMES} roll-outs, {number} replicas: {summary(watched)}")
            watched = killed(stage, number)
            print(f"{TIMES} replicas of {number} killed and started again: {summary(watched)}")
            for what, figures in (
                ("failed", [lap.failed for lap in watched.laps]),
                ("seconds from first to last", [lap.seconds for lap in watched.laps]),
            ):
                print(f"  {what}, of one: median {statistics.median(figures):.3g}, most {max(figures):.3g}")


def rolled_out(stage: Stage, number: int) -> Watched:
    """Replace all replicas as the Deployment does: a new one is ready before an old one is terminated."""
    replicas = begun(stage, number)
    ending: list[Replica] = []
    with stage.under_load(f"roll-outs of {number}", rate=RATE) as watched:
        for _ in range(TIMES):
            for old in [*replicas]:
                replicas.append(stage.start())
                stage.until_endpoints(*replicas)
                stage.terminate(old)
                replicas.remove(old)
                ending.append(old)
        for old in ending:
            stage.until_ended(old)
    wrong = [old.process.returncode for old in ending if old.process.returncode]
    if wrong:
        print(f"ended with {wrong}")
    return watched


def killed(stage: Stage, number: int) -> Watched:
    """Kill one replica after the other; its successor is ready before the next one is killed."""
    replicas = begun(stage, number)
    with stage.under_load(f"SIGKILL of one of {number}", rate=RATE) as watched:
        for _ in range(TIMES):
            stage.kill(replicas.pop(0))
            replicas.append(stage.start())
            stage.until_endpoints(*replicas)
            watched.until_sent()
            watched.lap()
    return watched


def begun(stage: Stage, number: int) -> list[Replica]:
    """Start this number of replicas, and wait until the API server calls them."""
    stage.reset()
    replicas = stage.start_together(number)
    stage.until_endpoints(*replicas)
    stage.until_effective()
    return replicas


def summary(watched: Watched) -> str:
    tally = watched.tally
    lost = f"{tally.failed} failed, {tally.wrong} wrong"
    return "\n  ".join([f"{tally.admissions} admissions, {lost}", *tally.messages[:3]])


if __name__ == "__main__":
    main()
