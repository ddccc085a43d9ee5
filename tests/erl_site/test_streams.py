"""Which reader gets a stream."""

import pytest

from erl_site.web.streams import Seats

A, B, OTHER = ("key:a", "project:1"), ("key:b", "project:1"), ("key:c", "project:2")


def taken(seats: Seats, *readers: tuple[str, ...]) -> list[bool]:
    return [seats.take(reader) for reader in readers]


def test_key_never_holds_more_than_are_left() -> None:
    assert sum(taken(Seats(16), *[A] * 16)) == 8


def test_keys_of_one_project_leave_a_quarter_to_others() -> None:
    seats = Seats(16)
    assert sum(taken(seats, *[A] * 16, *[B] * 16)) == 12
    assert seats.take(OTHER)


@pytest.mark.parametrize("reader", [OTHER, ("user:7",)])
def test_another_finds_one_however_many_keys_hold_what_they_may(reader: tuple[str, ...]) -> None:
    seats = Seats(16)
    taken(seats, *[(f"key:{number}", f"project:{number % 3}") for number in range(4) for _ in range(16)])
    assert seats.take(reader)


def test_stream_that_ended_makes_room() -> None:
    seats = Seats(4)
    assert taken(seats, A, A, A) == [True, True, False]
    seats.give_back(A)
    assert seats.take(A)
