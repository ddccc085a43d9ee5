"""The judge of a history finds what was lost, doubled or never asked for: its own negative control (F25)."""

from tests.chaos.profile import History


def told(*, attempted: str, acknowledged: str) -> History:
    history = History(name="history")
    for key in attempted:
        history.attempt(key)
    for key in acknowledged:
        history.acknowledge(key)
    return history


def test_sound_history_is_called_sound() -> None:
    verdict = told(attempted="abc", acknowledged="ab").judge("abc")  # c was done, and nobody heard of it

    assert verdict.is_sound
    assert verdict.counts()["present"] == 3


def test_loss_duplicate_and_surprise_are_named() -> None:
    verdict = told(attempted="abc", acknowledged="ab").judge("bbx")

    assert (verdict.lost, verdict.duplicated, verdict.unexpected) == (["a"], ["b"], ["x"])
    assert not verdict.is_sound
