"""Which request gets a thread."""

from asyncio import Future
from typing import Any, cast

import pytest

from erl_site.web.turns import Turn, Turns, read_credential

NO_ANSWER = cast("Future[Any]", None)


def make(key: bytes) -> Turn:
    return Turn(scope={}, body=b"", credential=key, answer=NO_ANSWER)


def started(*keys: bytes, threads: int = 2, most_in_flight: int = 0) -> tuple[Turns, list[Turn], list[bool]]:
    """Add a request of each key; return those that have a thread, in order, and which were taken."""
    begun: list[Turn] = []
    turns = Turns(threads=threads, most_in_flight=most_in_flight, start=begun.append)
    return turns, begun, [turns.add(make(key)) for key in keys]


def test_key_has_all_threads_but_one() -> None:
    _, begun, _ = started(b"a", b"a", b"a", b"b", threads=3)
    assert [turn.credential for turn in begun] == [b"a", b"a", b"b"]


def test_only_thread_is_for_any_key() -> None:
    _, begun, _ = started(b"a", b"b", threads=1)
    assert [turn.credential for turn in begun] == [b"a"]


def test_keys_take_turns() -> None:
    turns, begun, _ = started(b"a", b"a", b"a", b"b", b"b", b"c", threads=1)
    for turn in begun:  # grows meanwhile
        turns.finish(turn)
    assert [turn.credential for turn in begun] == [b"a", b"a", b"b", b"c", b"a", b"b"]


def test_waiting_are_those_without_a_thread() -> None:
    turns, begun, _ = started(b"a", b"a", b"b", threads=1)
    assert turns.count_waiting() == 2
    turns.finish(begun[0])
    assert turns.count_waiting() == 1


def test_request_that_steps_aside_leaves_its_thread_to_the_next() -> None:
    turns, begun, _ = started(b"a", b"b", threads=1)
    turns.step_aside(begun[0])
    assert [turn.credential for turn in begun] == [b"a", b"b"]
    turns.finish(begun[0])
    turns.finish(begun[1])
    turns.add(make(b"c"))
    turns.add(make(b"d"))
    assert [turn.credential for turn in begun] == [b"a", b"b", b"c"]


def test_key_with_too_many_in_flight_is_refused_until_one_is_answered() -> None:
    turns, begun, taken = started(b"a", b"a", b"a", b"b", threads=4, most_in_flight=2)
    assert taken == [True, True, False, True]
    turns.finish(begun[0])
    assert turns.add(make(b"a"))


def test_requests_without_a_key_have_no_limit() -> None:
    _, _, taken = started(b"", b"", b"", threads=1, most_in_flight=1)
    assert taken == [True, True, True]


@pytest.mark.parametrize("value", [b"Bearer key", b"bearer  key ", b"  BEARER key"])
def test_one_key_is_one_credential_however_it_is_written(value: bytes) -> None:
    assert read_credential([(b"host", b"localhost"), (b"authorization", value)]) == b"key"


def test_request_without_a_key_has_no_credential() -> None:
    assert read_credential([(b"host", b"localhost")]) == b""
