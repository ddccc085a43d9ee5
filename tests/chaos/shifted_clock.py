"""Run a module with a clock that is wrong: `python -m tests.chaos.shifted_clock SECONDS MODULE [ARGUMENT …]`.

Every reading of the wall clock in this process and its forks is off by so many seconds and goes on from there; the
monotonic clock, and what other processes read, are right.
"""

import runpy
import sys
import time

import time_machine

if __name__ == "__main__":
    _, shift, module, *arguments = sys.argv
    time_machine.travel(time.time() + float(shift), tick=True).start()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
