"""Tests of tools in CPython, for a host where sandlock works: Linux 6.7 or newer. In CI there has to be one."""

import os

import pytest

from runtime.sandbox.hosts import find_sandlock

needs_sandlock = pytest.mark.skipif(
    os.environ.get("CI") != "true" and not find_sandlock().works,
    reason="sandlock does not work on this host",
)
RUNTIMES = ["monty", pytest.param("python", marks=needs_sandlock)]
