"""What a pod says of itself is believed only if one of the two programs wrote it for the same controller's pods."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from webhook.kube import names
from webhook.kube.state_key import SIZE, StateKey

KEY = StateKey(b"k" * SIZE)
STATE = {names.ATTEMPT: "1", names.MAX_RETRIES: "3", names.PLACEMENT: "Spot"}
PROVEN = {**STATE, names.PROOF: KEY.proof_of_state("ml", "uid", STATE)}
OF_OURS = st.dictionaries(st.sampled_from([*names.PROVEN, names.PROOF]), st.text())


def test_what_was_written_with_the_key_is_believed() -> None:
    assert KEY.proves_state("ml", "uid", PROVEN)


def test_other_annotations_of_the_pod_change_nothing() -> None:
    assert KEY.proves_state("ml", "uid", {**PROVEN, "team.example/owner": "a"})


def test_a_proof_is_of_one_namespace_one_controller_and_one_key() -> None:
    assert not KEY.proves_state("other", "uid", PROVEN)
    assert not KEY.proves_state("ml", "other", PROVEN)
    assert not StateKey(b"x" * SIZE).proves_state("ml", "uid", PROVEN)


@given(OF_OURS)
def test_no_other_state_is_believed(annotations: dict[str, str]) -> None:
    assert not KEY.proves_state("ml", "uid", annotations)
    changed = {**PROVEN, **annotations}
    if changed != PROVEN:
        assert not KEY.proves_state("ml", "uid", changed)


def test_a_value_cannot_move_from_one_key_to_another() -> None:
    for first, second in combinations(names.PROVEN, 2):
        proof = KEY.proof_of_state("ml", "uid", {first: "1"})
        assert not KEY.proves_state("ml", "uid", {second: "1", names.PROOF: proof})


def test_a_mark_says_what_was_counted_of_one_pod() -> None:
    mark = KEY.mark("pod-uid", "restarts 3")
    assert KEY.counted("pod-uid", mark) == "restarts 3"
    assert KEY.counted("other", mark) == ""


@given(st.text())
def test_any_other_mark_says_nothing(mark: str) -> None:
    assert KEY.counted("pod-uid", mark) == ""
