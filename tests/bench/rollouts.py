"""Twenty roll-outs in order and twenty replicas killed, of two replicas and of three, under load.

Brings a control plane of its own: `python -m tests.bench.rollouts`.
"""

import statistics

from tests.faults.stage import Replica, Stage, Watched, standing

TIMES = 20
RATE = 200  # admissions a second


def main() -> None:
    with standing() as stage:
        for number in (2, 3):
            watched = rolled_out(stage, number)
            print(f"{TIMES} roll-outs, {number} replicas: {told(watched)}")
            watched = killed(stage, number)
            print(f"{TIMES} replicas of {number} killed and started again: {told(watched)}")
            for what, figures in (
                ("failed", [lap.failed for lap in watched.laps]),
                ("seconds from first to last", [lap.seconds for lap in watched.laps]),
            ):
                print(f"  {what}, of one: median {statistics.median(figures):.3g}, most {max(figures):.3g}")


def rolled_out(stage: Stage, number: int) -> Watched:
    """Replace all replicas as the Deployment does: a new one is ready before an old one ends, which takes its time."""
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
    """Kill one replica after the other; each is started again, as the kubelet does, and is ready before the next."""
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
    """Start so many replicas, and wait until the API server asks them."""
    stage.reset()
    replicas = stage.start_together(number)
    stage.until_endpoints(*replicas)
    stage.until_effective()
    return replicas


def told(watched: Watched) -> str:
    tally = watched.tally
    lost = f"{tally.failed} failed, {tally.wrong} wrong"
    return "\n  ".join([f"{tally.admissions} admissions, {lost}", *tally.messages[:3]])


if __name__ == "__main__":
    main()
