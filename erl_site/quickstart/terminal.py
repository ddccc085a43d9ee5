"""Terminal output: one line per step, with its result and duration."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

NAME_WIDTH = 13
BAR_WIDTH = 24
REDRAW_SECONDS = 0.1


class Terminal:
    """Writes steps, progress and paragraphs. Redraws and uses colours only on a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.live = stream.isatty()
        self.colour = self.live and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self._drawn_at = 0.0
        self._unicode = _can_write(stream, "✓█")

    def say(self, text: str = "", *, indent: int = 2) -> None:
        """Write a paragraph."""
        for line in text.split("\n"):
            self._write(f"{' ' * indent}{line}".rstrip() + "\n")

    def title(self, text: str) -> None:
        """Write a heading after an empty line."""
        self._write(f"\n{self._styled(text, '1')}\n")

    def event(self, name: str, sentence: str) -> None:
        """Write an event with the time of day."""
        clear = "\r\033[K" if self.live else ""
        self._write(f"{clear}  {time.strftime('%H:%M:%S')}  {name} {sentence}\n")

    @contextmanager
    def working(self, name: str) -> Iterator[list[str]]:
        """Show that a step is running, then its result and duration. Append the words of the result to the list."""
        started, words = time.monotonic(), list[str]()
        self._draw(f"  {self._mark('…', '.', '33')} {name}")
        try:
            yield words
        except BaseException:
            self._line(self._mark("✗", "x", "31"), name, "failed", started)
            raise
        self._line(self._mark("✓", "+", "32"), name, " ".join(words), started)

    def progress(self, name: str, done: int, total: int) -> None:
        """Draw a progress bar. Does nothing without a terminal."""
        if done < total and time.monotonic() - self._drawn_at < REDRAW_SECONDS:
            return
        filled = BAR_WIDTH * done // max(total, 1)
        full, empty = ("█", "░") if self._unicode else ("#", "-")
        bar = full * filled + empty * (BAR_WIDTH - filled)
        self._draw(f"  {self._mark('…', '.', '33')} {name:<{NAME_WIDTH}} {bar} {done}/{total}")
        self._drawn_at = time.monotonic()

    def _line(self, mark: str, name: str, words: str, started: float) -> None:
        seconds = f"{time.monotonic() - started:.1f} s"
        clear = "\r\033[K" if self.live else ""
        self._write(f"{clear}  {mark} {name:<{NAME_WIDTH}} {words:<56} {self._styled(f'{seconds:>7}', '2')}\n")

    def _draw(self, text: str) -> None:
        if self.live:
            self._write(f"\r\033[K{text}")

    def _mark(self, symbol: str, plain: str, colour: str) -> str:
        return self._styled(symbol if self._unicode else plain, colour)

    def _styled(self, text: str, code: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self.colour else text

    def _write(self, text: str) -> None:
        encoding = self.stream.encoding or "utf-8"
        # A closed terminal must not prevent a clean stop.
        with suppress(OSError):
            self.stream.write(text.encode(encoding, "replace").decode(encoding))
            self.stream.flush()


def _can_write(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True
