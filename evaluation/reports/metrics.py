"""Figures of merit. Each takes plain values and says where its formula comes from."""

from collections.abc import Mapping, Sequence
from math import comb, log2


def pass_at_k(trials: int, successes: int, k: int) -> float:
    """Return the chance that at least one of `k` runs of a task succeeds: 1 − C(n−c, k)/C(n, k).

    Unbiased estimator of Chen et al. 2021, "Evaluating Large Language Models Trained on Code", §2.1.

    Raises:
        ValueError: fewer trials than k.
    """
    _check_k(trials, k)
    return 1 - comb(trials - successes, k) / comb(trials, k)


def pass_hat_k(trials: int, successes: int, k: int) -> float:
    """Return the chance that all of `k` runs of a task succeed, pass^k: C(c, k)/C(n, k).

    Yao et al. 2024, "τ-bench", §2: reliability over repeats.

    Raises:
        ValueError: fewer trials than k.
    """
    _check_k(trials, k)
    return comb(successes, k) / comb(trials, k)


def _check_k(trials: int, k: int) -> None:
    if not 1 <= k <= trials:
        raise ValueError(f"k must be between 1 and the number of trials ({trials}), not {k}.")


def recall_at(ranking: Sequence[str], relevant: Mapping[str, float], k: int) -> float:
    """Return the share of the relevant documents among the first `k`."""
    wanted = _relevant(relevant)
    return len(wanted.intersection(ranking[:k])) / len(wanted)


def precision_at(ranking: Sequence[str], relevant: Mapping[str, float], k: int) -> float:
    """Return the share of relevant documents in the first `k` places; an empty place counts as irrelevant."""
    return len(_relevant(relevant).intersection(ranking[:k])) / k


def hit_at(ranking: Sequence[str], relevant: Mapping[str, float], k: int) -> float:
    """Return 1 if any of the first `k` is relevant, else 0."""
    return float(bool(_relevant(relevant).intersection(ranking[:k])))


def reciprocal_rank(ranking: Sequence[str], relevant: Mapping[str, float]) -> float:
    """Return 1/rank of the first relevant document, 0 if there is none; its mean over queries is MRR."""
    wanted = _relevant(relevant)
    return next((1 / rank for rank, document in enumerate(ranking, 1) if document in wanted), 0.0)


def ndcg_at(ranking: Sequence[str], relevant: Mapping[str, float], k: int) -> float:
    """Return the normalised discounted cumulative gain of the first `k`.

    Järvelin & Kekäläinen 2002 with linear gain and a discount of log2(rank + 1), as trec_eval's ndcg_cut.
    """
    gains = (relevant.get(document, 0.0) / log2(rank + 1) for rank, document in enumerate(ranking[:k], 1))
    ideal = sorted((gain for gain in relevant.values() if gain > 0), reverse=True)[:k]
    return sum(gains) / sum(gain / log2(rank + 1) for rank, gain in enumerate(ideal, 1))


def _relevant(relevant: Mapping[str, float]) -> set[str]:
    return {document for document, gain in relevant.items() if gain > 0}
