"""Numbers that commands are given."""

from argparse import ArgumentTypeError
from collections.abc import Callable


def number_up_to(most: int, *, least: int = 0) -> Callable[[str], int]:
    """Return how to read a whole number between two, which argparse reports in its own words."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise ArgumentTypeError(f"{text!r} is no whole number from {least} to {most:,}")
        return number

    return read
