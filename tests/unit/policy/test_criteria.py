"""Each field of a match has one row with all that depends on it."""

import pytest

from webhook.policy import costs, criteria
from webhook.policy.model import Match


def test_a_table_that_lacks_a_criterion_is_not_imported() -> None:
    with pytest.raises(ImportError, match=r"webhook\.example: fields of Match and rows differ: no row for message"):
        criteria.need_all({*criteria.CRITERIA} - {"message"}, "webhook.example")


@pytest.mark.parametrize(
    ("match", "words"),
    [
        pytest.param(Match(cause="OOMKilled", containers=("main", "helper")), " of main or helper", id="containers"),
        pytest.param(Match(exit_codes=(3,), message="*lost*"), " with a message like *lost*", id="a message"),
        pytest.param(Match(reasons=("Evicted",), same_node=2), " for Evicted 2 times on the same node", id="a node"),
    ],
)
def test_a_match_is_said_in_the_words_of_its_criteria(match: Match, words: str) -> None:
    assert criteria.words_of(match) == words


def test_exit_codes_beside_a_criterion_that_the_api_cannot_see_are_left_to_the_ledger() -> None:
    for hidden in (Match(exit_codes=(3,), message="*"), Match(exit_codes=(3,), same_node=2)):
        assert costs.sure_codes(hidden) == frozenset()
    assert costs.sure_codes(Match(exit_codes=(3,), containers=("main",))) == {3}
