"""Metrics against independent implementations and by hand."""

from itertools import combinations
from math import log2

import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from evaluation.reports.metrics import hit_at, ndcg_at, pass_at_k, pass_hat_k, precision_at, recall_at, reciprocal_rank

DOCUMENTS = [f"d{number:02d}" for number in range(30)]
rankings = st.permutations(DOCUMENTS).map(lambda order: order[:20])
judgements = st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(1, 3), min_size=1, max_size=12)
TREC = {"ndcg_cut.10", "recall.5,20", "P.5", "recip_rank", "success.5"}


def trec_eval(ranking: list[str], relevant: dict[str, int]) -> dict[str, float]:
    run = {document: float(len(ranking) - rank) for rank, document in enumerate(ranking)}
    figures: dict[str, float] = pytrec_eval.RelevanceEvaluator({"q": relevant}, TREC).evaluate({"q": run})["q"]
    return figures


@given(rankings, judgements)
def test_retrieval_metrics_equal_trec_eval(ranking: list[str], relevant: dict[str, int]) -> None:
    expected = trec_eval(ranking, relevant)

    assert ndcg_at(ranking, relevant, 10) == pytest.approx(expected["ndcg_cut_10"])
    assert recall_at(ranking, relevant, 5) == pytest.approx(expected["recall_5"])
    assert recall_at(ranking, relevant, 20) == pytest.approx(expected["recall_20"])
    assert precision_at(ranking, relevant, 5) == pytest.approx(expected["P_5"])
    assert reciprocal_rank(ranking, relevant) == pytest.approx(expected["recip_rank"])
    assert hit_at(ranking, relevant, 5) == expected["success_5"]


def test_ndcg_of_one_hit_at_rank_three_is_half() -> None:
    assert ndcg_at(["a", "b", "c"], {"c": 1}, 10) == pytest.approx(1 / log2(4))


@given(st.integers(1, 7), st.data())
def test_pass_figures_equal_counting_every_subset(trials: int, data: st.DataObject) -> None:
    outcomes = data.draw(st.lists(st.booleans(), min_size=trials, max_size=trials))
    k = data.draw(st.integers(1, trials))
    subsets = list(combinations(outcomes, k))

    assert pass_at_k(trials, sum(outcomes), k) == pytest.approx(sum(map(any, subsets)) / len(subsets))
    assert pass_hat_k(trials, sum(outcomes), k) == pytest.approx(sum(map(all, subsets)) / len(subsets))


@pytest.mark.parametrize("k", [0, 5])
def test_pass_at_an_impossible_k_is_refused(k: int) -> None:
    with pytest.raises(ValueError, match="between 1 and the number of trials"):
        pass_at_k(4, 2, k)
