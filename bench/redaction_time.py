"""Measure how the time of redaction grows with the length of hostile texts: `python -m bench.redaction_time`.

Each family of texts is redacted at lengths that double. Prints the exponent of the growth for each, worst first, and
fails if one is above 1.1 three times in a row: noise passes, a quadratic rule does not.
"""

import os
import sys

from django.conf import settings

if not settings.configured:
    settings.configure(SECRET_KEY=os.urandom(16).hex())

from tests.memory.redaction_families import FAMILIES, growth

LENGTHS = (8_192, 16_384, 32_768, 65_536, 131_072)
MOST = 1.1
_TRIES = 3


def measure(family: str) -> tuple[float, float]:
    """Return the exponent and the seconds for the longest text; of up to three tries the one with the least growth."""
    tried = []
    for number in range(_TRIES):
        tried.append(growth(family, LENGTHS, rounds=3 + 2 * number))
        if tried[-1][0] <= MOST:
            break
    return min(tried)


def main() -> None:
    measured = sorted(((measure(family), family) for family in FAMILIES), reverse=True)
    for (exponent, seconds), family in measured:
        print(f"{exponent:5.2f}  {1000 * seconds:7.1f} ms for {LENGTHS[-1]:,} characters  {family}")
    (worst, _), family = measured[0]
    (slowest, dearest) = max((seconds, family) for (_, seconds), family in measured)
    print(
        f"{len(measured)} families; worst exponent {worst:.2f} ({family}); slowest {slowest * 1000:.0f} ms ({dearest})"
    )
    sys.exit(worst > MOST)


if __name__ == "__main__":
    main()
