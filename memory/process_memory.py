"""Memory of this process that is free and not given back."""

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # the numbers of glibc's malloc.h
_LARGE_BYTES = 1_000_000


def return_memory() -> None:
    """Give the system back what was read in bulk and is not needed any more: after the model 75 MB of 260."""
    with suppress(OSError, AttributeError):  # glibc's alone
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def return_large_blocks() -> None:
    """Let whatever is larger than a megabyte go back to the system as soon as it is free, from now on.

    Otherwise glibc raises that limit with every large block, up to 32 MB, and each thread keeps what its longest text
    needed (`tests.bench.embedder_memory`, docs/performance.md). What short texts need stays with the process, so that
    embedding them takes as long as before.
    """
    with suppress(OSError, AttributeError):  # glibc's alone
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
        libc.mallopt(_TRIM_THRESHOLD, 4 * _LARGE_BYTES)
