"""The labelled pairs that the threshold of merging rests on."""

from bench.mistake_merging import Pair, rate, read_pairs, split_mistake


def test_labelled_pairs_are_enough_different_and_do_not_contradict_each_other() -> None:
    texts, pairs = read_pairs()

    assert len(pairs) >= 200
    assert len({(first, second) for first, second, _ in pairs}) == len(pairs)
    assert all(texts[first]["text"] != texts[second]["text"] for first, second, _ in pairs)


def test_rate_counts_what_is_merged() -> None:
    pairs = [Pair("a", 0.9, True), Pair("a", 0.8, False), Pair("a", 0.7, True)]

    assert rate(pairs, 0.75)[1:] == (0.5, 0.5, 2)


def test_text_is_cut_into_what_was_wrong_and_what_was_right() -> None:
    assert split_mistake("I opened the wrong drawer. I should have looked in the safe.") == (
        "I opened the wrong drawer. I",
        "should have looked in the safe.",
    )
