"""The table that `check --cluster` prints."""

from webhook.admission.judge import Judgement
from webhook.cli import check_cluster
from webhook.cli.check_cluster import Judgements
from webhook.objects import columns
from webhook.systems.job.spec import CRON_JOB, JOB
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec
from webhook.systems.trainer.spec import CLUSTER_TRAINING_RUNTIME

DENIED = Judgement("denied", ("spec.backoffLimit: too many",))
CHANGED = Judgement("changed", ("spec.podFailurePolicy would be added",))
WARNED = Judgement("warned", ("spec.template: odd",))
UNCHANGED = Judgement("unchanged")


def reported(*objects: tuple[KindSpec, str, str, Judgement]) -> list[str]:
    found = Judgements()
    for one in objects:
        found.add(*one)
    return list(columns.lines(found.parts()))


def test_rows_are_sorted_by_verdict_then_namespace_kind_and_name() -> None:
    found = reported(
        (JOB, "ml", "a", WARNED),
        (JOB, "ml", "b", CHANGED),
        (CRON_JOB, "web", "c", DENIED),
        (JOB_SET, "ml", "d", DENIED),
        (JOB, "ml", "e", UNCHANGED),
        (CLUSTER_TRAINING_RUNTIME, "", "f", CHANGED),
    )
    assert found == [
        "VERDICT   OBJECT                     WHAT",
        "DENIED    ml/jobset/d                spec.backoffLimit: too many",
        "DENIED    web/cronjob/c              spec.backoffLimit: too many",
        "CHANGED   clustertrainingruntime/f   spec.podFailurePolicy would be added",
        "CHANGED   ml/job/b                   spec.podFailurePolicy would be added",
        "WARNED    ml/job/a                   spec.template: odd",
        "",
        "6 objects: 2 would be denied, 2 changed, 1 admitted with a warning, 1 admitted as they are",
    ]


def test_objects_with_the_same_finding_share_a_row() -> None:
    found = reported(*((JOB, "ml", f"train-{number}", DENIED) for number in (3, 1, 2)))
    assert found[1] == "DENIED    ml/job/train-1 and 2 more   spec.backoffLimit: too many"


def test_with_every_name_each_object_has_a_line_of_its_own() -> None:
    found = Judgements(every_name=True)
    for name, judgement in (("train-3", DENIED), ("eval", WARNED), ("train-1", DENIED), ("train-2", CHANGED)):
        found.add(JOB, "ml", name, judgement)
    assert list(columns.lines(found.parts()))[1:-2] == [
        "DENIED    ml/job/train-1   spec.backoffLimit: too many",
        "DENIED    ml/job/train-3   spec.backoffLimit: too many",
        "CHANGED   ml/job/train-2   spec.podFailurePolicy would be added",
        "WARNED    ml/job/eval      spec.template: odd",
    ]


def test_each_problem_is_a_line_with_the_name_of_its_object() -> None:
    found = reported((JOB, "ml", "a", Judgement("denied", ("spec.x: one", "spec.y: two"))))
    assert [line.split()[1:3] for line in found[1:3]] == [["ml/job/a", "spec.x:"], ["ml/job/a", "spec.y:"]]


def test_without_objects_there_is_only_the_summary() -> None:
    said = "0 objects: 0 would be denied, 0 changed, 0 admitted with a warning, 0 admitted as they are"
    assert reported() == [said]


def test_a_report_has_a_limited_number_of_rows_and_counts_the_rest() -> None:
    most = check_cluster.MOST_ROWS
    odd = [(JOB, "ml", f"{number}", Judgement("changed", (f"spec.x{number}",))) for number in range(most + 7)]
    found = reported(*odd, (JOB, "ml", "greedy", DENIED))
    assert len(found) == 1 + 1 + most + 3
    assert found[1].startswith("DENIED")
    assert found[-2] == "7 more changed, not listed; check one namespace: -n NAMESPACE"
    assert "1,008 objects: 1 would be denied, 1,007 changed" in found[-1]


def test_a_very_long_finding_is_cut() -> None:
    found = reported((JOB, "ml", "a", Judgement("warned", ("x" * 5_000,))))
    assert len(found[1]) < 400
